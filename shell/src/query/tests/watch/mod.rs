//! What a session says of what its statements did.

mod explain;
mod queries;
mod slow;
mod summarize;
mod system;
mod tracing;

use super::World;

/// A table of a partition `1` of 5,000 rows in an SSTable, of which nothing is cached.
async fn cold() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO t SELECT 1, value, 'x' FROM generate_series(1, 5000) AS s(value)").await;
    world.run("FLUSH t").await;
    world
}

//! What a caller refuses by itself, before it asks a shard.

use std::sync::Arc;

use crate::admission::{FailFast, QueuePlace, Terms, rate};
use crate::database::database::Database;
use crate::database::shard::read::class_of;
use crate::error::Result;
use crate::policy::rate::Operation;
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;
use crate::table::{Partitions, ReadCommand};

impl Database {
    /// What callers of a shard refuse by themselves.
    pub(super) fn fail_fast(&self, shard: u32) -> &Arc<FailFast> {
        &self.inner.fail_fast[shard as usize]
    }
}

/// A read of a partition, as the rate is limited; `None` where its shard has to say what is wrong
/// with the key.
pub(super) fn read_of(schema: &SchemaRef, key: &PartitionKey) -> Option<rate::Asked> {
    let token = key.rate_token(schema).ok()?;
    Some(rate::Asked { table: schema.id, token, operation: Operation::Read })
}

/// Refuses what the shard would refuse. Returns the place of a read among those that wait, and
/// whether it was counted against the limit of its partition.
///
/// Errors: `Overloaded`, `RateLimited`.
pub(super) fn refuse_here(
    database: &Database,
    shard: u32,
    (command, terms): (&ReadCommand, &Terms),
) -> Result<(Option<QueuePlace>, bool)> {
    let (fail_fast, clock) = (database.fail_fast(shard), &**database.clock());
    let place = fail_fast.check_queue(class_of(&command.partitions), terms, clock)?;
    let Partitions::Keys(keys) = &command.partitions else { return Ok((place, false)) };
    let [key] = &keys[..] else { return Ok((place, false)) };
    let is_counted = fail_fast.check_rate(|| read_of(&command.schema, key), clock)?;
    Ok((place, is_counted))
}

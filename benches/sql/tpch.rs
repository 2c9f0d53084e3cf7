//! The 22 queries of TPC-H, beside plain DataFusion over Parquet files of the same rows: all of
//! them one after another, and then all again, twice. In the first passes scans bring the tables
//! into the row cache.

use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::frame::{Arguments, Row, Target, wall};
use crate::tables::{TABLES, query, write_tables};
use crate::world::World;

const SUM: &str = "TPC-H, sum of 22 queries";
const FIRST: &str = "the same, the first time";
const PASSES: usize = 3;
const QUERIES: usize = 22;

fn name_of(number: usize) -> String {
    format!("TPC-H, q{number:02}")
}

/// How long a query took here and there, ms.
#[derive(Clone, Copy)]
struct Took {
    own: f64,
    parquet: f64,
}

impl Took {
    fn sum(all: &[Took]) -> Took {
        let sum = |of: fn(&Took) -> f64| all.iter().map(of).sum();
        Took { own: sum(|took| took.own), parquet: sum(|took| took.parquet) }
    }

    fn print(self, arguments: &Arguments, name: &str, target: Target) {
        let baseline = Some(("DataFusion over Parquet", self.parquet));
        Row { name, unit: "ms", figure: self.own, baseline, target }.print(arguments);
    }
}

async fn took(world: &World, parquet: &SessionContext, text: &str) -> Took {
    let start = wall();
    parquet.sql(text).await.unwrap().collect().await.unwrap();
    let parquet = (wall() - start).as_secs_f64() * 1e3;
    Took { own: world.best_ms(text, 1).await, parquet }
}

/// Loads the tables, and writes what they hold as Parquet files.
async fn load(world: &World, scale: f64) -> SessionContext {
    let folder = world.directory.path().to_owned();
    write_tables(&folder, scale);
    let parquet = SessionContext::new();
    for (name, columns) in TABLES {
        world.run(&format!("CREATE TABLE {name} ({columns})")).await;
        let file = |ending: &str| folder.join(format!("{name}.{ending}")).display().to_string();
        let (csv, stored) = (file("csv"), file("parquet"));
        world.run(&format!("COPY {name} FROM '{csv}' WITH (FORMAT csv, HEADER true)")).await;
        world.run(&format!("COPY {name} TO '{stored}'")).await;
        std::fs::remove_file(csv).unwrap();
        parquet.register_parquet(name, &stored, ParquetReadOptions::default()).await.unwrap();
    }
    world.run("FLUSH").await;
    for (name, _) in TABLES {
        world.run(&format!("COMPACT {name}")).await;
    }
    parquet
}

pub async fn print(arguments: &Arguments) {
    let mut names = (1..=QUERIES).map(name_of).chain([SUM.to_owned(), FIRST.to_owned()]);
    if !names.any(|name| arguments.wants(&name)) {
        return;
    }
    let scale = if arguments.quick { 0.1 } else { 1.0 };
    let world = World::new().await;
    let parquet = load(&world, scale).await;
    let mut passes = Vec::with_capacity(PASSES);
    for _ in 0..PASSES {
        let mut pass = Vec::with_capacity(QUERIES);
        for number in 1..=QUERIES {
            let text = query(&format!("q{number:02}"), scale);
            pass.push(took(&world, &parquet, &text).await);
        }
        passes.push(pass);
    }
    let least = |query: usize, of: fn(&Took) -> f64| {
        passes.iter().map(|pass| of(&pass[query])).fold(f64::INFINITY, f64::min)
    };
    let best = |query| Took {
        own: least(query, |took| took.own),
        parquet: least(query, |took| took.parquet),
    };
    let best: Vec<Took> = (0..QUERIES).map(best).collect();
    for (query, took) in best.iter().enumerate() {
        let name = name_of(query + 1);
        if arguments.wants(&name) {
            took.print(arguments, &name, Target::None);
        }
    }
    if arguments.wants(SUM) || arguments.wants(FIRST) {
        Took::sum(&best).print(arguments, SUM, Target::RatioAtMost(4.0));
        Took::sum(&passes[0]).print(arguments, FIRST, Target::None);
    }
    world.close().await;
}

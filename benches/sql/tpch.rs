//! The 22 queries of TPC-H, beside plain DataFusion over Parquet files of the same rows.

use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::frame::{Arguments, Row, Target, wall};
use crate::tables::{TABLES, query, write_tables};
use crate::world::World;

const SUM: &str = "TPC-H, sum of 22 queries";

fn name_of(number: usize) -> String {
    format!("TPC-H, q{number:02}")
}

async fn parquet_ms(parquet: &SessionContext, text: &str) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..2 {
        let start = wall();
        parquet.sql(text).await.unwrap().collect().await.unwrap();
        best = best.min((wall() - start).as_secs_f64() * 1e3);
    }
    best
}

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(SUM) && !(1..=22).any(|number| arguments.wants(&name_of(number))) {
        return;
    }
    let scale = if arguments.quick { 0.1 } else { 1.0 };
    let world = World::new().await;
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
    let (mut sum, mut parquet_sum) = (0.0, 0.0);
    for number in 1..=22 {
        let text = query(&format!("q{number:02}"), scale);
        let beside = parquet_ms(&parquet, &text).await;
        let figure = world.best_ms(&text, 2).await;
        (sum, parquet_sum) = (sum + figure, parquet_sum + beside);
        let name = name_of(number);
        if arguments.wants(&name) {
            let baseline = Some(("DataFusion over Parquet", beside));
            let target = Target::None;
            Row { name: &name, unit: "ms", figure, baseline, target }.print(arguments);
        }
    }
    if arguments.wants(SUM) {
        let baseline = Some(("DataFusion over Parquet", parquet_sum));
        let target = Target::RatioAtMost(4.0);
        Row { name: SUM, unit: "ms", figure: sum, baseline, target }.print(arguments);
    }
    world.close().await;
}

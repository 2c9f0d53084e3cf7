//! Random statements against a naive model: tables half in memtables and half in SSTables, written,
//! flushed, opened again, and asked.
//!
//! The model evaluates the tree that was printed as SQL, over vectors of rows, by nested loops. On
//! a difference the test prints the seed, all statements before it, and the smallest query that
//! still differs. `TIDEGATE_ANSWERS=from..to` plays other seeds, `TIDEGATE_ANSWERS=n` replays one.
//! A folder in `TIDEGATE_ANSWERS_DUMP` gets what was asked and found, for
//! `tests/answers/duckdb.py`.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "answers/aggregate.rs"]
mod aggregate;
#[path = "answers/ast.rs"]
mod ast;
#[path = "answers/compare.rs"]
mod compare;
#[path = "answers/dump.rs"]
mod dump;
#[path = "answers/evaluate.rs"]
mod evaluate;
#[path = "answers/expression.rs"]
mod expression;
#[path = "answers/generate.rs"]
mod generate;
#[path = "answers/print.rs"]
mod print;
#[path = "answers/query.rs"]
mod query;
#[path = "answers/scalar.rs"]
mod scalar;
#[path = "seeds.rs"]
mod seeds;
#[path = "answers/shrink.rs"]
mod shrink;
#[path = "answers/table.rs"]
mod table;
#[path = "answers/value.rs"]
mod value;
#[path = "answers/window.rs"]
mod window;
#[path = "answers/write.rs"]
mod write;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::query::{Session, SessionOptions};
use tidegate_engine::clock::{Clock, SimulatedClock};
use tidegate_engine::{Database, Durability, Options};

use ast::Query;
use dump::Dump;
use evaluate::{Model, Row};
use generate::Generator;
use table::Table;

/// Seeds of a run; each plays about 250 statements.
const SEEDS: u64 = 6;
const TABLES: usize = 3;
const WRITES: usize = 22;
const QUERIES: usize = 70;
/// One query more for so many, drawn to have no answer as often as not.
const QUERIES_AN_EXTREME: usize = 20;
/// Queries tried to make a failing one smaller.
const SHRINK_MAX: usize = 500;
/// Differences after which a seed ends.
const DIFFERENCES_MAX: usize = 3;

/// What a run met, to see that it met what it is meant to meet.
#[derive(Debug, Default, Clone, Copy)]
struct Met {
    queries: u64,
    rows: u64,
    writes: u64,
    refused: u64,
    /// Queries without an answer, as of a sum that is too large.
    failing: u64,
    /// Those of them that nothing spares the engine.
    refusing: u64,
}

impl Met {
    fn add(&mut self, other: Met) {
        self.queries += other.queries;
        self.rows += other.rows;
        self.writes += other.writes;
        self.refused += other.refused;
        self.failing += other.failing;
        self.refusing += other.refusing;
    }
}

/// A database, and the model's tables.
struct World {
    session: Session,
    clock: Arc<SimulatedClock>,
    tables: Vec<Table>,
    model: Model,
    generator: Generator,
    /// Draws queries at the ends of their types.
    extremes: Generator,
    /// All that was run, to be printed.
    script: Vec<String>,
    differences: Vec<String>,
    dump: Option<Dump>,
    met: Met,
}

async fn open(directory: &Path, clock: &Arc<SimulatedClock>) -> Session {
    let mut options = Options::new(directory);
    options.shards = Some(2);
    options.durability = Durability::None;
    options.clock = clock.clone();
    let database = Database::open(options).await.unwrap();
    Session::new(database, SessionOptions::default()).unwrap()
}

impl World {
    async fn new(directory: &Path, seed: u64) -> World {
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        World {
            session: open(directory, &clock).await,
            clock,
            tables: Vec::new(),
            model: Model { tables: Default::default() },
            generator: Generator::new(seed),
            extremes: Generator::new(!seed),
            script: Vec::new(),
            differences: Vec::new(),
            dump: Dump::of_seed(seed),
            met: Met::default(),
        }
    }

    async fn play(&mut self, directory: &Path) -> Result<(), String> {
        for at in 0..TABLES {
            let table = self.generator.draw_table(&format!("t{at}"));
            self.run(&table.create()).await?;
            self.tables.push(table);
        }
        self.write(WRITES).await?;
        self.ask(QUERIES / 2).await?;
        self.run("FLUSH").await?;
        self.pass(3);
        self.write(WRITES).await?;
        self.ask(QUERIES).await?;
        self.pass(40);
        self.session.database().close().await.map_err(|error| error.to_string())?;
        self.script.push("-- opened again".into());
        self.session = open(directory, &self.clock).await;
        self.write(WRITES / 2).await?;
        self.ask(QUERIES).await?;
        self.session.database().close().await.map_err(|error| error.to_string())
    }

    fn pass(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.script.push(format!("-- {seconds} s pass"));
    }

    async fn run(&mut self, sql: &str) -> Result<(), String> {
        self.script.push(format!("{sql};"));
        match self.session.execute(sql).await {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{sql}\n{error}")),
        }
    }

    /// Writes to every table.
    async fn write(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count * self.tables.len() {
            self.clock.advance(Duration::from_millis(1));
            let at = self.generator.below(self.tables.len());
            let statement = self.generator.write(&self.tables[at], self.clock.wall_us());
            match self.run(&statement.sql).await {
                Ok(()) => {
                    self.tables[at].writes.extend(statement.writes);
                    self.met.writes += 1;
                }
                Err(_) if statement.may_be_refused => {
                    let refused = self.script.pop().unwrap_or_default();
                    self.script.push(format!("-- refused: {refused}"));
                    self.met.refused += 1;
                }
                Err(error) => return Err(error),
            }
        }
        let now = self.clock.wall_seconds();
        for table in &self.tables {
            let contents = table.contents(now);
            if let Some(dump) = &mut self.dump {
                dump.table(table, &contents);
            }
            self.model.tables.insert(table.name.clone(), contents);
        }
        Ok(())
    }

    /// Asks for all of each table, and then at random.
    async fn ask(&mut self, count: usize) -> Result<(), String> {
        for at in 0..self.tables.len() + count + count / QUERIES_AN_EXTREME {
            let query = match self.tables.get(at) {
                Some(table) => table.all(),
                None if at >= self.tables.len() + count => self.extremes.extreme(&self.tables),
                None => self.generator.query(&self.tables),
            };
            let Err(difference) = self.differs(&query).await else { continue };
            let hook = std::panic::take_hook();
            // The model says by a panic that a part of a query is none.
            std::panic::set_hook(Box::new(|_| {}));
            let drawn = query.to_string();
            let smallest = self.smallest(query, &difference).await;
            std::panic::set_hook(hook);
            let difference = self.differs(&smallest).await.expect_err("it still differs");
            self.differences.push(format!("{smallest}\n{}\ndrawn: {drawn}", difference.text));
            if self.differences.len() == DIFFERENCES_MAX {
                return Err("and perhaps more".into());
            }
        }
        Ok(())
    }

    /// Runs a query and compares.
    async fn differs(&mut self, query: &Query) -> Result<(), Difference> {
        let answer = self.model.answer(query, None);
        let sql = query.to_string();
        let outcome = match self.session.execute(&sql).await {
            Ok(outcome) => outcome.collect().await,
            Err(error) => Err(error),
        };
        let Ok(answer) = answer else {
            self.met.failing += 1;
            if !compare::is_bare(query) {
                return Ok(());
            }
            self.met.refusing += 1;
            let text = || "answered, although there is no answer".to_owned();
            return outcome.map_or(Ok(()), |_| Err(Difference::of(How::Answered, text())));
        };
        // An engine may look at rows that others would spare it, where a number does not fit.
        let is_overflow = outcome.as_ref().is_err_and(|error| {
            error.message.contains("verflow") || error.message.contains("out of range")
        });
        if is_overflow && !compare::is_bare(query) {
            self.met.failing += 1;
            return Ok(());
        }
        let batches =
            outcome.map_err(|error| Difference::of(How::Refused, format!("refused: {error}")))?;
        let found = compare::rows(&batches);
        self.met.queries += 1;
        self.met.rows += found.len() as u64;
        if let Some(dump) = &mut self.dump {
            dump.query(query, &answer, &found);
        }
        compare::check(query, &answer, &found).map_err(|text| {
            let expected: Vec<&Row> = answer.rows.iter().map(|(row, _)| row).collect();
            let is_of_types = are_of_other_types(&found, &expected);
            let text = format!("{text}\nfound:\n{found:?}\nexpected, before LIMIT:\n{expected:?}");
            Difference { how: How::Rows, is_of_types, text }
        })
    }

    /// The smallest query in reach that differs in the same way.
    async fn smallest(&mut self, query: Query, difference: &Difference) -> Query {
        let mut smallest = query;
        let mut tries = 0;
        'smaller: loop {
            for candidate in shrink::smaller(&smallest) {
                tries += 1;
                if tries > SHRINK_MAX {
                    return smallest;
                }
                // Not every part of a query is one: the model stumbles over those.
                let model = &self.model;
                let has_answer = difference.how != How::Answered;
                let answer = || {
                    shrink::is_whole(&candidate)
                        && model.answer(&candidate, None).is_ok() == has_answer
                };
                if !catch_unwind(AssertUnwindSafe(answer)).unwrap_or(false) {
                    continue;
                }
                let other = self.differs(&candidate).await;
                if other.is_err_and(|other| other.is_like(difference)) {
                    smallest = candidate;
                    continue 'smaller;
                }
            }
            return smallest;
        }
    }
}

/// How an answer differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The engine refuses what the model answers.
    Refused,
    /// It answers what has no answer.
    Answered,
    Rows,
}

struct Difference {
    how: How,
    /// A column has values of another type. What is made smaller keeps the types that stand in its
    /// operators, so that `CAST(a AS double) + b` without its cast is such a difference of its own.
    is_of_types: bool,
    text: String,
}

/// Whether there is a column all of whose values have a type that none of those expected has.
fn are_of_other_types(found: &[Row], expected: &[&Row]) -> bool {
    let width = expected.first().map_or(0, |row| row.len());
    let types = |rows: &mut dyn Iterator<Item = &Row>, at: usize| -> HashSet<_> {
        let values = rows.filter_map(|row| row.get(at));
        values.filter(|value| !value.is_null()).map(std::mem::discriminant).collect()
    };
    (0..width).any(|at| {
        let (found, expected) =
            (types(&mut found.iter(), at), types(&mut expected.iter().copied(), at));
        !found.is_empty() && !expected.is_empty() && found.is_disjoint(&expected)
    })
}

impl Difference {
    fn of(how: How, text: String) -> Self {
        Difference { how, is_of_types: false, text }
    }

    /// Whether this is probably for the same reason.
    fn is_like(&self, other: &Difference) -> bool {
        let start = |text: &str| text.chars().take(30).collect::<String>();
        self.how == other.how
            && self.is_of_types == other.is_of_types
            && (self.how != How::Refused || start(&self.text) == start(&other.text))
    }
}

fn play(seed: u64) -> Result<Met, String> {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let path = directory.path().join("data");
    runtime.block_on(async {
        let mut world = World::new(&path, seed).await;
        let ended = world.play(&path).await;
        world.differences.extend(ended.err());
        if world.differences.is_empty() {
            return Ok(world.met);
        }
        let (script, differences) = (world.script.join("\n"), world.differences.join("\n\n"));
        Err(format!("seed {seed}\n{script}\n\n{differences}"))
    })
}

#[test]
fn answers_are_those_of_a_naive_model() {
    let seeds = seeds::of("TIDEGATE_ANSWERS", SEEDS);
    let count = seeds.end - seeds.start;
    let played = seeds::play(seeds, play);
    let (mut all, mut differences) = (Met::default(), Vec::new());
    for played in played {
        match played {
            Ok(met) => all.add(met),
            Err(text) => differences.push(text),
        }
    }
    println!("{count} seeds: {all:?}");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    // A run that refuses or skips most of what is drawn shows nothing.
    assert!(all.queries >= count * 150 && all.rows > 5 * all.queries, "{all:?}");
    assert!(all.writes >= count * 100 && all.refused * 10 < all.writes, "{all:?}");
    assert!(all.failing * 20 < all.queries && all.refusing > 0, "{all:?}");
}

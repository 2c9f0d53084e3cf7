//! `replay_policy('policy', 'trace', capacity…)`: what a policy would have done, one row a
//! capacity.
//!
//! ```text
//! policy    a native name, a policy that was created, or the file of a component; one of admission
//!           stands before the native LRU
//! trace     a file of a trace, or a recipe such as 'zipf:ids=10000,requests=100000,skew=0.9'
//! capacity  1000 (entries), '64 MiB', '1%' (of the entries); none gives a curve
//! also      cache_entries => 1000, cache_bytes => '64 MiB', ahead => 32, batch => 256, seed => 1,
//!           format => oracleGeneral
//! ```
//! Invariant: rows come as they are computed, on a thread that blocks; dropping the stream ends it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tidegate_engine::Result as EngineResult;
use tidegate_engine::clock::Clock;
use tidegate_engine::config::{POLICY_COMPONENT_BYTES_MAX, TRACE_FILE_BYTES_MAX};
use tidegate_engine::plugin::{CompilerCommand, HostOptions, PolicyHost};
use tidegate_engine::replay::{Candidate, Capacity, Outcome, Settings};
use tidegate_engine::trace::{Synthetic, Trace, TraceFormat, read_trace};

use super::engine::Engine;
use super::error::{ErrorKind, QueryError};

/// Name of the function.
pub const REPLAY_FUNCTION: &str = "replay_policy";

/// Largest distance of victims asked for ahead: what the engine asks for.
const AHEAD_MAX: u64 = 32;
const BATCH_MAX: u64 = 256;

/// The function of one session.
#[derive(Debug)]
pub struct ReplayFunction {
    database: Engine,
    local_files: bool,
}

impl ReplayFunction {
    pub fn new(database: Engine, local_files: bool) -> Self {
        ReplayFunction { database, local_files }
    }
}

impl TableFunctionImpl for ReplayFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let plan = Plan::read(args.exprs()).map_err(external)?;
        plan.check(self).map_err(external)?;
        let job = Replay { database: self.database.clone(), plan, schema: replay_schema() };
        Ok(Arc::new(StreamingTable::try_new(replay_schema(), vec![Arc::new(job)])?))
    }
}

fn external(error: impl Into<QueryError>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

/// What the arguments ask for.
#[derive(Debug, Clone)]
struct Plan {
    policy: String,
    trace: String,
    format: Option<TraceFormat>,
    capacities: Vec<Capacity>,
    ahead: u32,
    batch: usize,
    seed: u64,
}

impl Plan {
    fn read(arguments: &[Expr]) -> Result<Plan, QueryError> {
        let wanted = || {
            QueryError::invalid(format!("{REPLAY_FUNCTION} takes a policy, a trace and capacities"))
                .with_help("replay_policy('lru', 'reads.trace', 1000, '1%', ahead => 32)")
        };
        let mut texts = Vec::new();
        for argument in arguments {
            let Expr::Literal(value, _) = argument else { return Err(wanted()) };
            texts.push(match value {
                ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => text.clone(),
                ScalarValue::Int64(Some(number)) => number.to_string(),
                ScalarValue::UInt64(Some(number)) => number.to_string(),
                _ => return Err(wanted()),
            });
        }
        let [policy, trace, others @ ..] = texts.as_slice() else { return Err(wanted()) };
        let mut plan = Plan {
            policy: policy.clone(),
            trace: trace.clone(),
            format: None,
            capacities: Vec::new(),
            ahead: 1,
            batch: BATCH_MAX as usize,
            seed: 1,
        };
        for other in others {
            plan.option(other)?;
        }
        Ok(plan)
    }

    fn option(&mut self, text: &str) -> Result<(), QueryError> {
        let Some((name, value)) = text.split_once('=') else {
            self.capacities.push(text.parse()?);
            return Ok(());
        };
        let number = |most: u64| {
            let number = value.trim().parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| {
                QueryError::invalid(format!("{name} is a whole number from 1 to {most}"))
            })
        };
        match name.trim() {
            "cache_entries" => self.capacities.push(Capacity::Entries(number(1 << 24)? as u32)),
            "cache_bytes" => {
                let capacity = match value.parse()? {
                    Capacity::Entries(bytes) => Capacity::Bytes(u64::from(bytes)),
                    other => other,
                };
                self.capacities.push(capacity);
            }
            "capacity" => self.capacities.push(value.parse()?),
            "ahead" => self.ahead = number(AHEAD_MAX)? as u32,
            "batch" => self.batch = number(BATCH_MAX)? as usize,
            "seed" => self.seed = number(u64::MAX)?,
            "format" => self.format = Some(value.trim().parse()?),
            other => {
                let known = [
                    "cache_entries",
                    "cache_bytes",
                    "capacity",
                    "ahead",
                    "batch",
                    "seed",
                    "format",
                ];
                let error = QueryError::not_found("argument", other, known);
                return Err(match error.help {
                    Some(_) => error,
                    None => error.with_help(format!("arguments are {}", known.join(", "))),
                });
            }
        }
        Ok(())
    }

    /// Errors that can be told before anything runs.
    fn check(&self, function: &ReplayFunction) -> Result<(), QueryError> {
        let is_recipe = Synthetic::parse(&self.trace)?.is_some();
        let catalog = function.database.catalog();
        let is_created = catalog.policies().any(|policy| policy.name == self.policy);
        let is_named = is_created || Candidate::native(&self.policy).is_some();
        if !is_named && !is_file(&self.policy) {
            let created = catalog.policies().map(|policy| policy.name.as_str());
            let natives: Vec<&str> = Candidate::native_names().collect();
            let known = created.chain(natives);
            return Err(QueryError::not_found("policy", &self.policy, known));
        }
        if !(function.local_files || is_recipe && is_named) {
            return Err(QueryError::unsupported("this session may not name files of the server"));
        }
        Ok(())
    }

    fn settings(&self, capacity: Capacity) -> Settings {
        let Plan { batch, ahead, seed, .. } = *self;
        Settings { capacity, batch, ahead, seed }
    }
}

/// Whether a name of a policy is meant as a file.
fn is_file(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// Reads a trace from a file or makes it from a recipe.
///
/// Errors: `Io`, and what the file is wrong in.
pub fn load_trace(name: &str, format: Option<TraceFormat>) -> Result<Trace, QueryError> {
    if let Some(recipe) = Synthetic::parse(name)? {
        return Ok(recipe.make());
    }
    let path = Path::new(name);
    Ok(read_trace(path, &read_limited(path, TRACE_FILE_BYTES_MAX)?, format)?)
}

/// Reads a file that is no larger than what is taken; one that is larger is not read whole.
fn read_limited(path: &Path, bytes_max: u64) -> Result<Vec<u8>, QueryError> {
    let name = path.display();
    let failed = |error| QueryError::new(ErrorKind::Io, format!("cannot read '{name}': {error}"));
    let file = File::open(path).map_err(failed)?;
    // 0 of what has no size, such as a pipe.
    let size = file.metadata().map_err(failed)?.len();
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > bytes_max {
        let size = if size > bytes_max { size.to_string() } else { "more".to_owned() };
        return Err(QueryError::invalid(format!(
            "'{name}' has {size} bytes, the most is {bytes_max}"
        )));
    }
    Ok(content)
}

/// The bytes of a component's file; what is too large is refused and not read whole.
///
/// Errors: `Io`, `Invalid`.
pub fn read_component(path: &Path) -> Result<Vec<u8>, QueryError> {
    read_limited(path, POLICY_COMPONENT_BYTES_MAX as u64)
}

/// Compiles a component for replays: on a host of its own, apart from the caches.
fn compile_candidate(
    name: &str,
    component: &[u8],
    params: Vec<(String, String)>,
    compiler: Option<CompilerCommand>,
) -> EngineResult<Candidate> {
    let host = PolicyHost::new(HostOptions { instances_max: 2, compiler })?;
    Ok(Candidate::Component { compiled: host.compile(name, component)?, params })
}

/// A candidate by the name of a native policy or of a file.
///
/// Errors: `Io`, and why the component is refused.
pub fn load_candidate(
    name: &str,
    compiler: Option<CompilerCommand>,
) -> Result<Candidate, QueryError> {
    if let Some(native) = Candidate::native(name) {
        return Ok(native);
    }
    let path = Path::new(name);
    let component = read_component(path)?;
    let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
    Ok(compile_candidate(&stem, &component, Vec::new(), compiler)?)
}

/// Schema of the rows.
pub fn replay_schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let count = |name: &str| Field::new(name, DataType::UInt64, false);
    let number = |name: &str| Field::new(name, DataType::Float64, false);
    Arc::new(Schema::new(vec![
        text("policy"),
        count("capacity"),
        text("unit"),
        count("requests"),
        count("hits"),
        number("hit_ratio"),
        number("byte_hit_ratio"),
        count("evictions"),
        count("refused"),
        count("invalid_victims"),
        count("shortfalls"),
        number("ns_per_event"),
        Field::new("fuel_per_event", DataType::Float64, true),
        text("victims_hash"),
    ]))
}

/// The row of one replay.
///
/// Errors: none that can occur; Arrow checks what is known here.
pub fn replay_row(
    policy: &str,
    capacity: Capacity,
    outcome: &Outcome,
) -> Result<RecordBatch, QueryError> {
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as _;
    let count = |count: u64| Arc::new(UInt64Array::from(vec![count])) as _;
    let number = |number: f64| Arc::new(Float64Array::from(vec![number])) as _;
    let (size, unit) = match capacity {
        Capacity::Bytes(bytes) => (bytes, "bytes"),
        Capacity::Entries(entries) => (u64::from(entries), "entries"),
        Capacity::Percent(_) => panic!("a capacity is resolved before it is shown"),
    };
    let tenth = |number: f64| (number * 10.0).round() / 10.0;
    let batch = RecordBatch::try_new(
        replay_schema(),
        vec![
            text(policy),
            count(size),
            text(unit),
            count(outcome.requests),
            count(outcome.hits),
            number(rounded(outcome.hit_ratio())),
            number(rounded(outcome.byte_hit_ratio())),
            count(outcome.evictions),
            count(outcome.refused),
            count(outcome.invalid_victims),
            count(outcome.shortfalls),
            number(tenth(outcome.ns_per_request())),
            Arc::new(Float64Array::from(vec![outcome.fuel_per_request().map(tenth)])),
            text(&format!("{:016x}", outcome.victims_hash)),
        ],
    );
    batch.map_err(|error| QueryError::invalid(error.to_string()))
}

/// A ratio with the digits that tables of miss ratios have.
fn rounded(ratio: f64) -> f64 {
    (ratio * 100_000.0).round() / 100_000.0
}

/// Becomes true when the task that holds it ends, for whatever reason.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Replay {
    database: Engine,
    plan: Plan,
    schema: SchemaRef,
}

impl PartitionStream for Replay {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 1);
        let rows = builder.tx();
        let (database, plan) = (self.database.clone(), self.plan.clone());
        builder.spawn(async move {
            let stored = match Candidate::native(&plan.policy) {
                None if !is_file(&plan.policy) => {
                    Some(database.policy_component(&plan.policy).await.map_err(external)?)
                }
                _ => None,
            };
            let clock = database.clock().clone();
            let compiler = database.policy_compiler();
            let cancelled = Arc::new(AtomicBool::new(false));
            let _guard = CancelOnDrop(cancelled.clone());
            let work = tokio::task::spawn_blocking(move || {
                let candidate = match stored {
                    Some((info, bytes)) => {
                        compile_candidate(&info.name, &bytes, info.params, compiler)?
                    }
                    None => load_candidate(&plan.policy, compiler)?,
                };
                let send = |row| rows.blocking_send(row).is_ok();
                replay(&plan, &candidate, &*clock, &cancelled, send)
            });
            match work.await {
                Ok(done) => done.map_err(external),
                Err(panic) => Err(DataFusionError::External(Box::new(panic))),
            }
        });
        builder.build()
    }
}

/// Runs all capacities; `send` takes a row and says whether another is wanted.
fn replay(
    plan: &Plan,
    candidate: &Candidate,
    clock: &dyn Clock,
    cancelled: &AtomicBool,
    send: impl Fn(Result<RecordBatch>) -> bool,
) -> Result<(), QueryError> {
    let trace = load_trace(&plan.trace, plan.format)?;
    let capacities = match plan.capacities.as_slice() {
        [] => Capacity::curve(&trace),
        named => named.to_vec(),
    };
    for capacity in capacities {
        let capacity = capacity.resolve(&trace)?;
        let outcome = candidate.run(&trace, &plan.settings(capacity), clock, cancelled)?;
        let Some(outcome) = outcome else { return Ok(()) };
        if !send(replay_row(candidate.name(), capacity, &outcome).map_err(external)) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::lit;

    use super::*;

    fn plan() -> Plan {
        Plan::read(&[lit("lru"), lit("loop:")]).unwrap()
    }

    #[test]
    fn arguments_of_a_replay_are_taken_up_to_their_borders() {
        for (text, is_taken) in [
            ("ahead=0", false),
            ("ahead=1", true),
            ("ahead=32", true),
            ("ahead=33", false),
            ("ahead=-1", false),
            ("ahead=many", false),
            (" ahead = 7 ", true),
            ("batch=0", false),
            ("batch=1", true),
            ("batch=256", true),
            ("batch=257", false),
            ("seed=0", false),
            ("seed=1", true),
            ("seed=18446744073709551615", true),
            ("seed=18446744073709551616", false),
            ("cache_entries=0", false),
            ("cache_entries=1", true),
            ("cache_entries=16777216", true),
            ("cache_entries=16777217", false),
            ("cache_bytes=nothing", false),
            ("capacity=0%", false),
            ("capacity=100%", true),
            ("capacity=101%", false),
            ("format=text", true),
            ("format=none", false),
            ("4294967295", true),
            ("4294967296", false),
            ("ahed=3", false),
            ("=3", false),
        ] {
            assert_eq!(plan().option(text).is_ok(), is_taken, "{text}");
        }
        let error = plan().option("ahed=3").unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.help.as_deref(), Some("did you mean 'ahead'?"));
        let error = plan().option("something=3").unwrap_err();
        assert!(error.help.unwrap().contains("cache_entries, cache_bytes, capacity, ahead, batch"));
    }

    #[test]
    fn each_argument_of_a_replay_sets_its_own_and_the_others_stay_as_usual() {
        let usual = plan();
        let of = |plan: &Plan| (plan.ahead, plan.batch, plan.seed, plan.format);
        assert_eq!(of(&usual), (1, 256, 1, None));
        for (text, wanted) in [
            ("ahead=7", (7, 256, 1, None)),
            ("batch=7", (1, 7, 1, None)),
            ("seed=7", (1, 256, 7, None)),
            ("format=u32", (1, 256, 1, Some(TraceFormat::U32))),
        ] {
            let mut plan = plan();
            plan.option(text).unwrap();
            assert_eq!(of(&plan), wanted, "{text}");
            assert!(plan.capacities.is_empty(), "{text}");
            let settings = plan.settings(Capacity::Entries(3));
            let found = (settings.ahead, settings.batch, settings.seed, plan.format);
            assert_eq!((found, settings.capacity), (wanted, Capacity::Entries(3)), "{text}");
        }
        let mut plan = plan();
        for text in [
            "1000",
            "64 KiB",
            "cache_entries=5",
            "cache_bytes=64",
            "cache_bytes=2 KiB",
            "capacity=5%",
        ] {
            plan.option(text).unwrap();
        }
        let bytes = [64 << 10, 64, 2048].map(Capacity::Bytes);
        let entries = [1000, 5].map(Capacity::Entries);
        assert_eq!(
            plan.capacities,
            [entries[0], bytes[0], entries[1], bytes[1], bytes[2], Capacity::Percent(5.0)]
        );
    }

    #[test]
    fn a_replay_takes_a_policy_a_trace_and_texts_or_whole_numbers() {
        let taken = Plan::read(&[lit("lru"), lit("loop:"), lit(5_i64), lit(6_u64)]).unwrap();
        assert_eq!(taken.capacities, [5, 6].map(Capacity::Entries));
        assert_eq!((&*taken.policy, &*taken.trace), ("lru", "loop:"));
        for arguments in [
            &[][..],
            &[lit("lru")],
            &[lit("lru"), lit(1.5)],
            &[lit("lru"), lit("loop:"), lit(true)],
            &[lit("lru"), lit("loop:"), lit(ScalarValue::Utf8(None))],
            &[datafusion::prelude::col("a"), lit("loop:")],
        ] {
            let error = Plan::read(arguments).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{arguments:?}");
            assert!(error.message.contains("takes a policy, a trace and capacities"), "{error}");
        }
        for (name, is_meant) in
            [("lru", false), ("mine", false), ("./x", true), ("x.wasm", true), ("a/b", true)]
        {
            assert_eq!(is_file(name), is_meant, "{name}");
        }
    }

    #[test]
    fn a_file_is_read_that_has_as_many_bytes_as_it_may_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (length, is_read) in [(0, true), (9, true), (10, true), (11, false), (1000, false)] {
            std::fs::write(&path, vec![7_u8; length]).unwrap();
            match read_limited(&path, 10) {
                Ok(content) => assert!(is_read && content == vec![7; length], "{length} bytes"),
                Err(error) => {
                    assert!(!is_read && error.kind == ErrorKind::Invalid, "{length}: {error}");
                    let said = format!("has {length} bytes, the most is 10");
                    assert!(error.message.contains(&said), "{error}");
                }
            }
        }
        let error = read_limited(&directory.path().join("none"), 10).unwrap_err();
        assert!(error.kind == ErrorKind::Io && error.message.contains("cannot read"), "{error}");
    }
}

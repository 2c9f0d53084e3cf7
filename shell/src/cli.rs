//! The command line.
//!
//! Invariant: everything clap accepts here can be acted on; wrong values end with a usage error
//! (exit code 2) before anything is opened.

mod connect;
mod iotune;
mod serve;
mod size;
mod sstable;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use tidegate_engine::plugin::{CompileLimits, CompilerCommand};
use tidegate_engine::replay::Capacity;
use tidegate_engine::trace::TraceFormat;
use tidegate_engine::{Backend, Database, Durability, Options, Recovery, TombstoneLimits, os};

use crate::allocator;
use crate::memory::{MemoryPlan, MemoryWishes};
use crate::output::{self, Mode};
use crate::query::QueryMemory;
use crate::remote::Remote;
use crate::session::Session;
pub use connect::ConnectArguments;
pub use iotune::IotuneArguments;
pub use serve::ServeArguments;
use size::parse_size;
pub use sstable::{SstableAction, SstableArguments, SstableFiles};

const EXAMPLES: &str = "\
Examples:
  tidegate                                  an interactive shell on ./tidegate-data
  tidegate -f examples/quickstart.sql       run a file and print what it gives
  tidegate -c 'SHOW TABLES'                 run one statement
  echo 'SELECT 1;' | tidegate --mode json   run what comes in, one JSON object a row
  tidegate plugin check my_policy.wasm      would the engine take it?
  tidegate --data /srv/weather serve        serve Arrow Flight SQL on 127.0.0.1:31337
  tidegate --connect grpc://127.0.0.1:31337 the same shell at a service
  tidegate --data /srv/weather iotune       measure the disk, once
  tidegate sstable verify me-1-big-Data.db  look into SSTable files of any product

In the shell, a statement ends with ';' and may take several lines. '\\?' lists the commands,
Tab completes, Ctrl-C stops a statement, Ctrl-D leaves.

COPY t FROM 'x.csv' (ON_ERROR skip) writes the lines it refuses to REJECT_FILE, x.csv.rejected by
default; a file that is there already is overwritten.

Exit codes: 0 done, 1 a statement failed, 2 wrong usage, 130 interrupted.";

/// A storage engine for wide partitions, with SQL.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXAMPLES, args_conflicts_with_subcommands = false)]
pub struct Cli {
    #[command(flatten)]
    pub database: DatabaseArguments,

    #[command(flatten)]
    pub connect: ConnectArguments,

    /// Run SQL and leave; may be given many times, in order with -f.
    #[arg(short = 'c', long = "command", value_name = "SQL", action = ArgAction::Append)]
    commands: Vec<String>,

    /// Run the SQL of a file and leave; may be given many times, in order with -c.
    #[arg(short = 'f', long = "file", value_name = "FILE", action = ArgAction::Append)]
    files: Vec<PathBuf>,

    /// How results are written [default: table on a terminal, csv into a pipe or a file].
    #[arg(long, value_enum, global = true)]
    pub mode: Option<Mode>,

    /// Whether the time a statement took stands under its result.
    #[arg(long, value_enum, default_value_t = Switch::On, global = true)]
    pub timing: Switch,

    /// How lines of the log are written to stderr: for people, or one JSON object a line.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        env = "TIDEGATE_LOG_FORMAT",
        default_value_t = LogFormat::Text,
        global = true
    )]
    pub log_format: LogFormat,

    /// Memory that all queries together may hold, such as 1GiB; sorts and groupings beyond it go to
    /// temporary files [default: a quarter of --memory].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, global = true)]
    pub query_memory: Option<usize>,

    /// -c and -f in the order in which they were given.
    #[arg(skip)]
    pub inputs: Vec<Input>,

    #[command(subcommand)]
    pub action: Option<Action>,
}

/// Where the data lies and how the engine is set up.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArguments {
    /// Directory of the data; it is made when absent.
    #[arg(
        long = "data",
        value_name = "DIR",
        env = "TIDEGATE_DATA",
        default_value = "tidegate-data",
        global = true
    )]
    pub directory: PathBuf,

    /// How files are read and written: auto takes io_uring where the kernel has it.
    #[arg(long, value_enum, default_value_t = Io::Auto, global = true)]
    pub io: Io,

    /// When a write counts as done: sync (on disk), periodic:MS (on disk within MS milliseconds),
    /// none (on disk whenever the kernel writes it, which gets it within 50 milliseconds).
    #[arg(long, value_name = "WHEN", value_parser = parse_durability, default_value = "sync", global = true)]
    pub durability: Durability,

    /// Open although commitlogs of earlier runs are damaged or incomplete: skip-damaged-log leaves
    /// out the writes that cannot be read, and says on stderr which those are.
    #[arg(long, value_name = "HOW", value_parser = parse_recovery, global = true)]
    pub recover: Option<Recovery>,

    /// Shards, each a thread with its part of the data [default: one a core]. An existing database
    /// may be opened with another number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), global = true)]
    pub shards: Option<u32>,

    /// Memory that the program may use, such as 1GiB: for caches, memtables, reads, queries and
    /// connections [default: three quarters of the control group's or the machine's, of which
    /// caches and memtables take 64MiB a shard at most].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, global = true)]
    pub memory: Option<usize>,

    /// Page cache of every shard, such as 64MiB [default: its part of --memory].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, global = true)]
    pub cache_bytes: Option<usize>,

    /// Memtables of every shard before they are flushed, such as 64MiB; they may take twice that
    /// [default: their part of --memory].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, global = true)]
    pub memtable_bytes: Option<usize>,

    /// Commitlog of every shard, such as 512MiB: near it tables are flushed and writes slowed down,
    /// at it they wait [default: 512MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, global = true)]
    pub commitlog_bytes: Option<usize>,

    /// Tombstones that a read may meet for a page of rows before it ends with an error; 0 is no
    /// limit [default: 100000].
    #[arg(long, value_name = "COUNT", global = true)]
    pub tombstones_max: Option<u64>,

    /// Tombstones for a page from which on the log is warned, once a minute for a table; 0 never
    /// [default: 1000].
    #[arg(long, value_name = "COUNT", global = true)]
    pub tombstones_warn: Option<u64>,

    /// Take the memory of caches and memtables from the kernel at the start and keep it, as a
    /// server should: else the first use of each 2 MiB of it holds somebody up.
    #[arg(long, global = true)]
    pub prefault: bool,
}

/// What to do besides running SQL.
#[derive(Debug, Clone, Subcommand)]
pub enum Action {
    /// Serve Arrow Flight SQL to ADBC, JDBC and pyarrow clients until Ctrl-C or SIGTERM.
    Serve(ServeArguments),
    /// Measure the disk for the I/O scheduler and write io-properties.yaml, which the engine reads
    /// when it opens the directory.
    Iotune(IotuneArguments),
    /// Make a data directory, that of --data, from what SNAPSHOT TO has made.
    Restore {
        /// Directory of the snapshot, or its place in object storage such as s3://bucket/monday;
        /// it stays as it is.
        #[arg(value_name = "SNAPSHOT")]
        snapshot: PathBuf,
    },
    /// Print a ring file for a cluster of these nodes, with parts of the same size and a new key.
    Ring {
        /// Each node with its address, such as a=grpc://10.0.0.1:31337.
        #[arg(value_name = "NAME=ADDRESS", required = true)]
        nodes: Vec<String>,
    },
    /// Compile the policy that comes in on stdin; the engine starts this for itself.
    #[command(hide = true)]
    CompilePolicy,
    /// Look into SSTable files of this engine, Cassandra or ScyllaDB: dump, describe, verify,
    /// query.
    Sstable(SstableArguments),
    /// Write, check, measure and replay policies; needs no database.
    Plugin {
        #[command(subcommand)]
        command: PluginCommand,
    },
}

/// What the author of a policy does.
#[derive(Debug, Clone, Subcommand)]
pub enum PluginCommand {
    /// Write a project of a policy that builds as it is.
    New(NewArguments),
    /// Say whether the engine would take a component, and what is wrong if not.
    Check(CheckArguments),
    /// Measure a component beside the native LRU.
    Bench(BenchArguments),
    /// Run policies on a trace: hit ratios, cost and curves.
    Replay(ReplayArguments),
}

#[derive(Debug, Clone, Args)]
pub struct NewArguments {
    /// Folder of the project; its last part names the policy.
    #[arg(value_name = "NAME")]
    pub folder: PathBuf,
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    pub lang: Language,
    /// Which decision the policy takes.
    #[arg(long, value_enum, default_value_t = World::Eviction)]
    pub world: World,
}

/// Languages that a project can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Rust,
    /// By clang and wasi-libc; of world eviction.
    C,
}

/// Worlds that a project can be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum World {
    /// What leaves a cache.
    Eviction,
    /// What a cache keeps of what is read.
    CacheAdmission,
    /// Which operations beyond a limit go through.
    RateLimiter,
    /// How many reads run at once and wait.
    ReadAdmission,
    /// What is refused under load.
    LoadShedding,
    /// How classes of I/O share the disk.
    IoPriority,
    /// Which SSTables are merged.
    Compaction,
}

#[derive(Debug, Clone, Args)]
pub struct CheckArguments {
    /// The component.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A parameter of the policy; may be given many times.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,
}

#[derive(Debug, Clone, Args)]
pub struct BenchArguments {
    /// The component.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Trace to run: a file, or a recipe such as zipf:ids=10000,requests=100000,skew=0.9.
    #[arg(long, default_value = "zipf:ids=100000,requests=1000000,skew=0.9")]
    pub trace: String,
    /// Size of the cache: 1000 (entries), 64MiB or 1% (of the entries).
    #[arg(long, value_name = "SIZE", default_value = "10%")]
    pub capacity: Capacity,
}

#[derive(Debug, Clone, Args)]
pub struct ReplayArguments {
    /// Policies: files of components, native ones such as lru, optimal (the bound of all).
    #[arg(value_name = "POLICY", required = true)]
    pub policies: Vec<String>,
    /// Trace to run: a file, or a recipe such as zipf:ids=10000,requests=100000,skew=0.9.
    #[arg(long)]
    pub trace: String,
    /// How the file is written: recorded, oracleGeneral, u32 or text [default: by its name].
    #[arg(long)]
    pub format: Option<TraceFormat>,
    /// Size of the cache: 1000 (entries), 64MiB or 1% (of the entries); may be given many times
    /// [default: a curve].
    #[arg(long = "capacity", value_name = "SIZE")]
    pub capacities: Vec<Capacity>,
    /// Victims asked for at once; the engine asks for 32.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub ahead: u32,
    /// Events delivered at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_batch)]
    pub batch: usize,
    /// Seed of the policies.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw the curves under the rows.
    #[arg(long)]
    pub plot: bool,
    /// Draw the curves into a file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// One -c or -f.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Text(String),
    File(PathBuf),
}

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Self] {
        &[Mode::Table, Mode::Expanded, Mode::Csv, Mode::Json]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(match self {
            Mode::Table => "A drawn table, for people",
            Mode::Expanded => "A line a column, for people",
            Mode::Csv => "Comma separated values with a header line",
            Mode::Json => "One JSON object a line",
        }))
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Names of the engine's disk backends on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Io {
    Auto,
    Uring,
    Blocking,
}

/// This program as a compiler of policies.
pub fn policy_compiler() -> CompilerCommand {
    CompilerCommand {
        program: "/proc/self/exe".into(),
        arguments: vec!["compile-policy".into()],
        environment: allocator::ENVIRONMENT_WITHIN_LIMITS.map(|(k, v)| (k.into(), v.into())).into(),
        limits: CompileLimits::default(),
    }
}

impl Cli {
    /// Puts -c and -f into the order in which they were given.
    pub fn with_inputs(mut self, matches: &clap::ArgMatches) -> Self {
        let places = |id: &str| -> Vec<usize> {
            matches.indices_of(id).map(Iterator::collect).unwrap_or_default()
        };
        let commands = self.commands.drain(..).map(Input::Text);
        let mut placed: Vec<(usize, Input)> =
            places("commands").into_iter().zip(commands).collect();
        let files = self.files.drain(..).map(Input::File);
        placed.extend(places("files").into_iter().zip(files));
        placed.sort_by_key(|(place, _)| *place);
        self.inputs = placed.into_iter().map(|(_, input)| input).collect();
        self
    }

    /// How memory is divided.
    ///
    /// Errors: in words, what does not fit.
    pub fn memory_plan(&self) -> Result<MemoryPlan, String> {
        let wishes = MemoryWishes {
            total: self.database.memory,
            cache: self.database.cache_bytes,
            memtable: self.database.memtable_bytes,
            queries: self.query_memory,
        };
        MemoryPlan::new(wishes, self.database.shard_count(), os::memory_limit())
    }

    /// A session on a database, as the options say, that writes to stdout.
    ///
    /// Errors: in words, why statements cannot be run.
    pub fn session(&self, database: &Database) -> Result<Session, String> {
        let memory = QueryMemory::new(Some(self.memory_plan()?.queries));
        Session::new(database.clone(), memory, Box::new(output::stdout()))
            .map(|session| self.shaped(session))
    }

    /// A session at a service, likewise.
    pub(crate) fn session_at(&self, remote: Remote) -> Result<Session, String> {
        Session::at(remote, Box::new(output::stdout())).map(|session| self.shaped(session))
    }

    /// A session that prints as the options say.
    fn shaped(&self, mut session: Session) -> Session {
        session.mode = self.mode.unwrap_or(match io::stdout().is_terminal() {
            true => Mode::Table,
            false => Mode::Csv,
        });
        session.timing = self.timing == Switch::On;
        session.screen = output::screen;
        session.tells_counts = self.mode.is_none();
        session
    }
}

impl DatabaseArguments {
    /// The engine's options for these arguments.
    pub fn options(&self, memory: &MemoryPlan) -> Options {
        let mut options = Options::new(&self.directory);
        options.shards = self.shards;
        options.durability = self.durability;
        options.backend = self.backend();
        options.recovery = self.recover.unwrap_or_default();
        options.cache_bytes = memory.cache;
        options.memtable_bytes = memory.memtable;
        options.read_memory_bytes = memory.reads as u64;
        options.commitlog_bytes = self.commitlog_bytes.unwrap_or(options.commitlog_bytes);
        options.tombstones = TombstoneLimits {
            warn: self.tombstones_warn.unwrap_or(options.tombstones.warn),
            max: self.tombstones_max.unwrap_or(options.tombstones.max),
        };
        options.policy_compiler = Some(policy_compiler());
        options
    }

    /// Bytes that caches and memtables have at most, of all shards: writes wait when memtables take
    /// twice what they should.
    pub fn memory_bytes(&self, memory: &MemoryPlan) -> usize {
        self.shard_count() * (memory.cache + 2 * memory.memtable)
    }

    /// Shards that the database will have.
    fn shard_count(&self) -> usize {
        match self.shards {
            Some(shards) => shards as usize,
            None => os::available_cores().map_or(1, |cores| cores.len()),
        }
    }

    /// The engine's name of the chosen disk backend.
    pub fn backend(&self) -> Backend {
        match self.io {
            Io::Auto => Backend::Auto,
            Io::Uring => Backend::Uring,
            Io::Blocking => Backend::Blocking,
        }
    }
}

fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(format!("'{text}' is no parameter: write name=value")),
    }
}

fn parse_batch(text: &str) -> Result<usize, String> {
    let batch = text.parse().ok().filter(|batch| (1..=256).contains(batch));
    batch.ok_or_else(|| format!("'{text}' is no number from 1 to 256"))
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    let lower = text.to_ascii_lowercase();
    match lower.split_once(':') {
        None if lower == "sync" => Ok(Durability::Sync),
        None if lower == "none" => Ok(Durability::None),
        Some(("periodic", ms)) => match ms.parse::<u64>() {
            Ok(ms) if ms > 0 => Ok(Durability::Periodic { ms }),
            _ => Err(format!("'{ms}' is no number of milliseconds")),
        },
        _ => Err(format!("'{text}' is none of sync, periodic:MS and none")),
    }
}

fn parse_recovery(text: &str) -> Result<Recovery, String> {
    text.parse().map_err(|error: tidegate_engine::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        let all = std::iter::once("tidegate").chain(arguments.iter().copied());
        let matches = Cli::command().try_get_matches_from(all)?;
        Ok(Cli::from_arg_matches(&matches)?.with_inputs(&matches))
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn statements_and_files_keep_their_order() {
        let cli = parse(&["-c", "a", "-f", "b", "--command", "c", "--mode", "csv"]).unwrap();
        let text = |t: &str| Input::Text(t.into());
        assert_eq!(cli.inputs, [text("a"), Input::File("b".into()), text("c")]);
        assert_eq!(cli.mode, Some(Mode::Csv));
    }

    #[test]
    fn sizes_take_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1.5k"), Ok(1536));
        for (text, bytes) in [
            ("7b", 7),
            ("1KB", 1 << 10),
            ("2m", 2 << 20),
            ("3 MiB", 3 << 20),
            ("1G", 1 << 30),
            ("1.5gib", 3 << 29),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "0", "5 apples", "1e9G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durability_is_one_of_three() {
        assert!(matches!(parse_durability("SYNC"), Ok(Durability::Sync)));
        assert!(matches!(parse_durability("none"), Ok(Durability::None)));
        assert!(matches!(parse_durability("periodic:250"), Ok(Durability::Periodic { ms: 250 })));
        for wrong in ["periodic", "periodic:0", "periodic:x", "always"] {
            assert!(parse_durability(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn recovery_has_one_way() {
        let cli = parse(&["--recover=skip-damaged-log", "-c", "SELECT 1"]).unwrap();
        let recovery = |cli: &Cli| cli.database.options(&cli.memory_plan().unwrap()).recovery;
        assert_eq!(recovery(&cli), Recovery::SkipDamagedLog);
        assert_eq!(recovery(&parse(&[]).unwrap()), Recovery::Refuse);
        let wrong = parse(&["--recover=all"]).unwrap_err().to_string();
        assert!(wrong.contains("skip-damaged-log"), "{wrong}");
    }

    #[test]
    fn connections_have_limits_that_can_be_set() {
        let limits = |arguments: &[&str]| {
            let cli = parse(&[&["serve"], arguments].concat()).unwrap();
            let Some(Action::Serve(serve)) = cli.action else { panic!("it serves") };
            serve.listen().unwrap().limits
        };
        let (hour, own) = (std::time::Duration::from_secs(3600), limits(&[]));
        assert_eq!((own.connections, own.streams, own.message_bytes), (None, 256, 64 << 20));
        assert_eq!((own.idle, own.keepalive), (8 * hour, hour / 60));
        let set = ["--connections-max", "7", "--idle-timeout", "0", "--keepalive", "1h30m"];
        let set = limits(&set);
        let (never, longer) = (std::time::Duration::ZERO, hour * 3 / 2);
        assert_eq!((set.connections, set.idle, set.keepalive), (Some(7), never, longer));
    }

    #[test]
    fn clients_may_come_from_elsewhere_and_metrics_stay_on_this_machine() {
        for listen in ["127.0.0.1:0", "localhost:1", "[::1]:31337", "0.0.0.0:31337"] {
            assert!(parse(&["serve", "--listen", listen]).is_ok(), "{listen}");
        }
        let tls = ["serve", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"];
        assert!(parse(&tls).is_ok());
        for (arguments, wanted) in [
            (&["serve", "--listen", "here"][..], "no address"),
            (&["serve", "--metrics", "0.0.0.0:1"][..], "ask nobody who they are"),
            (&["serve", "--tls-cert", "c"][..], "--tls-key"),
            (&["serve", "--tls-client-ca", "a"][..], "--tls-cert"),
            (&["serve", "--idle-timeout", "0s"][..], "from 1s to 8760h"),
            (&["serve", "--keepalive", "9000h"][..], "from 1s to 8760h"),
            (&["serve", "--keepalive", "often"][..], "write 30s"),
            (&["serve", "--message-bytes-max", "1KiB"][..], "from 64KiB to 1GiB"),
            (&["serve", "--connections-max", "0"][..], "connections-max"),
            (&["serve", "--streams-max", "0"][..], "streams-max"),
        ] {
            let refused = parse(arguments).unwrap_err().to_string();
            assert!(refused.contains(wanted), "{arguments:?}: {refused}");
        }
    }

    #[test]
    fn every_option_of_the_engine_reaches_its_place() {
        let set = "--data d --shards 3 --io blocking --durability periodic:7 --memory 2GiB \
                   --cache-bytes 5MiB --memtable-bytes 6MiB --query-memory 70MiB \
                   --commitlog-bytes 600MiB --tombstones-max 40 --tombstones-warn 9";
        let set: Vec<&str> = set.split_whitespace().collect();
        let cli = parse(&set).unwrap();
        let memory = cli.memory_plan().unwrap();
        assert_eq!((memory.total, memory.queries), (2 << 30, 70 << 20));
        let options = cli.database.options(&memory);
        assert_eq!((options.directory, options.shards), (PathBuf::from("d"), Some(3)));
        assert_eq!(options.backend, Backend::Blocking);
        assert_eq!(options.durability, Durability::Periodic { ms: 7 });
        assert_eq!((options.cache_bytes, options.memtable_bytes), (5 << 20, 6 << 20));
        assert_eq!(options.commitlog_bytes, 600 << 20);
        assert_eq!(options.read_memory_bytes, memory.reads as u64);
        assert_eq!(options.tombstones, TombstoneLimits { warn: 9, max: 40 });
        assert!(options.policy_compiler.is_some());
        // Memtables may take twice that.
        assert_eq!(cli.database.memory_bytes(&memory), (3 * (5 + 2 * 6)) << 20);

        // What the help says of those that are not given.
        let tombstones = |arguments: &[&str]| {
            let cli = parse(arguments).unwrap();
            cli.database.options(&cli.memory_plan().unwrap()).tombstones
        };
        let own = TombstoneLimits { warn: 1000, max: 100_000 };
        assert_eq!(tombstones(&[]), own);
        assert_eq!(tombstones(&["--tombstones-max", "0"]), TombstoneLimits { max: 0, ..own });
        assert_eq!(tombstones(&["--tombstones-warn", "0"]), TombstoneLimits { warn: 0, ..own });
        let cli = parse(&[]).unwrap();
        assert_eq!((cli.timing, cli.mode), (Switch::On, None));
        assert_eq!(cli.log_format, LogFormat::Text);
        let cli = parse(&["serve", "--log-format", "json"]).unwrap();
        assert_eq!(cli.log_format, LogFormat::Json);
        assert!(parse(&["--log-format", "xml"]).is_err());
        assert_eq!(cli.database.durability, Durability::Sync);
    }

    #[test]
    fn what_is_served_is_what_was_asked_for() {
        let listen = |text: &str| {
            let arguments: Vec<&str> = text.split_whitespace().collect();
            let cli = parse(&[&["serve"], &arguments[..]].concat()).unwrap();
            let Some(Action::Serve(serve)) = cli.action else { panic!("it serves") };
            serve.listen()
        };
        let own = listen("").unwrap();
        assert_eq!((own.clients.to_string().as_str(), own.metrics), ("127.0.0.1:31337", None));
        assert!(own.tls.is_none() && own.snapshots.is_none() && own.ticket_key.is_none());
        assert!(own.advertised.is_none() && !own.insecure);
        let set = "--listen [::1]:7 --metrics localhost:8 --tls-cert c --tls-key k \
                   --tls-client-ca a --snapshots s --ticket-key t --insecure \
                   --advertise grpc+tls://db:1 --streams-max 9";
        let set = listen(set).unwrap();
        assert_eq!(set.clients.to_string(), "[::1]:7");
        assert_eq!(set.metrics.unwrap().to_string(), "127.0.0.1:8");
        let tls = set.tls.unwrap();
        assert_eq!((tls.certificate, tls.key), (PathBuf::from("c"), PathBuf::from("k")));
        assert_eq!(tls.client_authority, Some(PathBuf::from("a")));
        let folders = (set.snapshots, set.ticket_key);
        assert_eq!(folders, (Some(PathBuf::from("s")), Some(PathBuf::from("t"))));
        assert!(set.insecure && set.limits.streams == 9);
        assert_eq!(set.advertised.as_deref(), Some("grpc+tls://db:1"));
        for (text, wanted) in [
            ("--advertise grpc+tls://db:1", "grpc+tls://db:1 wants TLS"),
            ("--advertise grpc://db:1 --tls-cert c --tls-key k", "speaks TLS alone"),
            ("--advertise grpc+tcp://db:1 --tls-cert c --tls-key k", "speaks TLS alone"),
        ] {
            let told = listen(text).unwrap_err();
            assert!(told.contains(wanted), "{text}: {told}");
        }
    }

    #[test]
    fn limits_of_connections_have_ends_that_can_be_reached() {
        for (option, least, most, beyond) in [
            ("--message-bytes-max", "64KiB", "1GiB", ["65535", "1073741825"]),
            ("--keepalive", "1s", "8760h", ["999ms", "8761h"]),
            ("--idle-timeout", "1s", "8760h", ["999ms", "8761h"]),
            ("--streams-max", "1", "65536", ["0", "65537"]),
        ] {
            for end in [least, most] {
                assert!(parse(&["serve", option, end]).is_ok(), "{option} {end}");
            }
            for wrong in beyond {
                assert!(parse(&["serve", option, wrong]).is_err(), "{option} {wrong}");
            }
        }
    }

    #[test]
    fn numbers_have_ends_that_can_be_reached_and_parameters_a_name() {
        let replay = ["plugin", "replay", "lru", "--trace", "t"];
        for (command, option, most, beyond) in [
            (&replay[..0], "--shards", "256", "257"),
            (&replay[..], "--ahead", "32", "33"),
            (&replay[..], "--batch", "256", "257"),
        ] {
            let is_taken = |number| parse(&[command, &[option, number]].concat()).is_ok();
            assert!(is_taken("1") && is_taken(most), "{option}");
            assert!(!is_taken("0") && !is_taken(beyond) && !is_taken("x"), "{option}");
        }
        let command = |arguments: &[&str]| match parse(arguments).unwrap().action {
            Some(Action::Plugin { command }) => command,
            other => panic!("{other:?}"),
        };
        let PluginCommand::Replay(own) = command(&replay) else { panic!("it replays") };
        assert_eq!((own.ahead, own.batch, own.seed), (1, 256, 1));
        assert!(own.capacities.is_empty() && own.format.is_none() && !own.plot);
        let check = ["plugin", "check", "p.wasm", "--param", "a=1", "--param", " b = x=y "];
        let PluginCommand::Check(own) = command(&check) else { panic!("it checks") };
        let wanted = [("a", "1"), ("b", "x=y")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(own.params, wanted);
        let wrong = parse(&["plugin", "check", "p.wasm", "--param", "a"]).unwrap_err().to_string();
        assert!(wrong.contains("write name=value"), "{wrong}");
    }

    #[test]
    fn each_word_of_the_command_line_has_its_own_meaning() {
        for (word, backend) in
            [("auto", Backend::Auto), ("uring", Backend::Uring), ("blocking", Backend::Blocking)]
        {
            assert_eq!(parse(&["--io", word]).unwrap().database.backend(), backend);
        }
        for (word, world) in [
            ("eviction", World::Eviction),
            ("cache-admission", World::CacheAdmission),
            ("rate-limiter", World::RateLimiter),
            ("read-admission", World::ReadAdmission),
            ("load-shedding", World::LoadShedding),
            ("io-priority", World::IoPriority),
            ("compaction", World::Compaction),
        ] {
            let cli = parse(&["plugin", "new", "x", "--world", word]).unwrap();
            let Some(Action::Plugin { command: PluginCommand::New(new) }) = cli.action else {
                panic!("{word}")
            };
            assert_eq!((new.world, new.lang), (world, Language::Rust), "{word}");
        }
        let iotune = |arguments: &[&str]| {
            let cli = parse(&[&["iotune"], arguments].concat()).ok()?;
            let Some(Action::Iotune(iotune)) = cli.action else { panic!("{arguments:?}") };
            Some((iotune.seconds, iotune.force, iotune.grid))
        };
        assert_eq!(iotune(&[]), Some((20, false, false)));
        assert_eq!(iotune(&["--seconds", "2", "--force"]), Some((2, true, false)));
        assert_eq!(iotune(&["--seconds", "600", "--grid"]), Some((600, false, true)));
        assert_eq!((iotune(&["--seconds", "1"]), iotune(&["--seconds", "601"])), (None, None));
        let cli = parse(&["plugin", "bench", "p.wasm"]).unwrap();
        let Some(Action::Plugin { command: PluginCommand::Bench(own) }) = cli.action else {
            panic!("it is measured")
        };
        assert_eq!(own.capacity, Capacity::Percent(10.0));
        assert_eq!(own.trace, "zipf:ids=100000,requests=1000000,skew=0.9");
        for missing in [&["restore"][..], &["ring"], &["plugin", "replay", "lru"], &["sstable"]] {
            assert!(parse(missing).is_err(), "{missing:?}");
        }
    }

    #[test]
    fn a_node_of_a_cluster_has_a_ring_and_a_name_and_metrics_an_address_of_this_machine() {
        let serve = |arguments: &[&str]| {
            let cli = parse(&[&["serve"], arguments].concat())?;
            let Some(Action::Serve(serve)) = cli.action else { panic!("{arguments:?}") };
            Ok::<_, clap::Error>(serve)
        };
        let whole = serve(&["--ring", "r.json", "--node", "a"]).unwrap();
        assert_eq!(whole.ring(), Some((std::path::Path::new("r.json"), "a")));
        assert_eq!(serve(&[]).unwrap().ring(), None);
        for (half, other) in [(["--ring", "r.json"], "--node"), (["--node", "a"], "--ring")] {
            let told = serve(&half).unwrap_err().to_string();
            assert!(told.contains(other), "{told}");
        }
        for own in ["127.0.0.1:9", "127.9.9.9:9", "[::1]:9", "localhost:9"] {
            assert!(serve(&["--metrics", own]).is_ok(), "{own}");
        }
        for other in ["0.0.0.0:9", "[::]:9", "192.168.1.5:9", "[2001:db8::1]:9", "127.0.0.1", ":9"]
        {
            assert!(serve(&["--metrics", other]).is_err(), "{other}");
        }
    }
}

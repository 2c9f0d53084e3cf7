//! From a parsed command line to an exit code: opens the database, hands it to the shell, a batch
//! or the Flight SQL service, and closes it again.
//!
//! Invariant: the database is closed on every way out of a successful open.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use tidegate_engine::config::TIME_SLICE;
use tidegate_engine::plugin::compile_stdin;
use tidegate_engine::{Database, Options, os};
use tracing_subscriber::EnvFilter;

use crate::allocator;
use crate::cli::{Action, Cli, LogFormat, SstableAction};
use crate::cluster::{Cluster, RingFile};
use crate::exit::{EXIT_FAILED, fail};
use crate::remote::Remote;
use crate::session::Session;
use crate::stderr::tell_line;
use crate::{batch, flight, iotune, plugin, repl, restore, sstable, stderr, thread};

/// Does what the command line asks for and returns the exit code.
pub fn run(cli: Cli) -> u8 {
    if matches!(cli.action, Some(Action::CompilePolicy)) {
        return compile_stdin();
    }
    let is_server = matches!(cli.action, Some(Action::Serve(_)));
    let _handed_over = is_server.then(stderr::hand_over);
    begin_log(cli.log_format, is_server);
    if let Some(Action::Sstable(arguments)) = &cli.action
        && !matches!(arguments.action, SstableAction::Query { .. })
    {
        return sstable::run(
            &arguments.action,
            cli.database.backend(),
            cli.mode.unwrap_or_default(),
        );
    }
    if let Some(Action::Iotune(arguments)) = &cli.action {
        return iotune::run(arguments, &cli.database.directory, cli.database.backend());
    }
    if let Some(Action::Restore { snapshot }) = &cli.action {
        return restore::run(snapshot, &cli.database.directory);
    }
    if let Some(Action::Ring { nodes }) = &cli.action {
        return match RingFile::even(nodes) {
            Ok(ring) => crate::exit::print(&ring.to_text()),
            Err(error) => fail(&error),
        };
    }
    if let Err(error) = os::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files stays as it was");
    }
    // The threads that it starts take this over.
    if let Err(error) = os::set_time_slice(TIME_SLICE) {
        tracing::debug!(%error, "the kernel gives no time slice");
    }
    let runtime = thread::pool();
    // The stack of the main thread is not ours to size, so statements do not run on it.
    let ended = runtime.and_then(|runtime| {
        std::thread::Builder::new()
            .name("session".to_owned())
            .stack_size(thread::STACK_BYTES)
            .spawn(move || runtime.block_on(run_in_runtime(cli)))
    });
    match ended.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => fail(&format!("cannot start threads: {error}")),
    }
}

/// From now on lines of the log go to stderr. As JSON, what a service tells is of the log too.
fn begin_log(format: LogFormat, is_server: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_writer(stderr::writer)
        // It would panic where stderr is full.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log
            .with_env_filter(filter)
            .with_ansi(repl::colors_wanted(io::stderr().is_terminal()))
            .init(),
        LogFormat::Json => {
            // What is told is told whatever the filter is.
            let told = format!("{}=info", stderr::TOLD).parse().expect("it is a directive");
            log.with_env_filter(filter.add_directive(told)).json().with_span_list(false).init();
            if is_server {
                stderr::tell_in_log();
            }
        }
    }
}

async fn run_in_runtime(cli: Cli) -> u8 {
    if let Some(Action::Plugin { command }) = &cli.action {
        return plugin::run(command, cli.mode.unwrap_or_default());
    }
    match cli.connect.place() {
        Ok(None) => {}
        Ok(Some(_)) if cli.action.is_some() => return fail("--connect is for statements alone"),
        Ok(Some(place)) => {
            let session = Remote::connect(&place).await.and_then(|remote| cli.session_at(remote));
            return run_session(&cli, session).await;
        }
        Err(error) => return fail(&error),
    }
    let memory = match cli.memory_plan() {
        Ok(memory) => memory,
        Err(error) => return fail(&error),
    };
    if let Some(Action::Sstable(arguments)) = &cli.action
        && let SstableAction::Query { sql, files, skip_damaged } = &arguments.action
    {
        return sstable::run_query(&cli, &memory, (sql, files), *skip_damaged).await;
    }
    if cli.database.prefault {
        let bytes = cli.database.memory_bytes(&memory);
        if let Err(error) = allocator::prefault(bytes) {
            tracing::warn!(%error, bytes, "memory is not taken beforehand");
        }
    }
    let mut options = cli.database.options(&memory);
    let cluster = match cluster_of(&cli, &mut options) {
        Ok(cluster) => cluster,
        Err(error) => return fail(&error),
    };
    let database = match Database::open(options).await {
        Ok(database) => database,
        Err(error) => {
            let directory = &cli.database.directory;
            fail(&format!("cannot open the database in {}: {error}", directory.display()));
            if let Some(address) = flight::serving(directory) {
                tell_line!("help: it is served: tidegate --connect {address} is a shell there");
            }
            return EXIT_FAILED;
        }
    };
    for left_out in database.left_out().await.unwrap_or_default() {
        tell_line!("warning: {left_out}");
    }
    let code = match &cli.action {
        Some(Action::Serve(arguments)) => {
            let served = match arguments.listen() {
                Ok(listen) => flight::serve(database.clone(), memory, (listen, cluster)).await,
                Err(error) => Err(error),
            };
            served.map_or_else(|error| fail(&error), |()| 0)
        }
        _ => run_session(&cli, cli.session(&database)).await,
    };
    match database.close().await {
        Ok(()) => code,
        Err(error) => fail(&format!("cannot close the database: {error}")).max(code),
    }
}

/// The cluster of which this process is a node, where it is one; the options get its ring.
fn cluster_of(cli: &Cli, options: &mut Options) -> Result<Option<Arc<Cluster>>, String> {
    let Some(Action::Serve(arguments)) = &cli.action else { return Ok(None) };
    let Some((path, name)) = arguments.ring() else { return Ok(None) };
    let cluster = Cluster::new(RingFile::load(path)?, name, Arc::clone(&options.clock))?;
    options.ring = Some(Arc::new(cluster.ring().map_err(|error| error.to_string())?));
    Ok(Some(cluster))
}

async fn run_session(cli: &Cli, session: Result<Session, String>) -> u8 {
    let mut session = match session {
        Ok(session) => session,
        Err(error) => return fail(&error),
    };
    if cli.inputs.is_empty() && io::stdin().is_terminal() {
        repl::run(&mut session).await
    } else {
        batch::run(&mut session, &cli.inputs).await
    }
}

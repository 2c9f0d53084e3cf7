//! One person's session: runs a piece of text, prints what it gives, and stops it at Ctrl-C.
//!
//! Invariant: stdout gets results, stderr everything else. The line under a result (rows, time)
//! goes to stdout only where a person reads it there: on a screen, and in the transcript of a file.
//! A statement that is cancelled is dropped, which cancels it on the shards too.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, stream};
use tidegate_engine::Database;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::{self, Command};
use crate::output::progress::{Progress, ProgressLine};
use crate::output::{Mode, Page, Printer, RowLimit, printer};
use crate::query::{
    self, OutcomeKind, QueryError, QueryMemory, SessionOptions, trace_text, without_unsaid,
};
use crate::remote::{Backend, Remote};
use crate::stderr::tell_line;
use crate::text::Piece;
use crate::text::width::wrapped;

/// Why a piece did not run to its end.
#[derive(Debug)]
pub enum Failure {
    /// The statement is wrong or failed; the text is ready to be shown.
    Statement(String),
    /// Ctrl-C.
    Interrupted,
    /// Nobody reads the output any more, or it cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// What the caller does after a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Continue,
    Leave,
}

/// State of a session.
pub struct Session {
    backend: Backend,
    out: Box<dyn Write + Send>,
    interrupt: Signal,
    progress: Arc<Mutex<CopyProgress>>,
    pub mode: Mode,
    /// Whether times are printed.
    pub timing: bool,
    /// Columns and lines of the screen that `out` is; None where it is none.
    pub screen: fn() -> Option<(usize, usize)>,
    /// How many rows of a result are shown.
    pub rows: RowLimit,
    /// Whether the line under a result is written in modes for programs as well, to stderr.
    pub tells_counts: bool,
    /// Whether statements are echoed, so that stdout reads like a session.
    pub is_transcript: bool,
}

/// Lines of the screen that are not rows: the head and end of a table, the line under it, a prompt.
const SCREEN_LINES_USED: usize = 6;
/// Lines that rows get on the smallest screen.
const ROW_LINES_MIN: usize = 5;
/// Columns of a trace that goes to no screen.
const TRACE_COLUMNS: usize = 80;
/// What empties a terminal and puts the cursor at its top.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// The progress line of the running statement.
struct CopyProgress {
    line: ProgressLine,
    start_ns: u64,
    drawn_ns: u64,
}

impl CopyProgress {
    fn shared() -> Arc<Mutex<Self>> {
        let state = CopyProgress { line: ProgressLine::new(), start_ns: 0, drawn_ns: 0 };
        Arc::new(Mutex::new(state))
    }
}

impl Session {
    /// A session in the default keyspace that writes results to `out`.
    ///
    /// Must be called within the runtime: it listens to Ctrl-C from now on.
    pub fn new(
        database: Database,
        memory: QueryMemory,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, String> {
        let progress = CopyProgress::shared();
        let options = SessionOptions {
            progress: Some(progress_callback(database.clone(), Arc::clone(&progress))),
            memory,
            ..SessionOptions::default()
        };
        let query = query::Session::new(database, options).map_err(|error| error.to_string())?;
        let query = query.listed(1, None);
        Session::of(Backend::Local(query), progress, out)
    }

    /// A session at a service, as [`Session::new`].
    pub(crate) fn at(remote: Remote, out: Box<dyn Write + Send>) -> Result<Self, String> {
        Session::of(Backend::remote(remote), CopyProgress::shared(), out)
    }

    fn of(
        backend: Backend,
        progress: Arc<Mutex<CopyProgress>>,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, String> {
        let interrupt = signal(SignalKind::interrupt())
            .map_err(|error| format!("cannot listen to Ctrl-C: {error}"))?;
        Ok(Session {
            backend,
            out,
            interrupt,
            progress,
            mode: Mode::Table,
            timing: true,
            screen: || None,
            rows: RowLimit::All,
            tells_counts: false,
            is_transcript: false,
        })
    }

    /// What statements run on.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Writes a line that belongs to the results.
    pub fn print(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Hands what was printed to the reader.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Waits for Ctrl-C.
    pub async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }

    /// Runs one piece of `source`.
    pub async fn run(&mut self, source: &str, piece: &Piece) -> Result<Next, Failure> {
        let next = match piece {
            Piece::Statement(range) => {
                self.run_statement(source, range.clone()).await.map(|()| Next::Continue)
            }
            Piece::Command(range) => self.run_command(&source[range.clone()]).await,
        };
        // What was printed before an error stands before it.
        self.out.flush()?;
        next
    }

    async fn run_command(&mut self, line: &str) -> Result<Next, Failure> {
        match command::parse(line).map_err(Failure::Statement)? {
            Command::Quit => return Ok(Next::Leave),
            Command::Help => self.out.write_all(command::help().as_bytes())?,
            Command::Mode(mode) => self.mode = mode,
            Command::Timing(timing) => self.timing = timing,
            Command::Rows(rows) => self.rows = rows,
            Command::Clear => {
                if (self.screen)().is_some() {
                    self.out.write_all(CLEAR.as_bytes())?;
                }
            }
            Command::Sql(sql) => self.run_statement(&sql, 0..sql.len()).await?,
        }
        Ok(Next::Continue)
    }

    async fn run_statement(&mut self, source: &str, range: Range<usize>) -> Result<(), Failure> {
        let text = &source[range.clone()];
        let columns = (self.screen)().map(|(columns, _)| columns);
        let shown = |error: QueryError| {
            Failure::Statement(shift(error, source, range.start).render_within(source, columns))
        };
        let start_ns = self.backend.clock().monotonic_ns();
        {
            let mut progress = self.progress.lock().expect("no one panics while drawing");
            progress.start_ns = start_ns;
        }
        // A Ctrl-C from before this statement is not meant for it.
        while futures::FutureExt::now_or_never(self.interrupt.recv()).is_some() {}

        for statement in query::split(text).map_err(shown)? {
            let mut table: Option<(Box<dyn Printer>, u64)> = None;
            let shape = Shape { mode: self.mode, page: self.page(), rows: self.rows };
            let run =
                print_outcome(&self.backend, &statement, shape, self.out.as_mut(), &mut table);
            let ended = tokio::select! {
                biased;
                _ = self.interrupt.recv() => Err(Stopped::Interrupted),
                ended = run => ended,
            };
            self.progress.lock().expect("no one panics while drawing").line.clear();
            if let Some((printer, count)) = &mut table
                && (ended.is_ok() || *count > 0)
            {
                printer.finish(self.out.as_mut())?;
            }
            if ended.is_err() {
                self.print_trace()?;
            }
            let stopped_at = table.as_ref().and_then(|(printer, _)| printer.stopped_at());
            let summary = match ended {
                Ok(Summary::Rows(_)) if stopped_at.is_some() => {
                    Summary::First(stopped_at.unwrap_or_default())
                }
                Ok(summary) => summary,
                Err(Stopped::Interrupted) => return Err(Failure::Interrupted),
                Err(Stopped::Query(error)) => return Err(shown(error)),
                Err(Stopped::Output(error)) => return Err(Failure::Output(error)),
            };
            if self.mode.is_for_people() || self.tells_counts {
                let elapsed_ns = self.backend.clock().monotonic_ns() - start_ns;
                let line = summary.line(self.timing.then(|| Duration::from_nanos(elapsed_ns)));
                self.tell(&self.fitted(&line))?;
            }
            self.print_trace()?;
        }
        Ok(())
    }

    /// Prints the trace of the statement that ended, if it was traced.
    fn print_trace(&mut self) -> io::Result<()> {
        let Some(record) = self.backend.take_trace() else { return Ok(()) };
        let columns = (self.screen)().map_or(TRACE_COLUMNS, |(columns, _)| columns);
        self.tell(trace_text(&record, columns).trim_end())
    }

    /// Writes a text that stands under a result: among the results where people read these, else
    /// to stderr.
    fn tell(&mut self, text: &str) -> io::Result<()> {
        if self.mode.is_for_people() && (self.is_transcript || (self.screen)().is_some()) {
            return writeln!(self.out, "{text}");
        }
        // What was printed before stands before it, where both go to one place.
        self.out.flush()?;
        tell_line!("{text}");
        Ok(())
    }

    /// Room for a result, where it goes to a screen.
    fn page(&self) -> Option<Page> {
        let (columns, lines) = (self.screen)()?;
        let fit = lines.saturating_sub(SCREEN_LINES_USED).max(ROW_LINES_MIN);
        Some(Page { columns, lines: (self.rows == RowLimit::Screen).then_some(fit) })
    }

    /// `text` with line breaks where the screen ends, if there is one.
    fn fitted(&self, text: &str) -> String {
        match (self.screen)() {
            Some((columns, _)) => wrapped(text, columns, "  "),
            None => text.to_owned(),
        }
    }
}

/// How a result is to look.
#[derive(Clone, Copy)]
struct Shape {
    mode: Mode,
    page: Option<Page>,
    rows: RowLimit,
}

enum Stopped {
    Interrupted,
    Query(QueryError),
    Output(io::Error),
}

/// What stands under a result.
enum Summary {
    Rows(u64),
    /// Rows of a result that has more.
    First(u64),
    Written(u64, &'static str),
    Message(String),
}

impl Summary {
    fn line(&self, elapsed: Option<Duration>) -> String {
        let rows = |count: u64| if count == 1 { "1 row".into() } else { format!("{count} rows") };
        let (line, elapsed) = match (self, elapsed.map(in_words)) {
            (Summary::Rows(count), elapsed) => (rows(*count), elapsed),
            (Summary::First(count), elapsed) => {
                let line = format!("first {}", rows(*count));
                let line = elapsed.map_or(line.clone(), |elapsed| format!("{line} in {elapsed}"));
                return format!("{line}; there are more, and .rows all shows them");
            }
            (Summary::Written(count, verb), elapsed) => {
                (format!("{} {verb}", rows(*count)), elapsed)
            }
            (Summary::Message(message), Some(elapsed)) => return format!("{message} ({elapsed})"),
            (Summary::Message(message), None) => return message.clone(),
        };
        match elapsed {
            Some(elapsed) => format!("{line} in {elapsed}"),
            None => line,
        }
    }
}

/// Runs `statement` and prints its rows; `table` is the printer at work, which the caller ends.
async fn print_outcome(
    backend: &Backend,
    statement: &query::Statement,
    shape: Shape,
    out: &mut (dyn Write + Send),
    table: &mut Option<(Box<dyn Printer>, u64)>,
) -> Result<Summary, Stopped> {
    let outcome = backend.run(statement).await.map_err(Stopped::Query)?;
    if let Some(note) = &outcome.note {
        // Not part of the result: a file or a pipe must not take it for rows.
        tell_line!("note: {note}");
    }
    let mut schema = outcome.schema;
    let mut rows = match outcome.kind {
        OutcomeKind::Count(count) => {
            return Ok(Summary::Written(count, past_tense(statement.text())));
        }
        OutcomeKind::Message(message) => return Ok(Summary::Message(message)),
        OutcomeKind::Decided(answers) => {
            // A program gets the same columns whatever the answer is.
            let people = shape.mode.is_for_people();
            let answers = if people { without_unsaid(&answers) } else { answers };
            schema = answers.schema();
            stream::iter([Ok(answers)]).boxed()
        }
        OutcomeKind::Rows(rows) => rows,
    };
    let (printer, count) = table.insert((printer(shape.mode, schema, shape.page), 0));
    let rows_max = match shape.rows {
        RowLimit::First(rows) => rows,
        RowLimit::Screen | RowLimit::All => u64::MAX,
    };
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(Stopped::Query)?;
        let room = usize::try_from(rows_max - *count).unwrap_or(usize::MAX);
        let taken = batch.num_rows().min(room);
        printer.write(out, &batch.slice(0, taken)).map_err(Stopped::Output)?;
        *count += taken as u64;
        if taken < batch.num_rows() {
            return Ok(Summary::First(*count));
        }
        if printer.stopped_at().is_some() {
            // The rest is not asked for.
            break;
        }
    }
    Ok(Summary::Rows(*count))
}

fn progress_callback(
    database: Database,
    state: Arc<Mutex<CopyProgress>>,
) -> Arc<dyn Fn(query::Progress) + Send + Sync> {
    Arc::new(move |progress| {
        let now_ns = database.clock().monotonic_ns();
        let mut state = state.lock().expect("no one panics while drawing");
        let interval_ns = crate::output::progress::INTERVAL_MS * 1_000_000;
        if now_ns.saturating_sub(state.drawn_ns) < interval_ns {
            return;
        }
        state.drawn_ns = now_ns;
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(state.start_ns));
        let progress = Progress {
            rows: progress.rows,
            bytes: progress.bytes,
            bytes_total: Some(progress.bytes_max),
        };
        state.line.draw(progress, elapsed);
    })
}

/// What the statement did to its rows, from its first word.
fn past_tense(statement: &str) -> &'static str {
    let word = statement.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty());
    match word.unwrap_or("").to_ascii_uppercase().as_str() {
        "INSERT" => "inserted",
        "UPDATE" => "updated",
        "DELETE" => "deleted",
        "COPY" => "copied",
        _ => "written",
    }
}

/// Moves the place of an error from the statement at byte `start` to the whole source.
fn shift(mut error: QueryError, source: &str, start: usize) -> QueryError {
    if let Some(span) = &mut error.span {
        let before = &source[..start];
        let last_line = before.rsplit('\n').next().unwrap_or("");
        if span.line == 1 {
            span.column += last_line.chars().count() as u64;
        }
        span.line += before.matches('\n').count() as u64;
    }
    error
}

fn in_words(elapsed: Duration) -> String {
    let ms = elapsed.as_secs_f64() * 1e3;
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.2} s", ms / 1e3) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use tidegate_engine::Options;

    use super::*;
    use crate::query::Span;

    /// What a session has printed.
    #[derive(Clone, Default)]
    pub(crate) struct Printed(Arc<Mutex<Vec<u8>>>);

    impl Printed {
        /// All since the last call.
        pub(crate) fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    impl Write for Printed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Session {
        /// The database behind this session.
        pub(crate) fn database(&self) -> &Database {
            match &self.backend {
                Backend::Local(session) => session.database(),
                Backend::Remote(..) => panic!("the database is elsewhere"),
            }
        }
    }

    /// A session on a database of its own, which prints CSV.
    pub(crate) async fn session(directory: &Path, printed: &Printed) -> Session {
        let options = Options { shards: Some(1), ..Options::new(directory) };
        let database = Database::open(options).await.unwrap();
        let out = Box::new(printed.clone());
        let mut session = Session::new(database, QueryMemory::new(None), out).unwrap();
        session.mode = Mode::Csv;
        session
    }

    #[test]
    fn the_line_under_a_result_says_how_much_and_how_long() {
        let elapsed = Some(Duration::from_micros(1234));
        assert_eq!(
            Summary::First(42).line(elapsed),
            "first 42 rows in 1.2 ms; there are more, and .rows all shows them"
        );
        assert_eq!(Summary::Rows(1).line(elapsed), "1 row in 1.2 ms");
        assert_eq!(Summary::Rows(10).line(None), "10 rows");
        let copied = Summary::Written(26_115, past_tense("/**/ copy t FROM 'x'"));
        assert_eq!(copied.line(Some(Duration::from_millis(2500))), "26115 rows copied in 2.50 s");
        assert_eq!(Summary::Message("done".into()).line(elapsed), "done (1.2 ms)");
    }

    #[test]
    fn an_error_keeps_its_place_in_the_whole_file() {
        let source = "SELECT 1;\n  SELECT x\n  FROM y";
        let start = source.find("SELECT x").unwrap();
        let at = |line, column| QueryError::invalid("m").at(Span { line, column, length: 1 });
        assert_eq!(shift(at(1, 8), source, start).span, at(2, 10).span);
        assert_eq!(shift(at(2, 3), source, start).span, at(3, 3).span);
    }

    /// The result may come in several batches.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn more_rows_are_told_of_only_where_there_are_more() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = query::Session::new(database, SessionOptions::default()).unwrap();
        let backend = Backend::Local(session);
        let text = "SELECT 7 AS x UNION ALL SELECT 7 AS x UNION ALL SELECT 7 AS x";
        let statement = query::split(text).unwrap().remove(0);
        for (rows, shown, line) in [
            (RowLimit::First(1), 1, "first 1 row; there are more, and .rows all shows them"),
            (RowLimit::First(2), 2, "first 2 rows; there are more, and .rows all shows them"),
            (RowLimit::First(3), 3, "3 rows"),
            (RowLimit::First(4), 3, "3 rows"),
            (RowLimit::All, 3, "3 rows"),
        ] {
            let shape = Shape { mode: Mode::Csv, page: None, rows };
            let (mut out, mut table) = (Vec::<u8>::new(), None);
            let summary = print_outcome(&backend, &statement, shape, &mut out, &mut table).await;
            let Ok(summary) = summary else { panic!("{rows:?}: the query fails") };
            assert_eq!(summary.line(None), line, "{rows:?}");
            let (mut printer, count) = table.expect("rows were printed");
            printer.finish(&mut out).unwrap();
            assert_eq!(count, shown, "{rows:?}");
            let lines = String::from_utf8(out).unwrap().lines().skip(1).count() as u64;
            assert_eq!(lines, shown, "{rows:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn programs_get_the_same_columns_whatever_is_decided() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = query::Session::new(database, SessionOptions::default()).unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        let backend = Backend::Local(session);
        let mut printed = Vec::new();
        for (k, mode) in [(1, Mode::Csv), (1, Mode::Csv), (2, Mode::Table), (2, Mode::Table)] {
            let text = format!("INSERT INTO t (k, v) VALUES ({k}, 7) IF NOT EXISTS");
            let statement = query::split(&text).unwrap().remove(0);
            let shape = Shape { mode, page: None, rows: RowLimit::All };
            let (mut out, mut table) = (Vec::<u8>::new(), None);
            let summary = print_outcome(&backend, &statement, shape, &mut out, &mut table).await;
            assert!(matches!(summary, Ok(Summary::Rows(1))), "{text}");
            let (mut printer, _) = table.expect("the answer was printed");
            printer.finish(&mut out).unwrap();
            printed.push(String::from_utf8(out).unwrap());
        }
        assert_eq!(printed[0], "[applied],k,v\ntrue,,\n");
        assert_eq!(printed[1], "[applied],k,v\nfalse,1,7\n");
        // People see no columns that say nothing.
        assert!(printed[2].contains("true") && !printed[2].contains('v'), "{}", printed[2]);
        assert!(printed[3].contains("false") && printed[3].contains('7'), "{}", printed[3]);
    }

    /// Whoever reads a table sees its end, also where the rest of the rows is not to be had.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_that_came_before_a_failure_are_printed_with_the_end_of_their_table() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(directory.path(), &printed).await;
        let run = async |session: &mut Session, text: &str| {
            session.run(text, &Piece::Statement(0..text.len())).await
        };
        let batches = "SET datafusion.execution.batch_size = 3";
        assert_eq!(run(&mut session, batches).await.unwrap(), Next::Continue);
        // The first of three batches comes, in the second one there is a division by zero.
        let late = "SELECT value, 12 / (value - 5) AS q FROM generate_series(1, 9)";
        let early = "SELECT value, 12 / (value - 1) AS q FROM generate_series(1, 9)";
        let table = "+-------+----+\n| value | q  |\n+-------+----+\n\
                     |     1 | -3 |\n|     2 | -4 |\n|     3 | -6 |\n+-------+----+\n";
        let records = "-[ row 1 ]\nvalue | 1\nq     | -3\n-[ row 2 ]\nvalue | 2\nq     | -4\n\
                       -[ row 3 ]\nvalue | 3\nq     | -6\n";
        let csv = "value,q\n1,-3\n2,-4\n3,-6\n";
        let json = "{\"value\":1,\"q\":-3}\n{\"value\":2,\"q\":-4}\n{\"value\":3,\"q\":-6}\n";
        let all =
            [(Mode::Table, table), (Mode::Expanded, records), (Mode::Csv, csv), (Mode::Json, json)];
        for (mode, wanted) in all {
            session.mode = mode;
            for (text, wanted) in [(late, wanted), (early, ""), (late, wanted)] {
                let failure = run(&mut session, text).await.unwrap_err();
                let told = match failure {
                    Failure::Statement(told) => told,
                    other => panic!("{mode}: {other:?}"),
                };
                assert!(told.contains("zero"), "{mode}: {told}");
                assert_eq!(printed.take(), wanted, "{mode}: {text}");
            }
        }
        // What is not shown is not computed.
        (session.mode, session.rows) = (Mode::Csv, RowLimit::First(2));
        assert_eq!(run(&mut session, late).await.unwrap(), Next::Continue);
        assert_eq!(printed.take(), "value,q\n1,-3\n2,-4\n");
        session.database().close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_get_the_lines_that_a_screen_leaves() {
        type Screen = fn() -> Option<(usize, usize)>;
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(directory.path(), &printed).await;
        assert_eq!(session.page(), None);
        let screens: [(Screen, usize); 5] = [
            (|| Some((80, 24)), 18),
            (|| Some((80, 12)), 6),
            (|| Some((80, 11)), 5),
            (|| Some((80, 10)), 5),
            (|| Some((80, 1)), 5),
        ];
        for (screen, fit) in screens {
            session.screen = screen;
            for (rows, lines) in
                [(RowLimit::Screen, Some(fit)), (RowLimit::All, None), (RowLimit::First(3), None)]
            {
                session.rows = rows;
                assert_eq!(session.page(), Some(Page { columns: 80, lines }), "{rows:?}");
            }
        }
        // The line under a table stands below it, where both are on a screen.
        (session.mode, session.timing) = (Mode::Table, false);
        let more = |shown| format!("first {shown} rows; there are more, and .rows all shows them");
        for (limit, count, shown, line) in [
            (RowLimit::Screen, 5, 5, "5 rows".to_owned()),
            (RowLimit::Screen, 6, 5, more(5)),
            (RowLimit::First(2), 6, 2, more(2)),
            (RowLimit::First(6), 6, 6, "6 rows".to_owned()),
            (RowLimit::All, 6, 6, "6 rows".to_owned()),
        ] {
            session.rows = limit;
            let text = format!("SELECT value FROM generate_series(1, {count})");
            session.run(&text, &Piece::Statement(0..text.len())).await.unwrap();
            let printed = printed.take();
            assert!(printed.ends_with(&format!("+-------+\n{line}\n")), "{limit:?}: {printed}");
            // Three lines of the head, one of the end, and that one.
            assert_eq!(printed.lines().count(), shown + 5, "{limit:?}: {printed}");
        }
        let clear = ".clear";
        session.run(clear, &Piece::Command(0..clear.len())).await.unwrap();
        assert_eq!(printed.take(), CLEAR);
        session.screen = || None;
        session.run(clear, &Piece::Command(0..clear.len())).await.unwrap();
        assert_eq!(printed.take(), "", "a file is not emptied");
        session.database().close().await.unwrap();
    }

    #[test]
    fn what_was_written_is_told_by_the_word_of_its_statement() {
        for (text, count, wanted) in [
            ("INSERT INTO t VALUES (1)", 1, "1 row inserted"),
            ("update t SET a = 1 WHERE k = 1", 0, "0 rows updated"),
            ("\n  Delete FROM t", 2, "2 rows deleted"),
            ("COPY t FROM 'x'", 1, "1 row copied"),
            ("BEGIN BATCH INSERT INTO t VALUES (1); APPLY BATCH", 3, "3 rows written"),
            ("", 1, "1 row written"),
        ] {
            let summary = Summary::Written(count, past_tense(text));
            assert_eq!(summary.line(None), wanted, "{text}");
            let timed = format!("{wanted} in 2.0 ms");
            assert_eq!(summary.line(Some(Duration::from_millis(2))), timed, "{text}");
        }
        assert_eq!(Summary::Message("done".into()).line(None), "done");
        for (micros, wanted) in [
            (0, "0.0 ms"),
            (49, "0.0 ms"),
            (999_900, "999.9 ms"),
            (1_000_000, "1.00 s"),
            (61_500_000, "61.50 s"),
        ] {
            assert_eq!(in_words(Duration::from_micros(micros)), wanted, "{micros}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_command_changes_what_it_names_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(directory.path(), &printed).await;
        let run = async |session: &mut Session, line: &str| {
            session.run(line, &Piece::Command(0..line.len())).await
        };
        let (all, one) = (RowLimit::All, RowLimit::First(1));
        for (line, wanted) in [
            (".mode json", (Mode::Json, true, all)),
            (".timing off", (Mode::Json, false, all)),
            (".rows 1", (Mode::Json, false, one)),
            (".timing on", (Mode::Json, true, one)),
            (".rows screen", (Mode::Json, true, RowLimit::Screen)),
            (".mode expanded", (Mode::Expanded, true, RowLimit::Screen)),
            (".rows 1", (Mode::Expanded, true, one)),
            (".mode csv", (Mode::Csv, true, one)),
        ] {
            assert_eq!(run(&mut session, line).await.unwrap(), Next::Continue, "{line}");
            assert_eq!((session.mode, session.timing, session.rows), wanted, "{line}");
            assert_eq!(printed.take(), "", "{line}");
        }
        for wrong in [".mode xml", ".rows none", ".timing", ".nonsense"] {
            let failure = run(&mut session, wrong).await.unwrap_err();
            assert!(matches!(failure, Failure::Statement(_)), "{wrong}: {failure:?}");
            assert_eq!((session.mode, session.timing, session.rows), (Mode::Csv, true, one));
        }
        let text = "CREATE TABLE t (k int PRIMARY KEY); SELECT value FROM generate_series(1, 3)";
        session.run(text, &Piece::Statement(0..text.len())).await.unwrap();
        assert_eq!(printed.take(), "value\n1\n");
        session.rows = RowLimit::All;
        for (line, wanted) in
            [("\\d", "default,t,"), (".tables", "default,t,"), ("\\d t", "k,int,")]
        {
            assert_eq!(run(&mut session, line).await.unwrap(), Next::Continue, "{line}");
            let printed = printed.take();
            assert!(printed.contains(&format!("\n{wanted}")), "{line}: {printed}");
        }
        let told = match run(&mut session, "\\d absent").await.unwrap_err() {
            Failure::Statement(told) => told,
            other => panic!("{other:?}"),
        };
        assert!(told.contains("absent"), "{told}");
        assert_eq!(run(&mut session, "\\?").await.unwrap(), Next::Continue);
        assert_eq!(printed.take(), command::help());
        assert_eq!(run(&mut session, "\\q").await.unwrap(), Next::Leave);
        session.database().close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_trace_stands_below_its_statement_whether_that_succeeds_or_fails() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(directory.path(), &printed).await;
        (session.mode, session.timing, session.is_transcript) = (Mode::Table, false, true);
        let run = async |session: &mut Session, text: &str| {
            session.run(text, &Piece::Statement(0..text.len())).await
        };
        let (sound, wrong) = ("SELECT 1 AS a", "SELECT 1 / (value - 1) FROM generate_series(1, 9)");
        let table = "+---+\n| a |\n+---+\n| 1 |\n+---+\n1 row\n";
        run(&mut session, "TRACING COMPACT").await.unwrap();
        assert!(!printed.take().contains(" µs, "), "that itself is not traced");
        for _ in 0..2 {
            run(&mut session, sound).await.unwrap();
            let told = printed.take();
            let Some(trace) = told.strip_prefix(table) else { panic!("{told}") };
            assert!(trace.starts_with("trace ") && trace.contains(" µs, rows: 1\n"), "{trace}");
            assert!(trace.contains(" shard  step\n"), "{trace}");
            run(&mut session, wrong).await.unwrap_err();
            let trace = printed.take();
            assert!(trace.starts_with("trace ") && trace.contains(" µs, an error\n"), "{trace}");
        }
        // Programs get rows alone.
        session.mode = Mode::Csv;
        run(&mut session, sound).await.unwrap();
        assert_eq!(printed.take(), "a\n1\n");
        session.mode = Mode::Table;
        run(&mut session, "TRACING OFF").await.unwrap();
        printed.take();
        run(&mut session, sound).await.unwrap();
        assert_eq!(printed.take(), table);
        session.database().close().await.unwrap();
    }
}

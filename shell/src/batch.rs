//! Statements from -c, -f and a pipe: run in order, stop at the first that fails. What comes
//! through a pipe runs as soon as a statement is complete.
//!
//! With -f in table mode every statement stands above its result, with the comments before it, so
//! that the output of a file reads like a session.

use std::io::{self, BufRead};
use std::ops::Range;

use tokio::sync::mpsc;

use crate::cli::Input;
use crate::exit::{EXIT_FAILED, EXIT_INTERRUPTED};
use crate::session::{Failure, Next, Session};
use crate::stderr::{tell, tell_line};
use crate::text::{Piece, complete_bytes, split};

/// Lines of a pipe that are read ahead.
const LINES_WAITING_MAX: usize = 64;

/// Runs `inputs` in order; without any, what comes in on stdin. Returns the exit code.
pub async fn run(session: &mut Session, inputs: &[Input]) -> u8 {
    for input in inputs {
        let code = match input {
            Input::Text(text) => run_text(session, text, false).await,
            Input::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => run_text(session, &text, true).await,
                Err(error) => fail(&format!("error: cannot read {}: {error}\n", path.display())),
            },
        };
        if code != Some(0) {
            return code.unwrap_or(0);
        }
    }
    if inputs.is_empty() {
        return run_stdin(session).await.unwrap_or(0);
    }
    0
}

/// Runs what comes in on stdin, as `run_text` does. All of it stays at hand: an error says where in
/// the whole text it is.
async fn run_stdin(session: &mut Session) -> Option<u8> {
    // Reading cannot be stopped, so it has a thread that nobody waits for.
    let (sender, mut lines) = mpsc::channel(LINES_WAITING_MAX);
    let reader = std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = String::new();
            let line = stdin.read_line(&mut line).map(|_| line);
            let is_last = line.as_ref().map_or(true, String::is_empty);
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    if let Err(error) = reader {
        return fail(&format!("error: no thread to read stdin: {error}\n"));
    }
    let mut text = String::new();
    let mut done_to = 0;
    loop {
        let line = tokio::select! {
            biased;
            () = session.interrupted() => {
                tell_line!("cancelled");
                return Some(EXIT_INTERRUPTED);
            }
            line = lines.recv() => line,
        };
        let line = match line {
            Some(Ok(line)) => line,
            Some(Err(error)) => return fail(&format!("error: cannot read stdin: {error}\n")),
            None => String::new(),
        };
        text.push_str(&line);
        if line.is_empty() {
            return run_part(session, &text, done_to..text.len(), false).await;
        }
        // A long statement is looked at again only where it may end.
        let may_end = line.contains(';') || line.trim_start().starts_with(['\\', '.']);
        let end = if may_end { done_to + complete_bytes(&text[done_to..]) } else { done_to };
        if end > done_to {
            let code = run_part(session, &text, done_to..end, false).await;
            if code != Some(0) {
                return code;
            }
            done_to = end;
        }
    }
}

/// Runs a text, of a file if `is_file`; Some(0) = go on, Some(code) = stop with it, None = stop,
/// all is well.
async fn run_text(session: &mut Session, text: &str, is_file: bool) -> Option<u8> {
    run_part(session, text, 0..text.len(), is_file).await
}

/// Runs a part of a text; places in errors are those of the whole.
async fn run_part(
    session: &mut Session,
    text: &str,
    part: Range<usize>,
    is_file: bool,
) -> Option<u8> {
    let mut done_to = part.start;
    for mut piece in split(&text[part.clone()]) {
        let (Piece::Statement(range) | Piece::Command(range)) = &mut piece;
        *range = range.start + part.start..range.end + part.start;
        let range = range.clone();
        // A file may itself say how results are written.
        let echo = is_file && session.mode.is_for_people();
        session.is_transcript = echo;
        let ended = match if echo { print_source(session, text, done_to, &range) } else { Ok(()) } {
            Ok(()) => session.run(text, &piece).await,
            Err(error) => Err(Failure::Output(error)),
        };
        done_to = range.end;
        let ended = match ended {
            Ok(Next::Continue) if echo => session.print("").map_err(Failure::Output),
            Ok(Next::Continue) => Ok(()),
            Ok(Next::Leave) => return None,
            Err(failure) => Err(failure),
        };
        match ended {
            Ok(()) => {}
            Err(Failure::Statement(message)) => return fail(&message),
            Err(Failure::Interrupted) => {
                tell_line!("cancelled");
                return Some(EXIT_INTERRUPTED);
            }
            // Whoever read the output has seen enough, as with `| head`.
            Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return None;
            }
            Err(Failure::Output(error)) => {
                return fail(&format!("error: cannot write the result: {error}\n"));
            }
        }
    }
    Some(0)
}

#[expect(clippy::unnecessary_wraps, reason = "the callers' type: a code that stops the batch")]
fn fail(message: &str) -> Option<u8> {
    tell!("{message}");
    Some(EXIT_FAILED)
}

/// Prints the comments before a statement and the statement itself, as if it had been typed.
fn print_source(
    session: &mut Session,
    text: &str,
    done_to: usize,
    range: &Range<usize>,
) -> io::Result<()> {
    for line in comments(&text[done_to..range.start]) {
        session.print(line)?;
    }
    let mut prompt = "tg> ";
    for line in text[range.clone()].lines() {
        session.print(format!("{prompt}{line}").trim_end())?;
        prompt = "    ";
    }
    session.flush()
}

/// Whole comment lines of what stands between two statements.
fn comments(between: &str) -> impl Iterator<Item = &str> {
    // The first line is the tail of the statement before.
    let skipped = usize::from(between.starts_with(';'));
    between.lines().skip(skipped).map(str::trim).filter(|line| line.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Mode;
    use crate::session::tests::{Printed, session};

    #[test]
    fn comments_stand_above_their_statement() {
        let found: Vec<&str> = comments("; -- tail\n\n-- one\n  -- two\n").collect();
        assert_eq!(found, ["-- one", "-- two"]);
        assert_eq!(comments("-- head\n").collect::<Vec<_>>(), ["-- head"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_runs_behind_a_failure_or_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(&directory.path().join("data"), &printed).await;
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            Input::File(path)
        };
        let text = |text: &str| Input::Text(text.to_owned());
        for (first, code, wanted) in [
            (text("SELECT 1 AS a; SELECT 2 AS b"), 0, "a\n1\nb\n2\nz\n9\n"),
            (text("SELECT 1 AS a; SELECT nonsense; SELECT 2 AS b"), EXIT_FAILED, "a\n1\n"),
            (text("SELECT 1 AS a;\n.nonsense\nSELECT 2 AS b"), EXIT_FAILED, "a\n1\n"),
            (text("SELECT 1 AS a;\n.quit\nSELECT 2 AS b"), 0, "a\n1\n"),
            (text("-- nothing"), 0, "z\n9\n"),
            (text(".mode json\nSELECT 1 AS a"), 0, "{\"a\":1}\n{\"z\":9}\n"),
            (file("sound.sql", "SELECT 1 AS a;\n"), 0, "a\n1\nz\n9\n"),
            (file("wrong.sql", "SELECT 1 AS a; SELECT nonsense;"), EXIT_FAILED, "a\n1\n"),
            (file("quits.sql", "SELECT 1 AS a;\nquit\nSELECT 2 AS b"), 0, "a\n1\n"),
            (Input::File(directory.path().join("absent.sql")), EXIT_FAILED, ""),
        ] {
            session.mode = Mode::Csv;
            let inputs = [first, text("SELECT 9 AS z")];
            assert_eq!(run(&mut session, &inputs).await, code, "{inputs:?}");
            assert_eq!(printed.take(), wanted, "{inputs:?}");
        }
        session.database().close().await.unwrap();
    }

    /// Without the file the same statements print their results alone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_reads_like_a_session_as_long_as_people_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(&directory.path().join("data"), &printed).await;
        session.timing = false;
        let text = "-- one\nSELECT 1 AS a; -- tail\n\n-- two\n  -- three\nSELECT\n  2 AS b;\n\
                    .mode csv\nSELECT 3 AS c;\n";
        let path = directory.path().join("session.sql");
        std::fs::write(&path, text).unwrap();
        let table =
            |name: &str, value: u32| format!("+---+\n| {name} |\n+---+\n| {value} |\n+---+\n");
        let (a, b) = (table("a", 1), table("b", 2));
        let transcript = format!(
            "-- one\ntg> SELECT 1 AS a\n{a}1 row\n\n-- two\n-- three\ntg> SELECT\n      2 AS b\n\
             {b}1 row\n\ntg> .mode csv\n\nc\n3\n"
        );
        for (input, wanted) in [
            (Input::File(path.clone()), transcript.clone()),
            (Input::Text(text.to_owned()), format!("{a}{b}c\n3\n")),
            (Input::File(path), transcript),
        ] {
            session.mode = Mode::Table;
            assert_eq!(run(&mut session, std::slice::from_ref(&input)).await, 0);
            assert_eq!(printed.take(), wanted, "{input:?}");
        }
        session.database().close().await.unwrap();
    }
}

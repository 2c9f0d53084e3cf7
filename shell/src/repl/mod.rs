//! The interactive shell: read, run, print, again, until Ctrl-D.
//!
//! Invariant: Ctrl-C never ends the shell. It clears the line while one is edited and cancels the
//! statement while one runs.

mod complete;
mod editor;
mod highlight;
mod history;
mod keyword;

pub use highlight::colors_wanted;

use self::complete::Names;
use self::editor::{Answer, EditorThread, Question};
use crate::exit::fail;
use crate::output::RowLimit;
use crate::session::{Failure, Next, Session};
use crate::stderr::{tell, tell_line};
use crate::text::split;

/// Runs the shell on the terminal and returns the exit code.
pub async fn run(session: &mut Session) -> u8 {
    let mut editor = match EditorThread::start() {
        Ok(editor) => editor,
        Err(error) => return fail(&error),
    };
    session.rows = RowLimit::Screen;
    tell_line!(
        "Tidegate {}, {}. Type help for help, Ctrl-D to leave.",
        env!("CARGO_PKG_VERSION"),
        session.backend().description()
    );
    loop {
        session.backend().refresh().await;
        let keyspace = session.backend().keyspace();
        let prompt = prompt(&keyspace);
        let question = Question {
            continuation: format!("{:>width$}", "-> ", width = prompt.chars().count()),
            prompt,
            names: Names { catalog: session.backend().catalog(), keyspace },
        };
        match editor.ask(question).await {
            Answer::Text(text) => match run_text(session, &text).await {
                Ok(Next::Continue) => {}
                Ok(Next::Leave) => return 0,
                Err(error) => return fail(&format!("cannot write the result: {error}")),
            },
            Answer::Interrupted => {}
            Answer::End => return 0,
            Answer::Failed(error) => return fail(&error),
        }
    }
}

/// Runs what was entered; the first failure drops the rest of it.
async fn run_text(session: &mut Session, text: &str) -> std::io::Result<Next> {
    for piece in split(text) {
        match session.run(text, &piece).await {
            Ok(Next::Continue) => {}
            Ok(Next::Leave) => return Ok(Next::Leave),
            Err(Failure::Statement(message)) => {
                tell!("{message}");
                break;
            }
            Err(Failure::Interrupted) => {
                tell_line!("cancelled");
                break;
            }
            Err(Failure::Output(error)) => return Err(error),
        }
    }
    Ok(Next::Continue)
}

fn prompt(keyspace: &str) -> String {
    if keyspace == "default" { "tg> ".to_owned() } else { format!("tg:{keyspace}> ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::{Printed, session};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_first_failure_drops_the_rest_of_what_was_entered() {
        let directory = tempfile::tempdir().unwrap();
        let printed = Printed::default();
        let mut session = session(directory.path(), &printed).await;
        for (text, next, wanted) in [
            ("SELECT 1 AS a; SELECT 2 AS b;", Next::Continue, "a\n1\nb\n2\n"),
            ("SELECT 1 AS a; SELECT nonsense; SELECT 2 AS b;", Next::Continue, "a\n1\n"),
            ("SELECT nonsense; \\q", Next::Continue, ""),
            ("SELECT 1 AS a; \\q", Next::Leave, "a\n1\n"),
            ("\\nonsense", Next::Continue, ""),
            ("-- nothing", Next::Continue, ""),
        ] {
            assert_eq!(run_text(&mut session, text).await.unwrap(), next, "{text}");
            assert_eq!(printed.take(), wanted, "{text}");
        }
        session.database().close().await.unwrap();
    }

    #[test]
    fn the_prompt_names_any_keyspace_but_the_usual_one() {
        for (keyspace, wanted) in
            [("default", "tg> "), ("weather", "tg:weather> "), ("Default", "tg:Default> ")]
        {
            assert_eq!(prompt(keyspace), wanted);
        }
    }
}

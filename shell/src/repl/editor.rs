//! The line editor on a thread of its own, for it blocks while a person thinks.
//!
//! Invariant: the editor owns the terminal only between a question and its answer; while a
//! statement runs the terminal is in its usual mode, so Ctrl-C is a signal then.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::{FileHistory, History};
use rustyline::{
    Cmd, ColorMode, CompletionType, Config, Context, Editor, Event, Helper, Hinter, KeyCode,
    KeyEvent, Modifiers, Validator,
};
use tokio::sync::mpsc;

use super::complete::{Names, complete};
use super::{highlight, history};
use crate::text::{is_complete, masked};

/// Candidates above which the editor asks before it lists them.
const CANDIDATES_MAX: usize = 200;

/// Asks for the next text.
pub(super) struct Question {
    pub prompt: String,
    /// Stands before the lines of a statement that goes on.
    pub continuation: String,
    pub names: Names,
}

/// What a person did.
#[derive(Debug)]
pub(super) enum Answer {
    /// Whole statements or a command.
    Text(String),
    /// Ctrl-C: the line is cleared.
    Interrupted,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
    /// The terminal cannot be used.
    Failed(String),
}

/// Handle of the editor's thread, which ends when this is dropped.
pub(super) struct EditorThread {
    questions: SyncSender<Question>,
    answers: mpsc::Receiver<Answer>,
    _thread: JoinHandle<()>,
}

impl EditorThread {
    /// Starts the thread.
    pub(super) fn start() -> Result<Self, String> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = mpsc::channel(1);
        let thread = std::thread::Builder::new()
            .name("editor".to_owned())
            .spawn(move || serve(&asked, &answer))
            .map_err(|error| format!("cannot start the editor: {error}"))?;
        Ok(EditorThread { questions, answers, _thread: thread })
    }

    /// Shows a prompt and waits for what the person does.
    pub(super) async fn ask(&mut self, question: Question) -> Answer {
        if self.questions.send(question).is_err() {
            return Answer::Failed("the editor has stopped".to_owned());
        }
        match self.answers.recv().await {
            Some(answer) => answer,
            None => Answer::Failed("the editor has stopped".to_owned()),
        }
    }
}

fn serve(questions: &Receiver<Question>, answers: &mpsc::Sender<Answer>) {
    let mut editor = match Terminal::new() {
        Ok(editor) => editor,
        Err(error) => {
            let _ = answers.blocking_send(Answer::Failed(error.to_string()));
            return;
        }
    };
    while let Ok(question) = questions.recv() {
        if answers.blocking_send(editor.read(question)).is_err() {
            return;
        }
    }
}

struct Terminal {
    editor: Editor<Assistant, FileHistory>,
    /// None where there is no place for a history.
    history: Option<PathBuf>,
}

impl Terminal {
    fn new() -> rustyline::Result<Self> {
        let colors = highlight::colors_wanted(true);
        let config = Config::builder()
            .max_history_size(history::ENTRIES_MAX)?
            .history_ignore_space(true)
            .history_ignore_dups(true)?
            .auto_add_history(false)
            .completion_type(CompletionType::List)
            .completion_prompt_limit(CANDIDATES_MAX)
            .color_mode(if colors { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Assistant { names: None, pending: String::new(), colors }));
        editor.bind_sequence(Event::from(KeyEvent(KeyCode::Enter, Modifiers::ALT)), Cmd::Newline);
        let mut history = history::path();
        if let Some(path) = &history {
            let loaded = history::prepare(path)
                .map_err(ReadlineError::from)
                .and_then(|()| editor.load_history(path));
            if let Err(error) = loaded {
                tracing::warn!("no history in {}: {error}", path.display());
                history = None;
            }
        }
        Ok(Terminal { editor, history })
    }

    fn read(&mut self, question: Question) -> Answer {
        let Question { prompt, continuation, names } = question;
        self.assist(|assistant| assistant.names = Some(names));
        // Lines of a statement that goes on, each with its line break.
        let mut pending = String::new();
        loop {
            self.assist(|assistant| assistant.pending.clone_from(&pending));
            let prompt = if pending.is_empty() { &prompt } else { &continuation };
            let line = match self.editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => return Answer::Interrupted,
                Err(ReadlineError::Eof) => return Answer::End,
                Err(error) => return Answer::Failed(error.to_string()),
            };
            pending.push_str(&line);
            if is_complete(&pending) {
                self.remember(&pending);
                return Answer::Text(pending);
            }
            pending.push('\n');
        }
    }

    fn assist(&mut self, change: impl FnOnce(&mut Assistant)) {
        if let Some(assistant) = self.editor.helper_mut() {
            change(assistant);
        }
    }

    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || text.starts_with(' ') {
            return;
        }
        let added = self.editor.history_mut().add(&masked(text.trim_end()));
        let Some(path) = &self.history else { return };
        if let Err(error) = added.and_then(|_| self.editor.append_history(path)) {
            tracing::warn!("the history cannot be written to {}: {error}", path.display());
            self.history = None;
        }
    }
}

/// What rustyline asks while a line is edited.
#[derive(Helper, Hinter, Validator)]
struct Assistant {
    names: Option<Names>,
    /// The lines before the one that is edited, each with its line break.
    pending: String,
    colors: bool,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(names) = &self.names else { return Ok((at, Vec::new())) };
        let before = self.pending.len();
        let (start, offers) = complete(&format!("{}{line}", self.pending), before + at, names);
        let pair =
            |offer: super::complete::Offer| Pair { display: offer.shown, replacement: offer.text };
        // A word never reaches over a line break.
        Ok((start.saturating_sub(before), offers.into_iter().map(pair).collect()))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.colors {
            return Cow::Borrowed(line);
        }
        if self.pending.is_empty() {
            return highlight::colored(line);
        }
        // A string or a comment may have begun above.
        let whole = format!("{}{line}", self.pending);
        let colored = highlight::colored(&whole);
        let above = self.pending.matches('\n').count();
        Cow::Owned(colored.splitn(above + 1, '\n').nth(above).unwrap_or("").to_owned())
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.colors && kind != CmdKind::MoveCursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_coloured_by_what_stands_above_it() {
        let assistant = Assistant { names: None, pending: "SELECT 'a\nb\n".into(), colors: true };
        assert_eq!(assistant.highlight("c' FROM", 0), "\x1b[32mc'\x1b[0m \x1b[1;34mFROM\x1b[0m");
        let plain = Assistant { colors: false, ..assistant };
        assert_eq!(plain.highlight("c' FROM", 0), "c' FROM");
    }

    #[test]
    fn the_history_has_whole_statements_and_no_password() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        history::prepare(&path).unwrap();
        let mut editor: Editor<Assistant, FileHistory> =
            Editor::with_config(Config::default()).unwrap();
        editor.load_history(&path).unwrap();
        let mut terminal = Terminal { editor, history: Some(path.clone()) };
        for text in [
            "CREATE ROLE r WITH PASSWORD = 'hush';",
            " SELECT 'unsaid';",
            "SELECT 1,\n  2;\n",
            "  \n",
            "",
        ] {
            terminal.remember(text);
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(!written.contains("hush") && !written.contains("unsaid"), "{written}");
        let mut kept = FileHistory::with_config(&Config::default());
        kept.load(&path).unwrap();
        let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
        assert_eq!(kept, ["CREATE ROLE r WITH PASSWORD = '***';", "SELECT 1,\n  2;"]);
    }
}

//! The list of what differs, with reasons.

const LIST: &str = include_str!("expected.txt");

/// A line of the list.
#[derive(Debug)]
struct Line {
    /// A file's name, or how the names of several begin.
    file: &'static str,
    /// Words of the statement; empty for all of the file.
    words: &'static str,
    reason: &'static str,
    /// Records that it stands for, and those of them that hold all the same.
    met: usize,
    holding: usize,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Expected(Vec<Line>);

impl Expected {
    pub fn read() -> Self {
        let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let line = |line: &'static str| {
            let parts: Vec<&str> = line.split('\t').collect();
            let [file, words, reason] = parts[..] else {
                panic!("a line of expected.txt has a file, words and a reason: {line}")
            };
            assert!(!reason.is_empty(), "a line of expected.txt says why: {line}");
            Line { file, words, reason, met: 0, holding: 0 }
        };
        Expected(lines.map(line).collect())
    }

    fn line(&mut self, file: &str, sql: &str) -> Option<&mut Line> {
        let sql = sql.to_lowercase();
        let is_of = |line: &&mut Line| {
            file.starts_with(line.file) && sql.contains(&line.words.to_lowercase())
        };
        self.0.iter_mut().find(is_of)
    }

    /// Why a record need not hold, where it is listed.
    pub fn reason(&mut self, file: &str, sql: &str) -> Option<&'static str> {
        let line = self.line(file, sql)?;
        line.met += 1;
        Some(line.reason)
    }

    /// A listed record holds.
    pub fn holds(&mut self, file: &str, sql: &str) {
        if let Some(line) = self.line(file, sql) {
            line.holding += 1;
        }
    }

    /// Every line stands for a record that does not hold.
    pub fn check(&self) {
        let idle: Vec<&Line> = self.0.iter().filter(|line| line.met == line.holding).collect();
        assert!(idle.is_empty(), "lines of expected.txt that stand for nothing: {idle:#?}");
    }
}

//! The list of what differs, with reasons.

const LIST: &str = include_str!("expected.txt");

/// A line of the list.
#[derive(Debug)]
struct Line {
    /// A file's name, or how the names of several begin.
    file: &'static str,
    /// Words of the statement; empty for all of the file.
    words: &'static str,
    /// A record fits.
    is_met: bool,
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
            Line { file, words, is_met: false }
        };
        Expected(lines.map(line).collect())
    }

    fn meet(&mut self, fits: impl Fn(&Line) -> bool) -> bool {
        let line = self.0.iter_mut().find(|line| fits(line));
        line.map(|line| line.is_met = true).is_some()
    }

    /// Whether all of a file is listed.
    pub fn has_whole(&mut self, file: &str) -> bool {
        self.meet(|line| {
            line.words.is_empty() && !line.file.is_empty() && file.starts_with(line.file)
        })
    }

    /// Whether a record is listed.
    pub fn lists(&mut self, file: &str, sql: &str) -> bool {
        let sql = sql.to_lowercase();
        self.meet(|line| file.starts_with(line.file) && sql.contains(&line.words.to_lowercase()))
    }

    /// Every line fits a record.
    pub fn check(&self) {
        let idle: Vec<&Line> = self.0.iter().filter(|line| !line.is_met).collect();
        assert!(idle.is_empty(), "lines of expected.txt that fit no record: {idle:#?}");
    }
}

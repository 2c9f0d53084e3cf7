//! Records of a CSV file, with what libraries hide: which fields were quoted, the line as it was
//! written, and where a quote was opened that is never closed.
//!
//! Fields are quoted with `"`, a quote inside is doubled; a line ends with LF, CR or both; empty
//! lines and a byte order mark are skipped. Invariant: one record takes bounded memory.

use std::io::{self, BufRead};

/// Most bytes of one record: beyond, a quote is taken for a stray one.
const RECORD_BYTES_MAX: usize = 32 << 20;

/// One field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Without quotes.
    pub text: &'a [u8],
    pub is_quoted: bool,
}

/// What stood next in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Record,
    End,
    /// Nothing after this can be read.
    Broken {
        line: u64,
        reason: &'static str,
    },
}

/// Reads one record after the other.
pub struct RecordReader<R> {
    input: R,
    delimiter: u8,
    /// The record as it was written, without its line break.
    raw: Vec<u8>,
    text: Vec<u8>,
    /// Where each field ends in `text`, and whether it was quoted.
    ends: Vec<(usize, bool)>,
    /// Line of the record, from 1.
    line: u64,
    /// Line of the next byte.
    line_next: u64,
    bytes_read: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    RecordStart,
    FieldStart,
    Plain,
    Quoted,
    /// After a quote inside of quotes: the end of them, or the first half of a doubled quote.
    Quote,
}

impl<R: BufRead> RecordReader<R> {
    pub fn new(input: R, delimiter: u8) -> Self {
        RecordReader {
            input,
            delimiter,
            raw: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
            line: 1,
            line_next: 1,
            bytes_read: 0,
        }
    }

    /// Reads the next record.
    ///
    /// Errors: of the input.
    pub fn read(&mut self) -> io::Result<Next> {
        self.raw.clear();
        self.text.clear();
        self.ends.clear();
        let mut state = State::RecordStart;
        let (mut is_quoted, mut quote_line) = (false, 0);
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(self.at_end(state, is_quoted, quote_line));
            }
            let mut used = 0;
            let mut is_done = false;
            for &byte in buffer {
                if state == State::RecordStart {
                    // The second half of a line break, an empty line, a byte order mark.
                    let place = self.bytes_read + used as u64;
                    let is_mark = place < 3 && byte == b"\xef\xbb\xbf"[place as usize];
                    if matches!(byte, b'\r' | b'\n') || is_mark {
                        used += 1;
                        self.line_next += u64::from(byte == b'\n');
                        continue;
                    }
                    self.line = self.line_next;
                    state = State::FieldStart;
                }
                used += 1;
                self.line_next += u64::from(byte == b'\n');
                if state != State::Quoted && matches!(byte, b'\r' | b'\n') {
                    is_done = true;
                    break;
                }
                self.raw.push(byte);
                state = match state {
                    State::Quoted if byte == b'"' => State::Quote,
                    State::Quoted => {
                        self.text.push(byte);
                        State::Quoted
                    }
                    State::Quote if byte == b'"' => {
                        self.text.push(byte);
                        State::Quoted
                    }
                    _ if byte == self.delimiter => {
                        self.ends.push((self.text.len(), is_quoted));
                        is_quoted = false;
                        State::FieldStart
                    }
                    State::FieldStart if byte == b'"' => {
                        is_quoted = true;
                        quote_line = self.line_next;
                        State::Quoted
                    }
                    _ => {
                        self.text.push(byte);
                        State::Plain
                    }
                };
            }
            self.input.consume(used);
            self.bytes_read += used as u64;
            if is_done {
                self.ends.push((self.text.len(), is_quoted));
                return Ok(Next::Record);
            }
            if self.raw.len() > RECORD_BYTES_MAX {
                return Ok(self.too_long(state, quote_line));
            }
        }
    }

    /// What the end of the input makes of the record that was begun.
    fn at_end(&mut self, state: State, is_quoted: bool, quote_line: u64) -> Next {
        match state {
            State::RecordStart => Next::End,
            State::Quoted => {
                Next::Broken { line: quote_line, reason: "a quote is opened and never closed" }
            }
            _ => {
                self.ends.push((self.text.len(), is_quoted));
                Next::Record
            }
        }
    }

    fn too_long(&self, state: State, quote_line: u64) -> Next {
        match state {
            State::Quoted => Next::Broken {
                line: quote_line,
                reason: "a quote is opened and not closed within 32 MiB",
            },
            _ => Next::Broken { line: self.line, reason: "the line is over 32 MiB long" },
        }
    }

    /// Fields of the record that was read last.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = Field<'_>> {
        (0..self.ends.len()).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
            let (end, is_quoted) = self.ends[at];
            Field { text: &self.text[start..end], is_quoted }
        })
    }

    /// The record that was read last, as it was written.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Line where the record that was read last begins, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line, raw text and fields of all records; quoted fields stand in angle brackets.
    fn records(text: &str, delimiter: u8, buffer_bytes: usize) -> Vec<String> {
        let input = io::BufReader::with_capacity(buffer_bytes, text.as_bytes());
        let mut reader = RecordReader::new(input, delimiter);
        let mut all = Vec::new();
        loop {
            match reader.read().unwrap() {
                Next::End => return all,
                Next::Broken { line, reason } => {
                    all.push(format!("{line}: {reason}"));
                    return all;
                }
                Next::Record => {
                    let shown = |field: Field<'_>| {
                        let text = String::from_utf8_lossy(field.text).into_owned();
                        if field.is_quoted { format!("<{text}>") } else { text }
                    };
                    let fields: Vec<String> = reader.fields().map(shown).collect();
                    all.push(format!("{} {}", reader.line(), fields.join("|")));
                }
            }
        }
    }

    #[test]
    fn quotes_line_breaks_and_empty_fields() {
        for buffer_bytes in [1, 2, 1024] {
            let all = |text| records(text, b',', buffer_bytes);
            assert_eq!(all("\u{feff}a,b\r\n\n\"\",\r\n,x"), ["1 a|b", "3 <>|", "4 |x"]);
            assert_eq!(all("\"a\n\"\"b\"\"\",c\nd"), ["1 <a\n\"b\">|c", "3 d"]);
            assert_eq!(all("a\"b,\"c\"d\n"), ["1 a\"b|<cd>"]);
            assert_eq!(all("a\n\nb,\"c\n\n"), ["1 a", "3: a quote is opened and never closed"]);
            assert_eq!(all("a,\"b\nc\",\"d\n"), ["2: a quote is opened and never closed"]);
            assert_eq!(records("\tx\n", b'\t', buffer_bytes), ["1 |x"]);
            // Nothing stands behind the last delimiter, and no line break.
            assert_eq!(all("k,v\n1,a,"), ["1 k|v", "2 1|a|"]);
            assert_eq!(all("\"a\","), ["1 <a>|"]);
            assert_eq!(all(","), ["1 |"]);
        }
    }

    #[test]
    fn a_record_takes_bounded_memory() {
        let text = format!("a\n\"{}", "b,c\n".repeat(RECORD_BYTES_MAX / 2));
        let found = records(&text, b',', 64 << 10);
        assert_eq!(found, ["1 a", "2: a quote is opened and not closed within 32 MiB"]);
    }
}

//! Storage code asserts what must be true at its borders: how often it does, counted.
//!
//! An assertion is one of the macros in [`MACROS`], also of constants. Those within a function
//! that others call to check something count once, the calls not at all. A function is an `fn`
//! item with a body; closures are none. Neither is counted in tests: files and folders of that
//! name, and items behind `#[cfg(test)]`.

use super::{code, sources};

/// Modules that are counted.
const ROOMS: &[&str] =
    &["cache", "commitlog", "sstable", "table", "memtable", "reader", "mutation"];
/// Assertions a function, over all rooms together.
const RATIO_MIN: f64 = 0.3;
const MACROS: &[&str] = &[
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "debug_assert_eq!",
    "debug_assert_ne!",
];

/// Functions and assertions.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Counts {
    functions: usize,
    assertions: usize,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.functions += other.functions;
        self.assertions += other.assertions;
    }

    fn ratio(self) -> f64 {
        self.assertions as f64 / self.functions as f64
    }
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs") || name.ends_with("_tests.rs")
}

/// Lines of code without the items that are for tests only, in a file as rustfmt writes it.
fn production(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut all = code(text).map(|(_, line)| line);
    while let Some(line) = all.next() {
        if line.trim() != "#[cfg(test)]" {
            lines.push(line);
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &str| {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            rest.starts_with('}') || (!rest.starts_with(' ') && rest.ends_with([';', '}', ',']))
        };
        all.find(|line| is_end(line));
    }
    lines
}

/// Whether a line begins an `fn` item: only words that may stand before `fn` do.
fn begins_function(line: &str) -> bool {
    let Some((before, _)) = line.split_once("fn ") else { return false };
    let is_modifier = |word: &str| {
        ["async", "const", "unsafe", "extern", "\"C\"", "in"].contains(&word)
            || word.starts_with("pub")
            || word.ends_with(')')
    };
    before.split_whitespace().all(is_modifier)
}

fn count(text: &str) -> Counts {
    let lines = production(text);
    let mut counts = Counts::default();
    for (at, line) in lines.iter().enumerate() {
        let head_end = lines[at..].iter().find(|line| line.ends_with(['{', '}', ';']));
        let has_body = head_end.is_some_and(|line| !line.ends_with(';'));
        counts.functions += usize::from(begins_function(line) && has_body);
        let words = line.split(|c: char| !(c.is_alphanumeric() || "_!".contains(c)));
        counts.assertions += words.filter(|word| MACROS.contains(word)).count();
    }
    counts
}

#[test]
fn storage_code_asserts_at_its_borders() {
    let mut all = Counts::default();
    let mut told = String::new();
    for room in ROOMS {
        let mut counts = Counts::default();
        let files = sources(&format!("engine/src/{room}"));
        let files = files.iter().filter(|(name, _)| !is_test(name));
        files.for_each(|(_, text)| counts.add(count(text)));
        assert!(counts.functions > 10, "{room}: no functions found, the check is blind");
        let Counts { functions, assertions } = counts;
        let ratio = counts.ratio();
        told += &format!("{room}: {assertions} assertions in {functions} functions, {ratio:.3}\n");
        all.add(counts);
    }
    let ratio = all.ratio();
    println!("{told}all: {ratio:.3}");
    assert!(ratio >= RATIO_MIN, "{ratio:.3} assertions a function, {RATIO_MIN} is least\n{told}");
}

#[test]
fn assertions_and_functions_are_counted_as_said() {
    let text = "fn a() {\n    // assert!(no);\n    assert!(b, \"{c}\");\n}\n\nimpl D for E {\n    \
                pub(in crate::f) async fn g(\n        h: u8,\n    ) -> u8 {\n        \
                debug_assert_eq!(h, 1);\n        let i = |fn_j: u8| assert_ne!(fn_j, 2);\n    }\n\n    \
                fn k();\n\n    fn l(&self) {}\n\n    #[cfg(test)]\n    fn m() {\n        \
                assert!(n);\n    }\n}\n\n#[cfg(test)]\nmod tests;\n\n#[cfg(test)]\nmod tests {\n    \
                fn o() {\n        assert!(p);\n    }\n}\n\nconst _: () = static_assert!(q);\n";
    assert_eq!(count(text), Counts { functions: 3, assertions: 3 });
    assert!(is_test("a/tests/b.rs") && is_test("a/tests.rs") && !is_test("a/protests.rs"));
}

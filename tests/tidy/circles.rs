//! Circles: groups of source files that import each other.
//!
//! The graph is read off the text of what is not test code. A file imports another where a `use` or
//! a path names something of it. A name that a module hands on (`pub use`) counts as that of the
//! file that defines it, so a module file that only gathers names takes no part. A circle is a
//! strongly connected component of more than one file (Tarjan, SIAM J. Comput. 1972).
//!
//! Limit: it follows names. A method is called without one, so a type whose `impl` blocks stand in
//! several files is known by the file of its definition.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources;

/// Most circles that may be listed.
const CIRCLES_MAX: usize = 5;

/// The circles that there are, and why each stays. This list only shrinks.
const CIRCLES: &[Circle] = &[
    Circle {
        files: &[
            "engine/src/cache/owners.rs",
            "engine/src/cache/rows/entries.rs",
            "engine/src/cache/rows/handle.rs",
            "engine/src/cache/rows/mod.rs",
            "engine/src/cache/rows/partitions.rs",
            "engine/src/cache/shard_cache.rs",
        ],
        reason: "An eviction goes from the shard's cache to the table's that owns the entry, an \
                 insertion goes the other way. A trait between them would cost a call by pointer \
                 for each entry that leaves.",
    },
    Circle {
        files: &[
            "engine/src/cache/budget/governor/mod.rs",
            "engine/src/cache/budget/governor/shadow.rs",
        ],
        reason: "A governor tells its shadow what happens, and the shadow decides about its \
                 ghosts with a governor of its own: the recursion is what makes the estimate \
                 honest.",
    },
];

/// Files that import each other.
struct Circle {
    files: &'static [&'static str],
    reason: &'static str,
}

/// A path by its parts, as `crate`, `schema`, `Token`.
type Path = Vec<String>;

/// A name that a `use` brings in; `*` brings all in.
#[derive(Debug, PartialEq)]
struct Import {
    path: Path,
    name: String,
    /// It is handed on to others, and need not be used here.
    is_public: bool,
}

/// A file of a crate.
#[derive(Default)]
struct File {
    name: String,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths outside of `use`, and words, each of which is a path of one part.
    paths: BTreeSet<Path>,
}

/// Files of a crate by the path of their module, which begins behind `crate`.
type Modules = BTreeMap<Path, File>;

/// Files by name with those that each imports, and of those a name that stands for the import.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Words and marks of code: no comments, no texts, `::` as one mark.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = length_of_token(rest, first);
        let (token, behind) = rest.split_at(length);
        rest = behind;
        if first.is_whitespace() || token.starts_with("//") || token.starts_with("/*") {
            continue;
        }
        let is_text = token.len() > 1 && token.ends_with(['"', '#', '\'']);
        tokens.push(if is_text { "\"\"".to_owned() } else { token.to_owned() });
    }
    tokens
}

/// Bytes of the token at the start of `rest`, whose first character is `first`.
fn length_of_token(rest: &str, first: char) -> usize {
    let up_to = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return up_to("*/");
    }
    if rest.starts_with("::") {
        return 2;
    }
    if first == '"' {
        return quoted(rest, 1, '"');
    }
    if first == '\'' {
        let mut after = rest[1..].chars();
        let (next, behind) = (after.next(), after.next());
        // A lifetime has no quote behind its first letter.
        let is_char = next == Some('\\') || behind == Some('\'');
        return if is_char { quoted(rest, 1, '\'') } else { 1 };
    }
    let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    if word == 0 {
        return first.len_utf8();
    }
    let behind = &rest[word..];
    match &rest[..word] {
        "r" | "br" if behind.starts_with(['"', '#']) => {
            let hashes = behind.len() - behind.trim_start_matches('#').len();
            if !behind[hashes..].starts_with('"') {
                // A name that is a keyword elsewhere.
                return word + 1;
            }
            let end = format!("\"{}", "#".repeat(hashes));
            let start = word + hashes + 1;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        }
        "b" if behind.starts_with('"') => quoted(rest, word + 1, '"'),
        "b" if behind.starts_with('\'') => quoted(rest, word + 1, '\''),
        _ => word,
    }
}

/// Bytes up to the end of a text that began before `from`.
fn quoted(rest: &str, from: usize, end: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest[from..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == end => return from + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Tokens without the items that only tests have.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].iter().take(MARK.len()).eq(MARK.iter()) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at = end_of_item(&tokens, at + MARK.len());
    }
    kept
}

/// Where the item, field or argument that begins at `at` has ended.
fn end_of_item(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    // Further attributes do not end it.
    let mut is_attribute = false;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "#" if depth == 0 => is_attribute = true,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return at,
            mark @ (")" | "]" | "}") => {
                depth -= 1;
                if depth == 0 && mark == "}" {
                    return at + 1;
                }
                is_attribute &= depth > 0;
            }
            ";" | "," if depth == 0 && !is_attribute => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Whether a word is a field, a method or a further part of a path.
fn is_behind_dot_or_path(tokens: &[String], at: usize) -> bool {
    let before = |steps: usize| at.checked_sub(steps).map_or("", |at| tokens[at].as_str());
    before(1) == "::" || before(1) == "." && before(2) != "."
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a tree of a `use` below `path`; where it ended.
fn read_tree(tokens: &[String], mut at: usize, path: &Path, found: &mut Vec<Import>) -> usize {
    let mut path = path.clone();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = read_tree(tokens, at, &path, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            Some("::") => at += 1,
            Some(part) => {
                let is_self = part == "self" && !path.is_empty();
                if !is_self {
                    path.push(part.to_owned());
                }
                at += 1;
                if tokens.get(at).is_none_or(|token| token != "::") {
                    break;
                }
            }
            None => return at,
        }
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if tokens.get(at).is_some_and(|token| token == "as") {
        name = tokens[at + 1].clone();
        at += 2;
    }
    found.push(Import { path, name, is_public: false });
    at
}

impl File {
    fn parse(name: &str, text: &str) -> File {
        let tokens = without_tests(tokens(text));
        let mut file = File { name: name.to_owned(), ..File::default() };
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        // Depths of the braces of modules within the file.
        let (mut depth, mut within) = (0, Vec::new());
        let mut is_public = false;
        let mut at = 0;
        while at < tokens.len() {
            match (token(at), token(at + 2)) {
                ("pub", _) => {
                    is_public = true;
                    at += 1;
                    if token(at) == "(" {
                        at += tokens[at..].iter().take_while(|token| *token != ")").count() + 1;
                    }
                    continue;
                }
                ("mod", ";") => {
                    file.children.insert(token(at + 1).to_owned());
                    at += 3;
                }
                ("mod", "{") => {
                    depth += 1;
                    within.push(depth);
                    at += 3;
                }
                ("use", _) => {
                    let mut found = Vec::new();
                    at = read_tree(&tokens, at + 1, &Path::new(), &mut found);
                    for import in &mut found {
                        import.is_public = is_public;
                        leave_modules(&mut import.path, within.len());
                    }
                    file.imports.append(&mut found);
                }
                ("{", _) => {
                    depth += 1;
                    at += 1;
                }
                ("}", _) => {
                    if within.last() == Some(&depth) {
                        within.pop();
                    }
                    depth -= 1;
                    at += 1;
                }
                (word, _) if is_word(word) => {
                    let mut path = vec![word.to_owned()];
                    let is_first = !is_behind_dot_or_path(&tokens, at);
                    at += 1;
                    while token(at) == "::" && is_word(token(at + 1)) {
                        path.push(token(at + 1).to_owned());
                        at += 2;
                    }
                    if is_first {
                        leave_modules(&mut path, within.len());
                        file.paths.insert(path);
                    }
                }
                _ => at += 1,
            }
            is_public = false;
        }
        file
    }

    /// Whether a name stands outside of `use`.
    fn says(&self, name: &str) -> bool {
        self.paths.iter().any(|path| path[0] == name)
    }

    fn import_of(&self, name: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.name == name)
    }
}

/// A path within so many modules of one file, as seen from the file.
fn leave_modules(path: &mut Path, modules: usize) {
    let supers = path.iter().take(modules).take_while(|part| *part == "super").count();
    path.drain(..supers);
    if supers > 0 && path.first().is_none_or(|part| part != "super") {
        path.insert(0, "self".to_owned());
    }
}

/// The modules of a crate, of its source files with their names and texts.
fn modules(folder: &str, files: &[(String, String)]) -> Modules {
    let texts: BTreeMap<&str, &str> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut modules = Modules::new();
    let mut open = vec![(Path::new(), format!("{folder}/lib.rs"))];
    while let Some((module, name)) = open.pop() {
        let text = texts.get(name.as_str()).unwrap_or_else(|| panic!("{name} is a module"));
        let file = File::parse(&name, text);
        let is_folder = name.ends_with("/mod.rs") || name.ends_with("/lib.rs");
        let stem = match is_folder {
            true => name.rsplit_once('/').map_or("", |(stem, _)| stem),
            false => name.trim_end_matches(".rs"),
        };
        for child in &file.children {
            let [own, folder] = [".rs", "/mod.rs"].map(|end| format!("{stem}/{child}{end}"));
            let child = [module.clone(), vec![child.clone()]].concat();
            open.push((child, if texts.contains_key(own.as_str()) { own } else { folder }));
        }
        modules.insert(module, file);
    }
    modules
}

/// A path of a file as seen from the root of its crate; `None` for one of another crate. What the
/// file imported is looked up where `in_scope` says so.
fn absolute(modules: &Modules, module: &Path, path: &[String], in_scope: bool) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    let below = |module: &[String], rest: &[String]| [module, rest].concat();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some(below(module, rest)),
        "super" => {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let above = module.len().checked_sub(supers)?;
            Some(below(&module[..above], &path[supers..]))
        }
        name if modules[module].children.contains(name) => Some(below(module, path)),
        name if in_scope => {
            let import = modules[module].import_of(name)?;
            let whole = absolute(modules, module, &import.path, false)?;
            Some(below(&whole, rest))
        }
        _ => None,
    }
}

/// The module that defines what a path names, and whether it names more than the module.
fn resolve(modules: &Modules, path: &[String], depth: usize) -> Option<(Path, bool)> {
    assert!(depth < 50, "names are handed on without end: {path:?}");
    let mut module = Path::new();
    for (at, part) in path.iter().enumerate() {
        let file = &modules[&module];
        if file.children.contains(part) {
            module.push(part.clone());
            continue;
        }
        let follow = |path: &[String], rest: &[String]| {
            let whole = absolute(modules, &module, path, false)?;
            resolve(modules, &[whole.as_slice(), rest].concat(), depth + 1)
        };
        if let Some(import) = file.import_of(part) {
            return follow(&import.path, &path[at + 1..]);
        }
        return Some((module, true));
    }
    Some((module, false))
}

/// Whether a `use` brings in all names of a module, so that nobody can say which.
fn brings_all_of_a_module(modules: &Modules, module: &Path, import: &Import) -> bool {
    let of = &import.path[..import.path.len() - 1];
    let whole = absolute(modules, module, of, false).filter(|_| import.name == "*");
    whole.and_then(|whole| resolve(modules, &whole, 0)).is_some_and(|(_, is_item)| !is_item)
}

/// Which files of a crate import which.
fn graph(modules: &Modules) -> Graph {
    let mut graph = Graph::new();
    for (module, file) in modules {
        let imports = graph.entry(file.name.clone()).or_default();
        let mut note = |path: &Path, in_scope: bool| {
            let whole = absolute(modules, module, path, in_scope);
            let Some((found, is_item)) = whole.and_then(|whole| resolve(modules, &whole, 0)) else {
                return;
            };
            let other = &modules[&found];
            // A folder is no file of its own: what is named through it counts.
            let is_folder = !is_item && !other.children.is_empty();
            if other.name != file.name && !is_folder {
                imports.entry(other.name.clone()).or_insert_with(|| path.join("::"));
            }
        };
        for import in &file.imports {
            assert!(!brings_all_of_a_module(modules, module, import), "{}: say which", file.name);
            if !import.is_public || file.says(&import.name) {
                note(&import.path, false);
            }
        }
        file.paths.iter().filter(|path| path.len() > 1).for_each(|path| note(path, true));
    }
    graph
}

/// What Tarjan's walk knows of the files that it has met.
#[derive(Default)]
struct Walk {
    /// By file its number, and the least number that it leads back to.
    met: BTreeMap<String, [usize; 2]>,
    open: Vec<String>,
    circles: Vec<BTreeSet<String>>,
}

impl Walk {
    fn go(&mut self, graph: &Graph, file: &str) {
        let number = self.met.len();
        self.met.insert(file.to_owned(), [number; 2]);
        self.open.push(file.to_owned());
        let mut least = number;
        for other in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
            if !self.met.contains_key(other) {
                self.go(graph, other);
                least = least.min(self.met[other][1]);
            } else if self.open.contains(other) {
                least = least.min(self.met[other][0]);
            }
        }
        self.met.insert(file.to_owned(), [number, least]);
        if least == number {
            let from = self.open.iter().position(|open| open == file).expect("it is open");
            let circle: BTreeSet<String> = self.open.drain(from..).collect();
            if circle.len() > 1 {
                self.circles.push(circle);
            }
        }
    }
}

/// Groups of files that import each other, in the order of their first files.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut walk = Walk::default();
    for file in graph.keys() {
        if !walk.met.contains_key(file) {
            walk.go(graph, file);
        }
    }
    walk.circles.sort();
    walk.circles
}

/// The imports within a circle, a line each.
fn told(graph: &Graph, circle: &BTreeSet<String>) -> String {
    let mut lines = Vec::new();
    for file in circle {
        for (other, name) in graph[file].iter().filter(|(other, _)| circle.contains(*other)) {
            lines.push(format!("    {file} imports {name} of {other}"));
        }
    }
    lines.join("\n")
}

#[test]
fn files_import_each_other_in_few_known_circles() {
    assert!(CIRCLES.len() <= CIRCLES_MAX, "{} circles, {CIRCLES_MAX} is most", CIRCLES.len());
    let mut found = Vec::new();
    let mut breaches = Vec::new();
    for folder in ["engine/src", "shell/src"] {
        let graph = graph(&modules(folder, &sources(folder)));
        let imports: usize = graph.values().map(BTreeMap::len).sum();
        assert!(imports > 300, "{folder}: few imports found, the check is blind");
        for circle in circles(&graph) {
            if !CIRCLES.iter().any(|known| circle.iter().eq(known.files.iter())) {
                let told = told(&graph, &circle);
                breaches.push(format!("{} files import each other:\n{told}", circle.len()));
            }
            found.push(circle);
        }
    }
    for known in CIRCLES {
        if !found.iter().any(|circle| circle.iter().eq(known.files.iter())) {
            breaches.push(format!("these are no circle now, shorten the list: {:?}", known.files));
        }
        let words = known.reason.split_whitespace().count();
        assert!(words >= 10, "{:?}: why do they import each other?", known.files);
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Circles of a made-up crate.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = files.iter().map(|(name, text)| (format!("a/{name}.rs"), (*text).to_owned()));
    let graph = graph(&modules("a", &files.collect::<Vec<_>>()));
    circles(&graph).into_iter().map(|circle| circle.into_iter().collect()).collect()
}

#[test]
fn circles_are_seen_however_names_are_written() {
    let lib = ("lib", "pub mod b;\nmod c;");
    let circle = [["a/b.rs", "a/c.rs"]];
    for c in [
        "use crate::b::B;",
        "use super::b::{self as other, B};",
        "use super::{b::B as D};",
        "fn c() -> crate::b::B { todo }",
        "use crate::b; fn c(b: b::B) {}",
        "pub use super::b::B; struct D(B);",
        "mod inner { use super::super::b::B; }",
        "fn c() { let a = ('\\'', '\"'); super::b::f() }",
        "fn c() { 0..crate::b::B }",
    ] {
        let b = ("b", "use crate::c; /* c */ pub struct B(c::C);");
        assert_eq!(circles_of(&[lib, b, ("c", c)]), circle, "{c}");
    }
    for c in [
        "// use crate::b::B;",
        "const C: &str = \"crate::b::B\"; const D: &str = r#\"\"crate::b::B\"#;",
        "pub use crate::b::B;",
        "#[cfg(test)]\n#[derive(Debug)]\nmod tests { use super::super::b::B; }\nstruct C;",
        "struct C { #[cfg(test)] b: crate::b::B, c: u8 }",
        "use std::b::B; struct C<'a>(&'a B);",
    ] {
        let b = ("b", "pub struct B(super::c::C);");
        assert!(circles_of(&[lib, b, ("c", c)]).is_empty(), "{c}");
    }
}

#[test]
fn names_that_are_handed_on_count_where_they_are_defined() {
    let lib = ("lib", "mod b;");
    let folder = "mod low; mod high; pub(crate) use low::Low; pub use self::high::High;";
    let high = ("b/high", "use super::Low; pub struct High(Low);");
    let low = ("b/low", "use crate::b::High as Upper; pub struct Low;");
    let lower = ("b/low", "pub struct Low;");
    assert_eq!(circles_of(&[lib, ("b/mod", folder), high, low]), [["a/b/high.rs", "a/b/low.rs"]]);
    assert!(circles_of(&[lib, ("b/mod", folder), high, lower]).is_empty());
    // The module file takes part once it has something of its own.
    let own = format!("{folder} pub struct Own(High);");
    let high = ("b/high", "use super::Own; pub struct High;");
    assert_eq!(
        circles_of(&[lib, ("b/mod", own.as_str()), high, lower]),
        [["a/b/high.rs", "a/b/mod.rs"]]
    );
}

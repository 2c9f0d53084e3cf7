//! A `schema.cql` read for the names that files do not hold.
//!
//! Serialization headers have the types of key columns but not their names, and only those other
//! columns that have data. This finds the `CREATE TABLE` statements of a text and takes names, keys
//! and types from them; everything else of the text is stepped over, whatever it is.

use super::types::{StoredType, UserType};
use crate::schema::Scalar;

/// A `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateTable {
    pub(super) keyspace: Option<String>,
    pub(super) name: String,
    pub(super) columns: Vec<CreateColumn>,
    pub(super) partition_key: Vec<String>,
    pub(super) clustering: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateColumn {
    pub(super) name: String,
    /// `None` for a type that cannot be read.
    pub(super) ty: Option<StoredType>,
    pub(super) is_static: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A name or keyword; `true` when it was quoted.
    Word(String, bool),
    /// `'…'`
    Text,
    Sign(char),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '-' if chars.peek() == Some(&'-') => drop(chars.by_ref().find(|c| *c == '\n')),
            '/' if chars.peek() == Some(&'/') => drop(chars.by_ref().find(|c| *c == '\n')),
            '/' if chars.peek() == Some(&'*') => {
                let mut last = ' ';
                for c in chars.by_ref().skip(1) {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '"' | '\'' => {
                let mut word = String::new();
                while let Some(inner) = chars.next() {
                    if inner == c && chars.next_if_eq(&c).is_none() {
                        break;
                    }
                    word.push(inner);
                }
                tokens.push(if c == '"' { Token::Word(word, true) } else { Token::Text });
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = c.to_string();
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                tokens.push(Token::Word(word.to_lowercase(), false));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Sign(c)),
        }
    }
    tokens
}

/// A place in tokens.
struct Cursor<'a> {
    tokens: &'a [Token],
}

impl Cursor<'_> {
    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.first(), Some(Token::Word(w, false)) if w == word);
        self.tokens = &self.tokens[usize::from(found)..];
        found
    }

    fn sign(&mut self, sign: char) -> bool {
        let found = self.tokens.first() == Some(&Token::Sign(sign));
        self.tokens = &self.tokens[usize::from(found)..];
        found
    }

    fn name(&mut self) -> Option<String> {
        let Some(Token::Word(name, _)) = self.tokens.first() else { return None };
        self.tokens = &self.tokens[1..];
        Some(name.clone())
    }

    /// `[keyspace.]name`
    fn full_name(&mut self) -> Option<(Option<String>, String)> {
        let first = self.name()?;
        if self.sign('.') { Some((Some(first), self.name()?)) } else { Some((None, first)) }
    }

    fn names(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.sign(',') {
            names.push(self.name()?);
        }
        Some(names)
    }

    fn if_not_exists(&mut self) {
        if self.word("if") {
            self.word("not");
            self.word("exists");
        }
    }

    /// Steps to the next comma or closing parenthesis that is not within others.
    fn skip_definition(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.tokens.first() {
            match token {
                Token::Sign('(' | '<') => depth += 1,
                Token::Sign(')') if depth == 0 => return,
                Token::Sign(')' | '>') => depth -= 1,
                Token::Sign(',') if depth == 0 => return,
                Token::Sign(';') => return,
                _ => {}
            }
            self.tokens = &self.tokens[1..];
        }
    }

    fn ty(&mut self, users: &[UserType]) -> Option<StoredType> {
        let (keyspace, name) = self.full_name()?;
        let parameters = if self.sign('<') {
            let mut parameters = vec![self.ty(users)];
            while self.sign(',') {
                parameters.push(self.ty(users));
            }
            if !self.sign('>') {
                return None;
            }
            parameters
        } else {
            Vec::new()
        };
        let user = users.iter().find(|user| user.name == name);
        if let Some(user) = user.filter(|_| parameters.is_empty()) {
            return Some(StoredType::User(user.clone()));
        }
        if keyspace.is_some() {
            return None;
        }
        let boxed = |at: usize| parameters.get(at)?.clone().map(Box::new);
        Some(match (name.as_str(), parameters.len()) {
            ("varchar", 0) => StoredType::Scalar(Scalar::Text),
            ("list", 1) => StoredType::List(boxed(0)?),
            ("set", 1) => StoredType::Set(boxed(0)?),
            ("map", 2) => StoredType::Map(boxed(0)?, boxed(1)?),
            ("frozen", 1) => StoredType::Frozen(boxed(0)?),
            ("tuple", _) => StoredType::Tuple(parameters.into_iter().collect::<Option<_>>()?),
            (name, 0) => StoredType::Scalar(Scalar::of_cql(name)?),
            _ => return None,
        })
    }

    fn create_type(&mut self, users: &[UserType]) -> Option<UserType> {
        self.if_not_exists();
        let (keyspace, name) = self.full_name()?;
        if !self.sign('(') {
            return None;
        }
        let mut fields = Vec::new();
        loop {
            fields.push((self.name()?, self.ty(users)?));
            if !self.sign(',') {
                break;
            }
        }
        Some(UserType { keyspace: keyspace.unwrap_or_default(), name, fields })
    }

    fn create_table(&mut self, users: &[UserType]) -> Option<CreateTable> {
        self.if_not_exists();
        let (keyspace, name) = self.full_name()?;
        let mut table = CreateTable {
            keyspace,
            name,
            columns: Vec::new(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
        };
        if !self.sign('(') {
            return None;
        }
        loop {
            if self.word("primary") {
                self.word("key");
                self.sign('(');
                if self.sign('(') {
                    table.partition_key = self.names()?;
                    self.sign(')');
                } else {
                    table.partition_key = vec![self.name()?];
                }
                if self.sign(',') {
                    table.clustering = self.names()?;
                }
                self.sign(')');
            } else {
                let name = self.name()?;
                let ty = self.ty(users);
                let mut is_static = false;
                if self.word("static") {
                    is_static = true;
                } else if self.word("primary") {
                    table.partition_key = vec![name.clone()];
                }
                table.columns.push(CreateColumn { name, ty, is_static });
            }
            self.skip_definition();
            if !self.sign(',') {
                break;
            }
        }
        (!table.partition_key.is_empty()).then_some(table)
    }
}

/// The tables that a text creates. Statements that cannot be read are left out.
pub(super) fn tables(text: &str) -> Vec<CreateTable> {
    let tokens = tokens(text);
    let (mut users, mut tables) = (Vec::new(), Vec::new());
    for statement in tokens.split(|token| *token == Token::Sign(';')) {
        let mut cursor = Cursor { tokens: statement };
        if !cursor.word("create") {
            continue;
        }
        if cursor.word("type") {
            users.extend(cursor.create_type(&users));
        } else if cursor.word("table") || cursor.word("columnfamily") {
            tables.extend(cursor.create_table(&users));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_among_other_statements() {
        let text = "-- a note; CREATE TABLE no (x int)\n\
            CREATE KEYSPACE ks WITH replication = {'class': 'a;b'} AND durable_writes = true;\n\
            CREATE TYPE ks.addr (street text, tags frozen<set<text>>);\n\
            CREATE TABLE IF NOT EXISTS ks.\"T1\" (\"Pk\" int, b text, c frozen<map<int, text>>,\n\
            s counter static, a frozen<addr>, odd 'com.example.Type', PRIMARY KEY ((\"Pk\", b), c))\n\
            WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x''y';\n\
            /* CREATE TABLE none (a int) */ CREATE TABLE t2 (k uuid PRIMARY KEY, v list<int>)";
        let tables = tables(text);
        let [first, second] = tables.as_slice() else { panic!("{tables:?}") };
        assert_eq!((first.keyspace.as_deref(), first.name.as_str()), (Some("ks"), "T1"));
        assert_eq!(first.partition_key, ["Pk", "b"]);
        assert_eq!(first.clustering, ["c"]);
        let types: Vec<String> = first
            .columns
            .iter()
            .map(|c| c.ty.as_ref().map_or("?".into(), ToString::to_string))
            .collect();
        let wanted = ["int", "text", "frozen<map<int, text>>", "counter", "frozen<addr>", "?"];
        assert_eq!(types, wanted);
        assert!(first.columns[3].is_static && !first.columns[4].is_static);
        assert_eq!(
            (second.partition_key.as_slice(), second.columns.len()),
            (&["k".to_owned()][..], 2)
        );
    }

    #[test]
    fn odd_text_never_panics() {
        for text in [
            "",
            "CREATE",
            "CREATE TABLE",
            "CREATE TABLE t (",
            "CREATE TABLE t (a",
            "'",
            "\"",
            "CREATE TABLE t (a list<, PRIMARY KEY (",
            "/*",
            "CREATE TYPE t (a int",
        ] {
            assert!(tables(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_primary_key_is_read_in_each_form_that_it_has() {
        for (text, partition, clustering) in [
            ("CREATE TABLE t (a int PRIMARY KEY, b int, c int)", &["a"][..], &[][..]),
            ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a))", &["a"], &[]),
            ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY ((a)))", &["a"], &[]),
            ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b))", &["a"], &["b"]),
            ("create table t (a int, b int, c int, primary key (a, b, c))", &["a"], &["b", "c"]),
            ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY ((a, b)))", &["a", "b"], &[]),
            ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY ((b), a))", &["b"], &["a"]),
            ("CREATE TABLE t (PRIMARY KEY ((c, a), b), a int, b int, c int)", &["c", "a"], &["b"]),
            ("CREATE COLUMNFAMILY t (a int, b int, c int, PRIMARY KEY (B, A))", &["b"], &["a"]),
            ("// x\nCREATE TABLE t (a int /* ; ) */, b int, c int, PRIMARY KEY (c))", &["c"], &[]),
        ] {
            let tables = tables(&format!("{text};"));
            let [table] = &tables[..] else { panic!("{text}: {tables:?}") };
            assert_eq!(table.partition_key, partition, "{text}");
            assert_eq!(table.clustering, clustering, "{text}");
            let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
            assert_eq!(names, ["a", "b", "c"], "{text}");
            let is_int = |c: &CreateColumn| c.ty == Some(StoredType::Scalar(Scalar::Int));
            assert!(table.columns.iter().all(is_int), "{text}: {tables:?}");
        }
        assert!(tables("CREATE TABLE t (a int, b int)").is_empty(), "it has no key");
    }

    #[test]
    fn names_in_quotes_are_no_keywords_and_types_are_read_whole() {
        let text = "CREATE TYPE IF NOT EXISTS \"U\" (a int, b frozen<tuple<int, varchar>>);\
            CREATE TABLE \"ks\".\"a\"\"b\" (\"primary\" ascii, k map<int, frozen<\"U\">>, \
            l tuple<int, list<text>>, m ks.\"U\", n ks.none, o list<int, int>, p other, \
            \"static\" duration static, PRIMARY KEY (\"primary\"))";
        let tables = tables(text);
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!((table.keyspace.as_deref(), table.name.as_str()), (Some("ks"), "a\"b"));
        assert_eq!(table.partition_key, ["primary"]);
        let shown: Vec<_> = table
            .columns
            .iter()
            .map(|c| (c.name.as_str(), c.ty.as_ref().map(ToString::to_string), c.is_static))
            .collect();
        let column = |name, ty: &str| (name, Some(ty.to_owned()), false);
        let unknown = |name| (name, None, false);
        let wanted = [
            column("primary", "ascii"),
            column("k", "map<int, frozen<\"U\">>"),
            column("l", "tuple<int, frozen<list<text>>>"),
            column("m", "\"U\""),
            unknown("n"),
            unknown("o"),
            unknown("p"),
            ("static", Some("duration".to_owned()), true),
        ];
        assert_eq!(shown, wanted);
        let Some(StoredType::User(user)) = &table.columns[3].ty else { panic!("{table:?}") };
        let fields: Vec<_> = user.fields.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        assert_eq!(fields, ["a int", "b tuple<int, text>"]);
    }
}

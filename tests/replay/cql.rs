//! The fixtures' CQL in the words of our SQL: the same statements, literals written as SQL has
//! them.
//!
//! What differs: blobs are `X'…'`, UUIDs are quoted, sets are written as lists, maps as `MAP {…}`,
//! tuples as `struct(…)`, durations as intervals, floats as casts (a `-0.0` would be a decimal), a
//! decimal's exponent is written out, `decimal` is as wide as it gets. Options of CREATE that only
//! Cassandra has (replication, compression, compaction) are left out.

use std::collections::BTreeMap;

/// A table of the fixtures: its columns with their CQL types, and its key.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub columns: Vec<(String, String)>,
    pub partition_key: Vec<String>,
    pub clustering_key: Vec<String>,
    pub descending: Vec<String>,
}

impl Table {
    pub fn ty(&self, name: &str) -> &str {
        let column = self.columns.iter().find(|(column, _)| column == name);
        &column.unwrap_or_else(|| panic!("no column {name}")).1
    }
}

/// Fields of user types by the type's name.
pub type UserTypes = BTreeMap<String, Vec<(String, String)>>;

/// What has been declared so far.
#[derive(Debug, Default)]
pub struct Translator {
    pub tables: BTreeMap<String, Table>,
    pub types: UserTypes,
}

impl Translator {
    /// One statement in our SQL.
    pub fn statement(&mut self, cql: &str) -> String {
        if let Some(rest) = cql.strip_prefix("CREATE KEYSPACE ") {
            return format!("CREATE KEYSPACE {}", rest.split(' ').next().expect("a name"));
        }
        if let Some(rest) = cql.strip_prefix("CREATE TYPE ") {
            let (name, body) = rest.split_once(" (").expect("fields");
            let body = body.trim_end().strip_suffix(')').expect("the end of the fields");
            let fields = split(body, ',').into_iter().map(|field| {
                let (name, ty) = field.split_once(' ').expect("name and type");
                (name.to_owned(), ty.to_owned())
            });
            self.types.insert(name.to_owned(), fields.collect());
            return cql.to_owned();
        }
        if let Some(rest) = cql.strip_prefix("CREATE TABLE ") {
            return self.create_table(rest);
        }
        if let Some(rest) = cql.strip_prefix("INSERT INTO ") {
            let (head, rest) = rest.split_once(" VALUES (").expect("values");
            let (values, using) = rest.rsplit_once(") USING ").expect("a timestamp");
            let (table, columns) = head.split_once(" (").expect("columns");
            let table_of = &self.tables[table];
            let columns: Vec<&str> = split(columns.trim_end_matches(')'), ',');
            let values = columns
                .iter()
                .zip(split(values, ','))
                .map(|(column, value)| self.literal(table_of.ty(column), value));
            let values = values.collect::<Vec<_>>().join(", ");
            let columns = columns.join(", ");
            return format!("INSERT INTO {table} ({columns}) VALUES ({values}) USING {using}");
        }
        if let Some(rest) = cql.strip_prefix("UPDATE ") {
            let (head, rest) = rest.split_once(" SET ").expect("assignments");
            let (assignments, filter) = rest.rsplit_once(" WHERE ").expect("a key");
            let table = &self.tables[head.split(' ').next().expect("a name")];
            let assignments = split(assignments, ',').into_iter().map(|assignment| {
                let (left, right) = assignment.split_once('=').expect("an assignment");
                let (left, right) = (left.trim(), right.trim());
                let column = left.split(['[', '.']).next().expect("a name");
                let ty = table.ty(column);
                let right = match right.strip_prefix(&format!("{left}+")) {
                    Some(added) => format!("{left} + {}", self.literal(ty, added)),
                    // The fixtures' elements and fields are numbers.
                    None if left != column => right.to_owned(),
                    None => self.literal(ty, right),
                };
                format!("{left} = {right}")
            });
            let assignments = assignments.collect::<Vec<_>>().join(", ");
            return format!("UPDATE {head} SET {assignments} WHERE {filter}");
        }
        // Conditions of the fixtures are on numbers.
        assert!(cql.starts_with("DELETE "), "{cql}");
        cql.to_owned()
    }

    fn create_table(&mut self, rest: &str) -> String {
        let (name, rest) = rest.split_once(" (").expect("columns");
        let (body, options) = rest.rsplit_once(") WITH ").expect("options");
        let mut table = Table::default();
        let mut parts = Vec::new();
        for part in split(body, ',') {
            if let Some(key) = part.strip_prefix("PRIMARY KEY (") {
                let key = key.strip_suffix(')').expect("the end of the key");
                let mut names = split(key, ',').into_iter();
                let partition = names.next().expect("a partition key");
                let partition = partition.trim_start_matches('(').trim_end_matches(')');
                table.partition_key =
                    split(partition, ',').into_iter().map(str::to_owned).collect();
                table.clustering_key = names.map(str::to_owned).collect();
                parts.push(part.to_owned());
                continue;
            }
            let (column, ty) = part.split_once(' ').expect("name and type");
            let ours = ty.replace("decimal", "decimal(76, 38)");
            parts.push(format!("{column} {ours}"));
            let (ty, is_key) = match ty.strip_suffix(" PRIMARY KEY") {
                Some(ty) => (ty, true),
                None => (ty, false),
            };
            let ty = ty.strip_suffix(" static").unwrap_or(ty);
            if is_key {
                table.partition_key.push(column.to_owned());
            }
            table.columns.push((column.to_owned(), ty.to_owned()));
        }
        // What Cassandra was told for all of its tables.
        let mut with = "column_index_size_in_kb = 4".to_owned();
        if let Some(order) = options.strip_prefix("CLUSTERING ORDER BY (") {
            let order = order.split_once(')').expect("the end of the order").0;
            let descending = split(order, ',').into_iter().filter_map(|c| c.strip_suffix(" DESC"));
            table.descending = descending.map(str::to_owned).collect();
            with = format!("CLUSTERING ORDER BY ({order}) AND {with}");
        }
        self.tables.insert(name.to_owned(), table);
        format!("CREATE TABLE {name} ({}) WITH {with}", parts.join(", "))
    }

    /// A literal of a CQL type.
    pub fn literal(&self, ty: &str, text: &str) -> String {
        let text = text.trim();
        if text == "null" {
            return "NULL".to_owned();
        }
        let inside = |open: char, close: char| {
            let inside = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
            split(inside.unwrap_or_else(|| panic!("'{text}' is no {ty}")), ',')
        };
        if let Some(inner) = arguments(ty, "frozen") {
            return self.literal(inner, text);
        }
        if let Some(element) = arguments(ty, "list") {
            return format!("[{}]", self.all(element, inside('[', ']')));
        }
        if let Some(element) = arguments(ty, "set") {
            return format!("[{}]", self.all(element, inside('{', '}')));
        }
        if let Some(inner) = arguments(ty, "map") {
            let types = split(inner, ',');
            let entries = inside('{', '}').into_iter().map(|entry| {
                let (key, value) = entry.split_once(':').expect("key and value");
                format!("{}: {}", self.literal(types[0], key), self.literal(types[1], value))
            });
            return format!("MAP {{{}}}", entries.collect::<Vec<_>>().join(", "));
        }
        if let Some(inner) = arguments(ty, "tuple") {
            let fields = split(inner, ',').into_iter().zip(inside('(', ')'));
            let fields: Vec<String> = fields.map(|(ty, text)| self.literal(ty, text)).collect();
            return format!("struct({})", fields.join(", "));
        }
        if let Some(fields) = self.types.get(ty) {
            let given = inside('{', '}').into_iter().map(|field| {
                let (name, value) = field.split_once(':').expect("field and value");
                let ty = &fields.iter().find(|(field, _)| field == name).expect("a field").1;
                format!("{name}: {}", self.literal(ty, value))
            });
            return format!("{{{}}}", given.collect::<Vec<_>>().join(", "));
        }
        scalar(ty, text)
    }

    fn all(&self, ty: &str, texts: Vec<&str>) -> String {
        let literals: Vec<String> = texts.iter().map(|text| self.literal(ty, text)).collect();
        literals.join(", ")
    }
}

fn scalar(ty: &str, text: &str) -> String {
    match ty {
        "blob" => format!("X'{}'", text.strip_prefix("0x").expect("a blob begins with 0x")),
        "uuid" | "timeuuid" => format!("'{text}'"),
        // The sign of a number that is none is Java's affair.
        "float" | "double" => format!("CAST('{}' AS DOUBLE)", text.replace("-NaN", "NaN")),
        "decimal" => plain_decimal(text),
        "duration" => interval(text),
        "timestamp" if !text.starts_with('\'') => format!("to_timestamp_millis({text})"),
        _ => text.to_owned(),
    }
}

/// `1E+2` as `100`.
fn plain_decimal(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once(['E', 'e']) else { return text.to_owned() };
    assert_eq!(digits, "1", "the fixtures have powers of ten only");
    let exponent: i32 = exponent.parse().expect("an exponent");
    match usize::try_from(exponent) {
        Ok(zeros) => format!("1{}", "0".repeat(zeros)),
        Err(_) => format!("0.{}1", "0".repeat(exponent.unsigned_abs() as usize - 1)),
    }
}

/// `-1mo2d3ns` as an interval of months, days and seconds.
fn interval(text: &str) -> String {
    const UNITS: [(&str, usize, i64); 10] = [
        ("mo", 0, 1),
        ("ms", 2, 1_000_000),
        ("us", 2, 1_000),
        ("ns", 2, 1),
        ("y", 0, 12),
        ("w", 1, 7),
        ("d", 1, 1),
        ("h", 2, 3_600_000_000_000),
        ("m", 2, 60_000_000_000),
        ("s", 2, 1_000_000_000),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let mut parts = [0; 3];
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).expect("a unit");
        let number: i64 = rest[..digits].parse().expect("a number");
        rest = &rest[digits..];
        let (name, part, factor) =
            UNITS.iter().find(|(name, ..)| rest.starts_with(name)).expect("a known unit");
        parts[*part] += number * factor;
        rest = &rest[name.len()..];
    }
    let [months, days, ns] = parts;
    let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    format!("INTERVAL '{sign}{months} months {sign}{days} days {sign}{seconds}.{ns:09} seconds'")
}

/// What stands in `name<…>`.
fn arguments<'a>(ty: &'a str, name: &str) -> Option<&'a str> {
    ty.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>')
}

/// Parts between separators outside of strings and brackets, without blanks around them; nothing
/// has no parts.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last);
    }
    parts
}

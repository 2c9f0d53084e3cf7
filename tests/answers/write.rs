//! Random tables and writes to them.

use super::ast::{Binary, Expr};
use super::evaluate::Row;
use super::generate::{Generator, constant};
use super::print::plain;
use super::table::{Column, Kind, Table, Write};
use super::value::{Type, Value};

/// A write as SQL and as the model takes it.
pub struct Statement {
    pub sql: String,
    pub writes: Vec<Write>,
    /// Whether the engine may say that keys cannot express the condition.
    pub may_be_refused: bool,
}

/// The moment of a write.
#[derive(Clone, Copy)]
struct Moment {
    timestamp: i64,
    now: i64,
    is_given: bool,
    ttl: Option<i64>,
}

impl Moment {
    fn expiry(&self, table: &Table) -> Option<i64> {
        let ttl = self.ttl.or(table.ttl).filter(|ttl| *ttl > 0);
        ttl.map(|ttl| self.now + ttl)
    }

    fn using(&self) -> String {
        let timestamp = self.is_given.then(|| format!("TIMESTAMP {}", self.timestamp));
        let ttl = self.ttl.map(|ttl| format!("TTL {ttl}"));
        let parts: Vec<String> = [ttl, timestamp].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" USING {}", parts.join(" AND ")) }
    }
}

impl Generator {
    /// A table with a random key and columns of random types.
    pub fn draw_table(&mut self, name: &str) -> Table {
        let of_keys = [
            Type::Int,
            Type::Int,
            Type::BigInt,
            Type::SmallInt,
            Type::TinyInt,
            Type::Text,
            Type::Text,
            Type::Timestamp,
            Type::Date,
            Type::Uuid,
            Type::Bool,
            Type::Decimal(10, 2),
            Type::Double,
            Type::Float,
            Type::Blob,
            Type::Time,
        ];
        let mut columns = Vec::new();
        let mut add = |name: String, ty: Type, kind: Kind| columns.push(Column { name, ty, kind });
        for at in 0..1 + self.below(2) {
            let ty = if at == 0 && self.chance(50) { Type::Int } else { self.pick(&of_keys) };
            add(format!("p{at}"), ty, Kind::Partition);
        }
        let clustering = self.pick(&[0, 1, 2, 2, 3]);
        for at in 0..clustering {
            add(format!("c{at}"), self.pick(&of_keys), Kind::Clustering(self.chance(40)));
        }
        if clustering > 0 && self.chance(30) {
            add("s0".into(), self.pick(&of_keys), Kind::Static);
        }
        for at in 0..2 + self.below(4) {
            add(format!("v{at}"), self.pick(&of_keys), Kind::Regular);
        }
        if self.features.collections && self.chance(50) {
            add("x0".into(), Type::Set, Kind::Regular);
            add("x1".into(), Type::Map, Kind::Regular);
        }
        let ttl = self.chance(10).then_some(50);
        Table { name: name.to_owned(), columns, ttl, writes: Vec::new() }
    }

    /// A write at a moment, µs since the epoch; moments of two writes are a millisecond apart.
    pub fn write(&mut self, table: &Table, now_us: i64) -> Statement {
        let is_given = self.chance(20);
        let away = self.below(41) as i64 - 30;
        let timestamp = if is_given { now_us + away * 1000 + 500 } else { now_us };
        let ttl = self.chance(12).then(|| self.pick(&[0, 1, 5, 40, 100_000]));
        let moment = Moment { timestamp, now: now_us.div_euclid(1_000_000), is_given, ttl };
        match self.below(10) {
            0..6 => self.insert(table, moment),
            6..8 => self.update(table, moment),
            _ => self.delete(table, Moment { ttl: None, ..moment }),
        }
    }

    fn key(&mut self, columns: &[Column]) -> Row {
        columns.iter().map(|column| self.value(column.ty, true)).collect()
    }

    fn insert(&mut self, table: &Table, moment: Moment) -> Statement {
        let others: Vec<Column> = table
            .columns_of(|kind| matches!(kind, Kind::Static | Kind::Regular))
            .into_iter()
            .filter(|_| self.chance(75))
            .collect();
        let (partition, clustering) = (table.partition_columns(), table.clustering_columns());
        let (mut rows, mut writes) = (Vec::new(), Vec::new());
        for at in 0..1 + self.below(6) {
            let (p, c) = (self.key(&partition), self.key(&clustering));
            let values: Row = others
                .iter()
                .map(|column| match self.chance(15) {
                    true => Value::Null,
                    false => self.value(column.ty, false),
                })
                .collect();
            let all = partition.iter().chain(&clustering).chain(&others);
            let texts: Vec<String> = (p.iter().chain(&c).chain(&values).zip(all))
                .map(|(value, column)| plain(value, column.ty))
                .collect();
            rows.push(format!("({})", texts.join(", ")));
            let names = others.iter().map(|column| column.name.clone());
            writes.push(Write::Put {
                // Of two rows with one key the later wins.
                timestamp: moment.timestamp + if moment.is_given { 0 } else { at as i64 },
                partition: p,
                clustering: Some(c),
                insert: true,
                cells: names.zip(values).collect(),
                expiry: moment.expiry(table),
            });
        }
        if moment.is_given {
            keep_last(&mut writes, &others);
        }
        let names: Vec<String> = (partition.iter().chain(&clustering).chain(&others))
            .map(|column| column.name.clone())
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES {}{}",
            table.name,
            names.join(", "),
            rows.join(", "),
            moment.using()
        );
        Statement { sql, writes, may_be_refused: false }
    }

    /// Keys of a write and the condition that names them: one or a few of each column.
    fn keys(&mut self, columns: &[Column]) -> (Vec<Row>, String) {
        let mut keys: Vec<Row> = vec![Vec::new()];
        let mut conditions = Vec::new();
        for column in columns {
            // Both booleans are no condition at all to the planner.
            let more = column.ty != Type::Bool && self.chance(20);
            let values: Row =
                (0..1 + usize::from(more)).map(|_| self.value(column.ty, true)).collect();
            let texts: Vec<String> = values.iter().map(|value| plain(value, column.ty)).collect();
            conditions.push(match texts.as_slice() {
                [one] => format!("{} = {one}", column.name),
                more => format!("{} IN ({})", column.name, more.join(", ")),
            });
            let longer = |key: &Row| -> Vec<Row> {
                let with = |value: &Value| [key.clone(), vec![value.clone()]].concat();
                values.iter().map(with).collect()
            };
            keys = keys.iter().flat_map(longer).collect();
        }
        (keys, conditions.join(" AND "))
    }

    fn update(&mut self, table: &Table, moment: Moment) -> Statement {
        let (partition, clustering) = (table.partition_columns(), table.clustering_columns());
        let is_static = |column: &Column| column.kind == Kind::Static;
        let mut set: Vec<Column> =
            table.columns_of(|kind| matches!(kind, Kind::Static | Kind::Regular));
        let is_deletion = self.chance(25) && moment.ttl.is_none();
        let only_static = set.iter().any(is_static) && self.chance(40);
        set.retain(|column| self.below(2) == 0 && (is_static(column) || !only_static));
        if set.is_empty() {
            return self.insert(table, moment);
        }
        let needs_row = !set.iter().all(is_static);
        let (partitions, mut condition) = self.keys(&partition);
        let mut rows = vec![None];
        if needs_row {
            let (keys, more) = self.keys(&clustering);
            if !clustering.is_empty() {
                condition = format!("{condition} AND {more}");
            }
            rows = keys.into_iter().map(Some).collect();
        }
        let values: Vec<(String, Value)> = set
            .iter()
            .map(|column| {
                let is_null = is_deletion || self.chance(15);
                let value = if is_null { Value::Null } else { self.value(column.ty, false) };
                (column.name.clone(), value)
            })
            .collect();
        let mut writes = Vec::new();
        for p in &partitions {
            for c in &rows {
                writes.push(Write::Put {
                    timestamp: moment.timestamp,
                    partition: p.clone(),
                    clustering: c.clone(),
                    insert: false,
                    cells: values.clone(),
                    expiry: moment.expiry(table),
                });
            }
        }
        let name = &table.name;
        let using = moment.using();
        let sql = if is_deletion {
            let columns: Vec<String> = set.iter().map(|column| column.name.clone()).collect();
            format!("DELETE {} FROM {name}{using} WHERE {condition}", columns.join(", "))
        } else {
            let assigned: Vec<String> = (set.iter().zip(&values))
                .map(|(column, (name, value))| format!("{name} = {}", plain(value, column.ty)))
                .collect();
            format!("UPDATE {name}{using} SET {} WHERE {condition}", assigned.join(", "))
        };
        Statement { sql, writes, may_be_refused: false }
    }

    fn delete(&mut self, table: &Table, moment: Moment) -> Statement {
        let mut may_be_refused = false;
        let mut condition: Option<Expr> = None;
        let mut and = |other: Expr| {
            condition = Some(match condition.take() {
                Some(known) => {
                    Expr::Binary(Binary::And, Box::new(known), Box::new(other), Type::Bool)
                }
                None => other,
            });
        };
        let column = |column: &Column| Expr::Column(table.name.clone(), column.name.clone());
        let compare = |binary, subject: Expr, value: Expr| {
            Expr::Binary(binary, Box::new(subject), Box::new(value), Type::Bool)
        };
        for key in table.partition_columns() {
            let value = constant(self.value(key.ty, true), key.ty);
            and(compare(Binary::Equal, column(&key), value));
        }
        let mut is_partition = true;
        for key in table.clustering_columns() {
            if self.chance(30) {
                break;
            }
            is_partition = false;
            let is_odd = self.chance(20);
            may_be_refused |= is_odd;
            let value = |generator: &mut Self| match is_odd {
                true => generator.literal(key.ty),
                false => constant(generator.value(key.ty, true), key.ty),
            };
            if self.chance(50) {
                let value = value(self);
                and(compare(Binary::Equal, column(&key), value));
                continue;
            }
            // In SQL these are text, which no slice says.
            may_be_refused |= key.ty == Type::Uuid;
            if self.chance(70) {
                let binary = self.pick(&[Binary::Greater, Binary::GreaterOrEqual]);
                let value = value(self);
                and(compare(binary, column(&key), value));
            } else {
                let binary = self.pick(&[Binary::Less, Binary::LessOrEqual]);
                let value = value(self);
                and(compare(binary, column(&key), value));
            }
            if self.chance(40) {
                let binary = self.pick(&[Binary::Less, Binary::LessOrEqual]);
                let value = value(self);
                and(compare(binary, column(&key), value));
            }
            break;
        }
        let condition = condition.expect("a table has a partition key");
        // In a write the table has no other name.
        let text = condition.to_string().replace(&format!("{}.", table.name), "");
        let sql = format!("DELETE FROM {}{} WHERE {text}", table.name, moment.using());
        let timestamp = moment.timestamp;
        let write = Write::Delete { timestamp, condition, partition: is_partition };
        Statement { sql, writes: vec![write], may_be_refused }
    }
}

/// Rows of one given timestamp: the last of a key counts, and of a partition's static columns.
fn keep_last(writes: &mut Vec<Write>, columns: &[Column]) {
    let is_static = |name: &str| {
        columns.iter().any(|column| column.name == name && column.kind == Kind::Static)
    };
    let mut kept: Vec<Write> = Vec::new();
    for write in writes.drain(..).rev() {
        let Write::Put { timestamp, partition, clustering, insert, mut cells, expiry } = write
        else {
            continue;
        };
        let later = |row: bool| {
            kept.iter().any(|other| match other {
                Write::Put { partition: p, clustering: c, .. } => {
                    format!("{p:?}") == format!("{partition:?}")
                        && (!row || format!("{c:?}") == format!("{clustering:?}"))
                }
                Write::Delete { .. } => false,
            })
        };
        if later(true) {
            continue;
        }
        if later(false) {
            cells.retain(|(name, _)| !is_static(name));
        }
        kept.push(Write::Put { timestamp, partition, clustering, insert, cells, expiry });
    }
    *writes = kept;
}

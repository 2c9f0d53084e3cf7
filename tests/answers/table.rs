//! Tables as the list of all writes to them, and what is in them by reading that list.

use super::ast::{Expr, Query, Select, Source};
use super::evaluate::{Model, Place, Relation, Row, Scope};
use super::value::{Type, Value};

/// What names of columns of collections begin with.
pub const COLLECTIONS: char = 'x';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Partition,
    /// The flag: descending.
    Clustering(bool),
    Static,
    Regular,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub kind: Kind,
}

/// What a write does; the timestamp decides which of two counts, a deletion at equal ones.
#[derive(Debug, Clone)]
pub enum Write {
    /// Values of a row, or of static columns alone where `clustering` is absent.
    Put {
        timestamp: i64,
        partition: Row,
        clustering: Option<Row>,
        /// Whether the row is there even without values.
        insert: bool,
        cells: Vec<(String, Value)>,
        /// The second in which it goes.
        expiry: Option<i64>,
    },
    /// Rows whose keys meet a condition; with `partition`, static columns as well.
    Delete { timestamp: i64, condition: Expr, partition: bool },
}

/// A table and its history.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Seconds that writes live unless they say otherwise.
    pub ttl: Option<i64>,
    pub writes: Vec<Write>,
}

impl Table {
    pub fn columns_of(&self, is_wanted: impl Fn(Kind) -> bool) -> Vec<Column> {
        self.columns.iter().filter(|column| is_wanted(column.kind)).cloned().collect()
    }

    pub fn partition_columns(&self) -> Vec<Column> {
        self.columns_of(|kind| kind == Kind::Partition)
    }

    pub fn clustering_columns(&self) -> Vec<Column> {
        self.columns_of(|kind| matches!(kind, Kind::Clustering(_)))
    }

    /// The statement that makes the table.
    pub fn create(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let fixed = if column.kind == Kind::Static { " static" } else { "" };
                format!("{} {}{fixed}", column.name, column.ty.sql())
            })
            .collect();
        let names = |columns: Vec<Column>| {
            columns.into_iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
        };
        let partition = names(self.partition_columns());
        let clustering = self.clustering_columns();
        let comma = if clustering.is_empty() { "" } else { ", " };
        let mut options: Vec<String> = Vec::new();
        if !clustering.is_empty() {
            let order = |column: &Column| {
                let is_descending = column.kind == Kind::Clustering(true);
                format!("{} {}", column.name, if is_descending { "DESC" } else { "ASC" })
            };
            let order: Vec<String> = clustering.iter().map(order).collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        if let Some(ttl) = self.ttl {
            options.push(format!("default_time_to_live = {ttl}"));
        }
        let with = if options.is_empty() { "" } else { " WITH " };
        format!(
            "CREATE TABLE {} ({}, PRIMARY KEY (({partition}){comma}{})){with}{}",
            self.name,
            columns.join(", "),
            names(clustering),
            options.join(" AND ")
        )
    }

    /// All columns of all rows.
    pub fn all(&self) -> Query {
        let item =
            |column: &Column| (Expr::Column("q".into(), column.name.clone()), column.name.clone());
        Query::of(Select {
            items: self.columns.iter().map(item).collect(),
            source: Some(Source::Table(self.name.clone(), "q".into())),
            ..Select::default()
        })
    }

    /// What is in the table at a second.
    pub fn contents(&self, now: i64) -> Relation {
        let mut rows = Vec::new();
        for partition in self.keys(|put| Some(put.0)) {
            let fixed: Vec<Value> = self.visible(&partition, None, now);
            let mut is_empty = true;
            for clustering in self.keys(|put| is_same_key(put.0, &partition).then_some(put.1?)) {
                let values = self.visible(&partition, Some(&clustering), now);
                let is_there = values.iter().any(|value| !value.is_null())
                    || self.is_inserted(&partition, &clustering, now);
                if is_there {
                    is_empty = false;
                    rows.push(self.row(&partition, Some(&clustering), &fixed, &values));
                }
            }
            if is_empty && fixed.iter().any(|value| !value.is_null()) {
                rows.push(self.row(&partition, None, &fixed, &[]));
            }
        }
        let columns =
            self.columns.iter().map(|column| (self.name.clone(), column.name.clone())).collect();
        Relation { columns, rows }
    }

    fn row(
        &self,
        partition: &Row,
        clustering: Option<&Row>,
        fixed: &[Value],
        own: &[Value],
    ) -> Row {
        let mut parts = [partition.iter(), fixed.iter(), own.iter()];
        let mut clustering = clustering.map(|key| key.iter());
        let mut next = |column: &Column| match column.kind {
            Kind::Partition => parts[0].next(),
            Kind::Clustering(_) => clustering.as_mut().and_then(Iterator::next),
            Kind::Static => parts[1].next(),
            Kind::Regular => parts[2].next(),
        };
        self.columns.iter().map(|column| next(column).cloned().unwrap_or(Value::Null)).collect()
    }

    /// Keys that were ever written, each once; zeros with different signs are different keys.
    fn keys<'a>(&'a self, key: impl Fn((&'a Row, Option<&'a Row>)) -> Option<&'a Row>) -> Vec<Row> {
        let mut keys: Vec<Row> = Vec::new();
        for write in &self.writes {
            if let Write::Put { partition, clustering, .. } = write
                && let Some(key) = key((partition, clustering.as_ref()))
                && !keys.iter().any(|known| is_same_key(known, key))
            {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Puts of a row, or of the static columns of a partition, with those that a row's INSERT sets.
    fn puts<'a>(
        &'a self,
        partition: &'a Row,
        clustering: Option<&'a Row>,
    ) -> impl Iterator<Item = (i64, bool, &'a [(String, Value)], Option<i64>)> {
        self.writes.iter().filter_map(move |write| match write {
            Write::Put { timestamp, partition: p, clustering: c, insert, cells, expiry } => {
                let is_row = match (clustering, c) {
                    (None, _) => true,
                    (Some(wanted), Some(c)) => is_same_key(wanted, c),
                    (Some(_), None) => false,
                };
                (is_same_key(partition, p) && is_row).then_some((
                    *timestamp,
                    *insert,
                    cells.as_slice(),
                    *expiry,
                ))
            }
            Write::Delete { .. } => None,
        })
    }

    /// Values of the regular columns of a row, or of the static ones without a row.
    fn visible(&self, partition: &Row, clustering: Option<&Row>, now: i64) -> Vec<Value> {
        let deleted = self.deleted(partition, clustering);
        let kind = if clustering.is_some() { Kind::Regular } else { Kind::Static };
        let columns = self.columns_of(|other| other == kind);
        let value = |column: &Column| {
            let cells =
                self.puts(partition, clustering).filter_map(|(timestamp, _, cells, expiry)| {
                    let (_, value) = cells.iter().find(|(name, _)| *name == column.name)?;
                    Some((timestamp, value, expiry))
                });
            match cells.max_by_key(|(timestamp, ..)| *timestamp) {
                Some((timestamp, value, expiry))
                    if timestamp > deleted && expiry.is_none_or(|expiry| expiry > now) =>
                {
                    value.clone()
                }
                _ => Value::Null,
            }
        };
        columns.iter().map(value).collect()
    }

    fn is_inserted(&self, partition: &Row, clustering: &Row, now: i64) -> bool {
        let deleted = self.deleted(partition, Some(clustering));
        let inserts = self.puts(partition, Some(clustering)).filter(|(_, insert, ..)| *insert);
        inserts.max_by_key(|(timestamp, ..)| *timestamp).is_some_and(|(timestamp, _, _, expiry)| {
            timestamp > deleted && expiry.is_none_or(|expiry| expiry > now)
        })
    }

    /// Timestamp of the newest deletion of a row, or of static columns.
    fn deleted(&self, partition: &Row, clustering: Option<&Row>) -> i64 {
        let columns: Vec<(String, String)> = self
            .partition_columns()
            .into_iter()
            .chain(self.clustering_columns())
            .map(|column| (self.name.clone(), column.name))
            .collect();
        let mut key = [partition.as_slice(), clustering.map_or(&[], Vec::as_slice)].concat();
        key.resize(columns.len(), Value::Null);
        let model = Model { tables: Default::default() };
        let covering = self.writes.iter().filter_map(|write| match write {
            Write::Delete { timestamp, condition, partition } => {
                let scope = Scope { columns: &columns, row: &key, outer: None };
                let place = Place { scope, group: None, window: None };
                let is_met = model.value(condition, &place) == Ok(Value::Bool(true));
                (is_met && (clustering.is_some() || *partition)).then_some(*timestamp)
            }
            Write::Put { .. } => None,
        });
        covering.max().unwrap_or(i64::MIN)
    }
}

fn is_same_key(a: &Row, b: &Row) -> bool {
    a.iter().zip(b).all(|(a, b)| a.form(true) == b.form(true))
}

//! The tables `system.reads`, `system.queries` and `system.sessions`: what is under way, and whose
//! it is.
//!
//! Of statements and sessions, a role without the right to see what others do finds its own.

use std::net::IpAddr;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::{DEFAULT_LEVEL, Error as EngineError, Permission, ReadReport, Resource};

use super::columns::{count, counts, moment, optional, shard, text, texts};
use crate::query::access::Caller;
use crate::query::engine::Engine;
use crate::query::roster::{Listed, Member};
use crate::query::watch::kept;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnderWay {
    Reads,
    Queries,
    Sessions,
}

impl UnderWay {
    pub fn name(self) -> &'static str {
        match self {
            UnderWay::Reads => "reads",
            UnderWay::Queries => "queries",
            UnderWay::Sessions => "sessions",
        }
    }

    pub fn fields(self) -> Vec<Field> {
        match self {
            UnderWay::Reads => read_fields(),
            UnderWay::Queries => query_fields(),
            UnderWay::Sessions => session_fields(),
        }
    }

    /// What `viewer` sees of it; `None` is the owner.
    pub async fn columns(
        self,
        database: &Engine,
        viewer: Option<&Member>,
    ) -> Result<Vec<ArrayRef>, EngineError> {
        match self {
            UnderWay::Reads => reads(database).await,
            UnderWay::Queries => Ok(queries(database, viewer)),
            UnderWay::Sessions => Ok(sessions(database, viewer)),
        }
    }
}

fn read_fields() -> Vec<Field> {
    vec![
        count("number"),
        text("table_name"),
        text("service_level"),
        text("class"),
        text("state"),
        Field::new("age_ms", DataType::Float64, false),
        count("memory_bytes"),
        shard(),
    ]
}

async fn reads(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.reads_report().await?;
    let told = |of: fn(&ReadReport) -> &str| texts(all.iter().map(of));
    let age = |read: &ReadReport| read.status.age_us as f64 / 1000.0;
    Ok(vec![
        counts(all.iter().map(|read| read.number)),
        told(|read| &read.status.table),
        told(|read| &read.service_level),
        told(|read| read.status.class),
        told(|read| read.status.state.as_str()),
        Arc::new(Float64Array::from_iter_values(all.iter().map(age))),
        counts(all.iter().map(|read| read.status.memory_bytes)),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|read| read.shard))),
    ])
}

/// Whether `viewer` sees what is another's.
fn sees_others(database: &Engine, viewer: Option<&Member>) -> bool {
    let role = viewer.and_then(|viewer| viewer.caller.role());
    let sees = |role: &str| {
        let (select, all) = (Permission::Select, &Resource::Administration);
        database.catalog().roles().may(role, select, all)
    };
    role.is_none_or(sees)
}

fn is_own(viewer: Option<&Member>, caller: &Caller) -> bool {
    viewer.is_some_and(|viewer| viewer.caller == *caller)
}

/// Moments of the wall clock out of those of the monotonic one.
struct Moments {
    wall_us: i64,
    now_ns: u64,
}

impl Moments {
    fn new(database: &Engine) -> Self {
        let clock = database.clock();
        Moments { wall_us: clock.wall_us(), now_ns: clock.monotonic_ns() }
    }

    fn age_us(&self, at_ns: u64) -> u64 {
        self.now_ns.saturating_sub(at_ns) / 1000
    }

    fn column(&self, all: impl Iterator<Item = u64>) -> ArrayRef {
        let wall = |at_ns| {
            let age_us = i64::try_from(self.age_us(at_ns)).unwrap_or(i64::MAX);
            self.wall_us.saturating_sub(age_us)
        };
        let column = TimestampMicrosecondArray::from_iter_values(all.map(wall));
        Arc::new(column.with_timezone("UTC"))
    }
}

fn peers(all: impl Iterator<Item = Option<IpAddr>>) -> ArrayRef {
    let texts = all.map(|peer| peer.map(|peer| peer.to_string()));
    Arc::new(texts.collect::<StringArray>())
}

/// A row a statement that runs.
fn query_fields() -> Vec<Field> {
    vec![
        count("number"),
        text("session"),
        text("role"),
        optional("peer", DataType::Utf8),
        text("keyspace_name"),
        text("state"),
        Field::new("started_at", moment(), false),
        Field::new("age_ms", DataType::Float64, false),
        count("rows"),
        text("statement"),
    ]
}

fn queries(database: &Engine, viewer: Option<&Member>) -> Vec<ArrayRef> {
    let mut all = database.roster().statements();
    if !sees_others(database, viewer) {
        all.retain(|one| is_own(viewer, &one.member.caller));
    }
    let moments = Moments::new(database);
    let age = |one: &Listed| moments.age_us(one.started_ns) as f64 / 1000.0;
    vec![
        counts(all.iter().map(|one| one.number)),
        texts(all.iter().map(|one| &*one.member.name)),
        texts(all.iter().map(|one| one.member.caller.name())),
        peers(all.iter().map(|one| one.member.said().peer)),
        texts(all.iter().map(|one| one.shown.keyspace.as_str())),
        texts(all.iter().map(|one| one.state.name())),
        moments.column(all.iter().map(|one| one.started_ns)),
        Arc::new(Float64Array::from_iter_values(all.iter().map(age))),
        counts(all.iter().map(|one| one.rows)),
        texts(all.iter().map(|one| kept(&one.shown.text))),
    ]
}

/// A row a session. What a client shows to be in one is not among it.
fn session_fields() -> Vec<Field> {
    vec![
        count("number"),
        text("session"),
        text("role"),
        optional("peer", DataType::Utf8),
        text("service_level"),
        Field::new("started_at", moment(), false),
        Field::new("last_call_at", moment(), false),
        count("statements"),
        optional("connections", DataType::UInt64),
    ]
}

fn sessions(database: &Engine, viewer: Option<&Member>) -> Vec<ArrayRef> {
    let mut all = database.roster().sessions();
    if !sees_others(database, viewer) {
        all.retain(|one| is_own(viewer, &one.caller));
    }
    let moments = Moments::new(database);
    let said: Vec<_> = all.iter().map(|one| one.said()).collect();
    let level = |(one, said): (&Arc<Member>, &String)| level_of(database, &one.caller, said);
    let connections = said.iter().map(|said| said.connections);
    let levels = said.iter().map(|said| &said.service_level);
    vec![
        counts(all.iter().map(|one| one.number)),
        texts(all.iter().map(|one| &*one.name)),
        texts(all.iter().map(|one| one.caller.name())),
        peers(said.iter().map(|said| said.peer)),
        texts(all.iter().zip(levels).map(level)),
        moments.column(all.iter().map(|one| one.started_ns)),
        moments.column(all.iter().map(|one| one.last_ns())),
        counts(all.iter().map(|one| one.statements())),
        Arc::new(connections.collect::<UInt64Array>()),
    ]
}

/// The service level of statements that name none: what the session was told, or that of the role.
fn level_of(database: &Engine, caller: &Caller, told: &str) -> String {
    if told != DEFAULT_LEVEL {
        return told.to_owned();
    }
    let own = caller.role().and_then(|role| database.catalog().effective_level(role));
    own.map_or_else(|| told.to_owned(), |own| own.level.level)
}

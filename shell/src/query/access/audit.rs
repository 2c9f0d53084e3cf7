//! What concerns all, with who did it: logins, definitions, roles, policies, administration.
//!
//! Invariant: at most [`RECORDS_MAX`] records are kept; what was noted first goes. Each is a line
//! of the log as well, whose target is `audit`. Texts come without passwords.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::query::error::{ErrorKind, QueryError};
use crate::query::parse::statement::Statement;

/// Records that are kept.
const RECORDS_MAX: usize = 1024;
/// Bytes of what was done that are kept.
const TEXT_BYTES_MAX: usize = 2000;

/// Kinds of what is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditEvent {
    Login,
    RefusedLogin,
    /// A keyspace, table, type, view or service level.
    Definition,
    /// A role, what it may do, or its service level.
    Roles,
    Policy,
    /// What somebody asked of the work of all: a flush, a compaction, a snapshot, the end of a
    /// read or a statement, files of others, the size of the cache, shares of I/O.
    Administration,
}

/// First words of what is noted; the longest that fit decide.
const WORDS: &[(&[&str], AuditEvent)] = &[
    (&["create"], AuditEvent::Definition),
    (&["alter"], AuditEvent::Definition),
    (&["drop"], AuditEvent::Definition),
    (&["truncate"], AuditEvent::Definition),
    (&["grant"], AuditEvent::Roles),
    (&["revoke"], AuditEvent::Roles),
    (&["create", "role"], AuditEvent::Roles),
    (&["alter", "role"], AuditEvent::Roles),
    (&["drop", "role"], AuditEvent::Roles),
    (&["create", "token"], AuditEvent::Roles),
    (&["drop", "token"], AuditEvent::Roles),
    (&["create", "user"], AuditEvent::Roles),
    (&["alter", "user"], AuditEvent::Roles),
    (&["drop", "user"], AuditEvent::Roles),
    (&["attach", "service"], AuditEvent::Roles),
    (&["detach", "service"], AuditEvent::Roles),
    (&["attach", "service_level"], AuditEvent::Roles),
    (&["detach", "service_level"], AuditEvent::Roles),
    (&["create", "policy"], AuditEvent::Policy),
    (&["drop", "policy"], AuditEvent::Policy),
    (&["rollback"], AuditEvent::Policy),
    (&["alter", "cache"], AuditEvent::Policy),
    (&["alter", "rate"], AuditEvent::Policy),
    (&["alter", "read"], AuditEvent::Policy),
    (&["alter", "load"], AuditEvent::Policy),
    (&["alter", "io", "priority"], AuditEvent::Policy),
    (&["alter", "compaction"], AuditEvent::Policy),
    (&["alter", "io", "class"], AuditEvent::Administration),
    (&["alter", "cache", "set", "capacity"], AuditEvent::Administration),
    (&["flush"], AuditEvent::Administration),
    (&["compact"], AuditEvent::Administration),
    (&["snapshot"], AuditEvent::Administration),
    (&["kill", "read"], AuditEvent::Administration),
    (&["kill", "query"], AuditEvent::Administration),
    (&["cancel", "compaction"], AuditEvent::Administration),
    (&["invalidate"], AuditEvent::Administration),
    (&["attach", "sstables"], AuditEvent::Administration),
    (&["detach"], AuditEvent::Administration),
    (&["import"], AuditEvent::Administration),
    (&["record"], AuditEvent::Administration),
];

impl AuditEvent {
    pub fn name(self) -> &'static str {
        match self {
            AuditEvent::Login => "login",
            AuditEvent::RefusedLogin => "refused login",
            AuditEvent::Definition => "definition",
            AuditEvent::Roles => "roles",
            AuditEvent::Policy => "policy",
            AuditEvent::Administration => "administration",
        }
    }

    /// As what a statement is noted, if it is.
    pub fn of(statement: &Statement) -> Option<Self> {
        let fitting = WORDS.iter().filter(|(words, _)| statement.begins_with(words));
        fitting.max_by_key(|(words, _)| words.len()).map(|(_, event)| *event)
    }
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Counts them.
    pub number: u64,
    /// Wall clock, microseconds since the epoch.
    pub at_us: i64,
    pub event: AuditEvent,
    /// The role, or `owner`.
    pub who: String,
    pub what: String,
    /// Why it was not done.
    pub error: Option<String>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    records: VecDeque<AuditRecord>,
}

impl Audit {
    pub fn add(
        &self,
        at_us: i64,
        event: AuditEvent,
        (who, what): (&str, &str),
        error: Option<&QueryError>,
    ) {
        let name = event.name();
        let is_refused = event == AuditEvent::RefusedLogin
            || error.is_some_and(|error| error.kind == ErrorKind::Denied);
        let error = error.map(ToString::to_string);
        match is_refused {
            true => tracing::warn!(target: "audit", event = name, who, what, error),
            false => tracing::info!(target: "audit", event = name, who, what, error),
        }
        let cut = |text: &str| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let (who, what) = (cut(who), cut(what));
        let mut kept = self.0.lock().expect("no one panics while noting something");
        kept.count += 1;
        let number = kept.count;
        if kept.records.len() >= RECORDS_MAX {
            kept.records.pop_front();
        }
        kept.records.push_back(AuditRecord { number, at_us, event, who, what, error });
    }

    /// Oldest first.
    pub fn all(&self) -> Vec<AuditRecord> {
        let kept = self.0.lock().expect("no one panics while noting something");
        kept.records.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::split;

    #[test]
    fn statements_that_concern_all_are_noted_by_their_first_words() {
        use AuditEvent::{Administration, Definition, Policy, Roles};
        for (text, wanted) in [
            ("CREATE TABLE t (a int PRIMARY KEY)", Some(Definition)),
            ("truncate t", Some(Definition)),
            ("GRANT SELECT ON t TO r", Some(Roles)),
            ("ALTER ROLE r WITH LOGIN = true", Some(Roles)),
            ("CREATE ROLE r", Some(Roles)),
            ("ATTACH SERVICE LEVEL x TO r", Some(Roles)),
            ("ATTACH SSTABLES '/d' AS t", Some(Administration)),
            ("DETACH t", Some(Administration)),
            ("ALTER CACHE SET CAPACITY = 1GB", Some(Administration)),
            ("SHOW READS", None),
            ("SHOW QUERIES", None),
            ("ALTER CACHE SET POLICY = p", Some(Policy)),
            ("DROP POLICY p", Some(Policy)),
            ("SELECT 1", None),
            ("INSERT INTO t (a) VALUES (1)", None),
        ] {
            let statement = split(text).unwrap().remove(0);
            assert_eq!(AuditEvent::of(&statement), wanted, "{text}");
        }
    }

    /// Whoever looks for what was done to roles finds all of it under one name.
    #[test]
    fn all_that_concerns_roles_policies_and_the_work_of_all_is_noted_as_that() {
        use AuditEvent::{Administration, Definition, Policy, Roles};
        for (event, texts) in [
            (Roles, "REVOKE SELECT ON t FROM r; DROP ROLE r; CREATE USER r; ALTER USER r"),
            (Roles, "DROP USER r; CREATE TOKEN t OF r; DROP TOKEN t OF r"),
            (Roles, "DETACH SERVICE LEVEL FROM r; ATTACH SERVICE_LEVEL x TO r"),
            (Roles, "DETACH SERVICE_LEVEL FROM r"),
            (Policy, "CREATE POLICY p; ROLLBACK POLICY; ROLLBACK CACHE POLICY"),
            (Policy, "ALTER RATE LIMITS; ALTER READ ADMISSION; ALTER LOAD SHEDDING"),
            (Policy, "ALTER IO PRIORITY SET POLICY p; ALTER COMPACTION SET POLICY p"),
            (Administration, "FLUSH t; COMPACT t; SNAPSHOT TO 'd'; KILL READ 1; KILL QUERY 1"),
            (Administration, "CANCEL COMPACTION 1; INVALIDATE CACHE; RECORD TRACE STOP"),
            (Administration, "ALTER IO CLASS query SET shares = 5; IMPORT SSTABLES 'd' INTO t"),
            (Definition, "DROP TABLE t; ALTER TABLE t ADD COLUMN v int; CREATE VIEW v AS SELECT 1"),
            (Definition, "DROP KEYSPACE k; CREATE TYPE a (b int); DROP VIEW v"),
        ] {
            for statement in split(texts).unwrap() {
                assert_eq!(AuditEvent::of(&statement), Some(event), "{}", statement.text());
            }
        }
    }

    #[test]
    fn what_was_refused_is_kept_with_the_reason_and_long_texts_are_cut_between_characters() {
        let audit = Audit::default();
        let error = QueryError::new(ErrorKind::Denied, "no");
        audit.add(5, AuditEvent::Roles, ("ann", "GRANT"), Some(&error));
        let long = format!("x{}", "é".repeat(TEXT_BYTES_MAX));
        audit.add(6, AuditEvent::Login, (&long, &long), None);
        let all = audit.all();
        let [refused, cut] = &all[..] else { panic!("{all:?}") };
        assert_eq!((refused.number, refused.at_us, refused.event), (1, 5, AuditEvent::Roles));
        assert_eq!((&*refused.who, &*refused.what), ("ann", "GRANT"));
        assert_eq!(refused.error, Some(error.to_string()));
        assert_eq!((cut.number, cut.at_us, &cut.error), (2, 6, &None));
        for text in [&cut.who, &cut.what] {
            assert!(text.len() == TEXT_BYTES_MAX - 1 && text.ends_with('é'), "{}", text.len());
        }
    }

    #[test]
    fn the_newest_are_kept() {
        let audit = Audit::default();
        for n in 0..RECORDS_MAX + 10 {
            audit.add(n as i64, AuditEvent::Login, ("ann", &"x".repeat(n)), None);
        }
        let all = audit.all();
        let numbers: Vec<u64> = all.iter().map(|record| record.number).collect();
        assert_eq!(numbers, (11..11 + RECORDS_MAX as u64).collect::<Vec<_>>());
        assert!(all.iter().all(|record| record.what.len() <= TEXT_BYTES_MAX));
    }
}

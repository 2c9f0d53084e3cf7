//! The table of statements: a row has everything that parser, help and Tab know of one.
//!
//! `find.rs` looks rows up. Invariant: Tab and the help offer only what a row reads; the tests of
//! `repl/complete.rs` try it.

use super::access::grant::{Grant, Revoke};
use super::access::level::{AttachLevel, DetachLevel};
use super::access::list::{ListPermissions, ListRolesOf};
use super::access::role::{AlterRole, CreateRole, CreateUser, DropRole};
use super::access::token::{CreateToken, DropToken, ListTokens};
use super::attach::{Attach, Detach, ImportSstables};
use super::cache::{AlterCache, InvalidateCache};
use super::copy::Copy;
use super::definition::alter::AlterTable;
use super::definition::index::CreateIndex;
use super::definition::keyspace::{CreateKeyspace, DropKeyspace, Use};
use super::definition::table::{DropTable, Truncate};
use super::definition::table_as;
use super::definition::user_type::{CreateType, DropType};
use super::definition::view::{self, CreateView, DropView};
use super::describe::Describe;
use super::flush::Flush;
use super::load::query::KillQuery;
use super::load::read::KillRead;
use super::load::service_level::{
    AlterServiceLevel, CreateServiceLevel, DropServiceLevel, ShowEffective,
};
use super::policy::{
    Compaction, CreatePolicy, DropPolicy, ExplainPolicy, IoPriority, LoadShedding, PutInCharge,
    RateLimiter, ReadAdmission, RollBackPolicy,
};
use super::row::{Continues, Help, Offered, Reader, StatementRow, Tab, Topic, own};
use super::show;
use super::storage::compact::{CancelCompaction, Compact};
use super::storage::io::{self, AlterIoClass};
use super::storage::snapshot::SnapshotTo;
use super::tabs::{
    CREATED_WITH, KEYSPACE, LEVEL_OPTIONS, MODES, NAME, OPTIONS, POLICY, RIGHTS, ROLE_OPTIONS,
    SET_POLICY, TABLE,
};
use super::watch::summarize::Summarize;
use super::watch::trace::RecordTrace;
use super::watch::tracing::Tracing;

const fn other(form: &'static str, does: &'static str) -> Help {
    Help::Form(Topic::OtherPolicies, form, does)
}

/// A statement that puts a policy in charge of something that has no other settings.
const fn puts_in_charge(
    words: &'static str,
    reader: Reader,
    help: &'static [Help],
) -> StatementRow {
    StatementRow { words, reader, help, tabs: SET_POLICY, ..StatementRow::PLAIN }
}

const NO_VIEWS: &str = "create a table with the key of the view and write to both; CREATE VIEW \
                        names a query that runs each time";
const NO_TRANSACTIONS: &str =
    "there are no transactions: BEGIN BATCH … APPLY BATCH writes all or nothing";

/// All statements. The help names them in this order.
pub static STATEMENTS: &[StatementRow] = &[
    StatementRow {
        words: "CREATE TABLE",
        reader: Reader::Own(table_as::read),
        help: &[Help::Name(Topic::Tables, "CREATE TABLE")],
        tabs: &[("WITH", CREATED_WITH), ("AND", CREATED_WITH)],
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ALTER TABLE",
        reader: Reader::Own(own::<AlterTable>),
        help: &[Help::Name(Topic::Tables, "ALTER TABLE")],
        tabs: &[("", &[Tab::Tables]), ("WITH", &[OPTIONS]), ("AND", &[OPTIONS])],
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP TABLE",
        reader: Reader::Own(own::<DropTable>),
        help: &[Help::Name(Topic::Tables, "DROP TABLE")],
        tabs: TABLE,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "TRUNCATE",
        reader: Reader::Own(own::<Truncate>),
        help: &[Help::Name(Topic::Tables, "TRUNCATE")],
        tabs: TABLE,
        continues: Continues::Nothing,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DESCRIBE",
        aliases: &["DESC"],
        reader: Reader::Own(own::<Describe>),
        help: &[Help::Name(Topic::Tables, "DESCRIBE")],
        tabs: &[
            ("", &[Tab::Tables, Tab::Words(&["KEYSPACE", "SCHEMA", "TABLE", "VIEW"])]),
            ("TABLE", &[Tab::Tables]),
            ("VIEW", &[Tab::Tables]),
            ("KEYSPACE", &[Tab::Keyspaces]),
        ],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE VIEW",
        reader: Reader::Own(own::<CreateView>),
        help: &[Help::Name(Topic::Tables, "CREATE VIEW")],
        tabs: &[("", &[])],
        continues: Continues::Query,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE OR REPLACE VIEW",
        reader: Reader::Own(view::read_or_replace),
        tabs: &[("", &[])],
        continues: Continues::Query,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP VIEW",
        reader: Reader::Own(own::<DropView>),
        tabs: NAME,
        continues: Continues::Nothing,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW TABLES",
        reader: Reader::Show(show::TABLES),
        help: &[Help::Name(Topic::Tables, "SHOW TABLES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "CREATE TYPE",
        reader: Reader::Own(own::<CreateType>),
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP TYPE",
        reader: Reader::Own(own::<DropType>),
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE KEYSPACE",
        aliases: &["CREATE SCHEMA"],
        reader: Reader::Own(own::<CreateKeyspace>),
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP KEYSPACE",
        aliases: &["DROP SCHEMA"],
        reader: Reader::Own(own::<DropKeyspace>),
        tabs: KEYSPACE,
        // Which leaves the keyspace that it drops.
        changes_session: true,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW KEYSPACES",
        aliases: &["SHOW SCHEMAS"],
        reader: Reader::Show(show::KEYSPACES),
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "USE",
        reader: Reader::Own(own::<Use>),
        tabs: KEYSPACE,
        continues: Continues::Nothing,
        changes_session: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SELECT",
        help: &[Help::Name(Topic::Rows, "SELECT")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "INSERT",
        reader: Reader::Write,
        help: &[Help::Name(Topic::Rows, "INSERT")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "UPDATE",
        reader: Reader::Write,
        help: &[Help::Name(Topic::Rows, "UPDATE")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "DELETE",
        reader: Reader::Write,
        help: &[Help::Name(Topic::Rows, "DELETE")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "BEGIN BATCH",
        aliases: &["BEGIN UNLOGGED BATCH", "BEGIN LOGGED BATCH", "BEGIN COUNTER BATCH"],
        reader: Reader::Batch,
        help: &[Help::Name(Topic::Rows, "BEGIN BATCH")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "COPY",
        reader: Reader::Own(own::<Copy>),
        help: &[Help::Name(Topic::Rows, "COPY")],
        tabs: &[("", &[Tab::Tables]), ("FROM", &[]), ("JOIN", &[Tab::Tables])],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "EXPLAIN",
        reader: Reader::Explain,
        help: &[Help::Name(Topic::Rows, "EXPLAIN")],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "SUMMARIZE",
        reader: Reader::Own(own::<Summarize>),
        help: &[Help::Name(Topic::Rows, "SUMMARIZE")],
        tabs: &[("", &[Tab::Tables])],
        ..StatementRow::QUERY
    },
    StatementRow {
        words: "FLUSH",
        reader: Reader::Own(own::<Flush>),
        help: &[Help::Name(Topic::Rows, "FLUSH")],
        tabs: TABLE,
        continues: Continues::Nothing,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "COMPACT",
        reader: Reader::Own(own::<Compact>),
        help: &[Help::Name(Topic::Rows, "COMPACT")],
        tabs: TABLE,
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SNAPSHOT TO",
        reader: Reader::Own(own::<SnapshotTo>),
        help: &[Help::Name(Topic::Engine, "SNAPSHOT TO 'dir'")],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CANCEL COMPACTION",
        reader: Reader::Own(own::<CancelCompaction>),
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow { words: "WITH", ..StatementRow::QUERY },
    StatementRow { words: "SET", changes_session: true, ..StatementRow::PLAIN },
    StatementRow { words: "VALUES", offered: Offered::ByErrors, ..StatementRow::PLAIN },
    StatementRow { words: "FROM", offered: Offered::Nowhere, ..StatementRow::PLAIN },
    StatementRow {
        words: "RESET",
        offered: Offered::Nowhere,
        changes_session: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ATTACH",
        reader: Reader::Own(own::<Attach>),
        help: &[Help::Name(Topic::ForeignFiles, "ATTACH SSTABLES")],
        tabs: &[("", &[Tab::Words(&["SSTABLES"])])],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DETACH",
        reader: Reader::Own(own::<Detach>),
        help: &[Help::Name(Topic::ForeignFiles, "DETACH")],
        tabs: TABLE,
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "IMPORT",
        reader: Reader::Own(own::<ImportSstables>),
        help: &[Help::Name(Topic::ForeignFiles, "IMPORT SSTABLES")],
        tabs: &[("", &[Tab::Words(&["SSTABLES"])]), ("INTO", &[Tab::Tables])],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE POLICY",
        reader: Reader::Own(own::<CreatePolicy>),
        help: &[Help::Form(
            Topic::EvictionPolicies,
            "CREATE POLICY p FROM 'p.wasm'",
            "loads a policy",
        )],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP POLICY",
        reader: Reader::Own(own::<DropPolicy>),
        tabs: POLICY,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ALTER CACHE",
        reader: Reader::Own(own::<AlterCache>),
        help: &[
            Help::Form(
                Topic::EvictionPolicies,
                "ALTER CACHE SET POLICY = p MODE = shadow",
                "tries it beside the active one",
            ),
            Help::Form(
                Topic::EvictionPolicies,
                "ALTER CACHE SET POLICY = p MODE = canary",
                "tries it on some shards first",
            ),
            Help::Form(Topic::EvictionPolicies, "ALTER CACHE SET POLICY = p", "puts it in charge"),
            Help::Form(
                Topic::OtherPolicies,
                "ALTER CACHE SET ADMISSION = p",
                "decides what the cache keeps",
            ),
        ],
        tabs: &[
            ("", &[Tab::Words(&["SET", "SHADOW"])]),
            ("SET", &[Tab::Words(&["ADMISSION", "CAPACITY", "POLICY"])]),
            ("POLICY", &[Tab::Policies]),
            ("POLICY =", &[Tab::Policies]),
            ("ADMISSION", &[Tab::Policies]),
            ("ADMISSION =", &[Tab::Policies]),
            ("MODE", MODES),
            ("MODE =", MODES),
            ("MODE SHADOW", &[]),
            ("MODE = SHADOW", &[]),
            ("SHADOW", &[Tab::Words(&["POLICY"])]),
        ],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ROLLBACK POLICY",
        aliases: &["ROLLBACK CACHE POLICY"],
        reader: Reader::Own(own::<RollBackPolicy>),
        help: &[Help::Form(
            Topic::EvictionPolicies,
            "ROLLBACK POLICY",
            "brings the one before back",
        )],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW POLICIES",
        reader: Reader::Show(show::POLICIES),
        help: &[Help::Name(Topic::ShownPolicies, "SHOW POLICIES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW POLICY EXITS",
        reader: Reader::Show(show::POLICY_EXITS),
        help: &[Help::Name(Topic::ShownPolicies, "SHOW POLICY EXITS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "EXPLAIN POLICY",
        reader: Reader::Own(own::<ExplainPolicy>),
        help: &[Help::Name(Topic::ShownPolicies, "EXPLAIN POLICY p")],
        tabs: POLICY,
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    puts_in_charge(
        "ALTER RATE LIMITER",
        Reader::Own(own::<PutInCharge<RateLimiter>>),
        &[other("ALTER RATE LIMITER SET POLICY = p", "decides about hot partitions")],
    ),
    puts_in_charge(
        "ALTER READ ADMISSION",
        Reader::Own(own::<PutInCharge<ReadAdmission>>),
        &[other("ALTER READ ADMISSION SET POLICY = p", "decides how many reads run")],
    ),
    puts_in_charge(
        "ALTER LOAD SHEDDING",
        Reader::Own(own::<PutInCharge<LoadShedding>>),
        &[other("ALTER LOAD SHEDDING SET POLICY = p", "decides what is refused")],
    ),
    puts_in_charge(
        "ALTER IO PRIORITY",
        Reader::Own(own::<PutInCharge<IoPriority>>),
        &[other("ALTER IO PRIORITY SET POLICY = p", "plans shares of the disk")],
    ),
    puts_in_charge(
        "ALTER COMPACTION",
        Reader::Own(own::<PutInCharge<Compaction>>),
        &[other("ALTER COMPACTION SET POLICY = p", "chooses what is merged")],
    ),
    StatementRow {
        words: "RECORD TRACE",
        reader: Reader::Own(own::<RecordTrace>),
        help: &[
            Help::Name(Topic::Traces, "RECORD TRACE 'f'"),
            Help::Name(Topic::Traces, "RECORD TRACE STOP"),
        ],
        tabs: &[("", &[Tab::Words(&["STOP", "TO"])])],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "TRACING",
        reader: Reader::Own(own::<Tracing>),
        help: &[Help::Name(Topic::Engine, "TRACING")],
        tabs: &[("", &[Tab::Words(&["COMPACT", "OFF", "ON"])])],
        continues: Continues::Nothing,
        changes_session: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW CACHE",
        reader: Reader::Show(show::CACHE),
        help: &[Help::Name(Topic::Engine, "SHOW CACHE")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW CACHE TABLES",
        reader: Reader::Show(show::ROW_CACHE),
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "INVALIDATE CACHE",
        reader: Reader::Own(own::<InvalidateCache>),
        tabs: TABLE,
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW IO",
        reader: Reader::Show(show::IO),
        help: &[Help::Name(Topic::Engine, "SHOW IO")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW MEMORY",
        reader: Reader::Show(show::MEMORY),
        help: &[Help::Name(Topic::Engine, "SHOW MEMORY")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW NODES",
        reader: Reader::Show(show::NODES),
        help: &[Help::Name(Topic::Engine, "SHOW NODES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "ALTER IO CLASS",
        reader: Reader::Own(own::<AlterIoClass>),
        help: &[Help::Name(Topic::Engine, "ALTER IO CLASS")],
        tabs: &[
            ("", &[Tab::Names(io::CLASSES)]),
            ("SET", &[Tab::Words(&["BANDWIDTH", "SHARES"])]),
            ("AND", &[Tab::Words(&["BANDWIDTH", "SHARES"])]),
        ],
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE SERVICE LEVEL",
        aliases: &["CREATE SERVICE_LEVEL"],
        reader: Reader::Own(own::<CreateServiceLevel>),
        help: &[Help::Name(Topic::Levels, "CREATE SERVICE LEVEL")],
        tabs: LEVEL_OPTIONS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ALTER SERVICE LEVEL",
        aliases: &["ALTER SERVICE_LEVEL"],
        reader: Reader::Own(own::<AlterServiceLevel>),
        help: &[Help::Name(Topic::Levels, "ALTER SERVICE LEVEL")],
        tabs: LEVEL_OPTIONS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP SERVICE LEVEL",
        aliases: &["DROP SERVICE_LEVEL"],
        reader: Reader::Own(own::<DropServiceLevel>),
        help: &[Help::Name(Topic::Levels, "DROP SERVICE LEVEL")],
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW SERVICE LEVELS",
        aliases: &["LIST SERVICE LEVELS", "LIST SERVICE_LEVELS", "LIST ALL SERVICE LEVELS"],
        reader: Reader::Show(show::SERVICE_LEVELS),
        help: &[Help::Name(Topic::Levels, "SHOW SERVICE LEVELS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW EFFECTIVE SERVICE LEVEL",
        aliases: &["LIST EFFECTIVE SERVICE LEVEL"],
        reader: Reader::Own(own::<ShowEffective>),
        help: &[Help::Name(Topic::Levels, "SHOW EFFECTIVE SERVICE LEVEL")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "ATTACH SERVICE LEVEL",
        aliases: &["ATTACH SERVICE_LEVEL"],
        reader: Reader::Own(own::<AttachLevel>),
        help: &[Help::Name(Topic::Levels, "ATTACH SERVICE LEVEL x TO r")],
        continues: Continues::Nothing,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DETACH SERVICE LEVEL",
        aliases: &["DETACH SERVICE_LEVEL"],
        reader: Reader::Own(own::<DetachLevel>),
        help: &[Help::Name(Topic::Levels, "DETACH SERVICE LEVEL FROM r")],
        continues: Continues::Nothing,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE ROLE",
        reader: Reader::Own(own::<CreateRole>),
        help: &[Help::Name(Topic::Roles, "CREATE ROLE")],
        tabs: ROLE_OPTIONS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE USER",
        reader: Reader::Own(own::<CreateUser>),
        tabs: &[("WITH", &[Tab::Words(&["PASSWORD"])])],
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "ALTER ROLE",
        aliases: &["ALTER USER"],
        reader: Reader::Own(own::<AlterRole>),
        help: &[Help::Name(Topic::Roles, "ALTER ROLE")],
        tabs: ROLE_OPTIONS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP ROLE",
        aliases: &["DROP USER"],
        reader: Reader::Own(own::<DropRole>),
        help: &[Help::Name(Topic::Roles, "DROP ROLE")],
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE TOKEN",
        reader: Reader::Own(own::<CreateToken>),
        help: &[Help::Name(Topic::Roles, "CREATE TOKEN t OF r")],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "DROP TOKEN",
        reader: Reader::Own(own::<DropToken>),
        help: &[Help::Name(Topic::Roles, "DROP TOKEN")],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "LIST TOKENS",
        aliases: &["SHOW TOKENS"],
        reader: Reader::Own(own::<ListTokens>),
        help: &[Help::Name(Topic::Roles, "LIST TOKENS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "GRANT",
        reader: Reader::Own(own::<Grant>),
        help: &[Help::Name(Topic::Roles, "GRANT")],
        tabs: RIGHTS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "REVOKE",
        reader: Reader::Own(own::<Revoke>),
        help: &[Help::Name(Topic::Roles, "REVOKE")],
        tabs: RIGHTS,
        on_all_nodes: true,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "LIST ROLES",
        aliases: &["LIST USERS", "SHOW ROLES"],
        reader: Reader::Show(show::ROLES),
        help: &[Help::Name(Topic::Roles, "LIST ROLES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "LIST ROLES OF",
        aliases: &["SHOW ROLES OF"],
        reader: Reader::Own(own::<ListRolesOf>),
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "LIST PERMISSIONS",
        aliases: &["LIST ALL PERMISSIONS", "SHOW PERMISSIONS"],
        reader: Reader::Own(own::<ListPermissions>),
        help: &[Help::Name(Topic::Roles, "LIST PERMISSIONS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW READS",
        reader: Reader::Show(show::READS),
        help: &[Help::Name(Topic::Engine, "SHOW READS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW HOT PARTITIONS",
        reader: Reader::Show(show::HOT_PARTITIONS),
        help: &[Help::Name(Topic::Engine, "SHOW HOT PARTITIONS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "KILL READ",
        reader: Reader::Own(own::<KillRead>),
        help: &[Help::Name(Topic::Engine, "KILL READ n")],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW QUERIES",
        reader: Reader::Show(show::QUERIES),
        help: &[Help::Name(Topic::Engine, "SHOW QUERIES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "KILL QUERY",
        reader: Reader::Own(own::<KillQuery>),
        help: &[Help::Name(Topic::Engine, "KILL QUERY n")],
        continues: Continues::Nothing,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "SHOW SESSIONS",
        reader: Reader::Show(show::SESSIONS),
        help: &[Help::Name(Topic::Engine, "SHOW SESSIONS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW WARNINGS",
        reader: Reader::Own(own::<show::ShowWarnings>),
        help: &[Help::Name(Topic::Engine, "SHOW WARNINGS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW CORRUPTION",
        reader: Reader::Show(show::CORRUPTION),
        help: &[Help::Name(Topic::Engine, "SHOW CORRUPTION")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW COMPACTIONS",
        reader: Reader::Show(show::COMPACTIONS),
        help: &[Help::Name(Topic::Engine, "SHOW COMPACTIONS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW SLOW QUERIES",
        reader: Reader::Show(show::SLOW_QUERIES),
        help: &[Help::Name(Topic::Engine, "SHOW SLOW QUERIES")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "SHOW STALLS",
        reader: Reader::Show(show::STALLS),
        help: &[Help::Name(Topic::Engine, "SHOW STALLS")],
        ..StatementRow::SHOW
    },
    StatementRow {
        words: "BEGIN",
        reader: Reader::Refused(Some(NO_TRANSACTIONS)),
        ..StatementRow::REFUSED
    },
    StatementRow {
        words: "COMMIT",
        reader: Reader::Refused(Some(NO_TRANSACTIONS)),
        ..StatementRow::REFUSED
    },
    StatementRow {
        words: "ROLLBACK",
        reader: Reader::Refused(Some("ROLLBACK POLICY brings back the policy before")),
        ..StatementRow::REFUSED
    },
    StatementRow {
        words: "CREATE INDEX",
        aliases: &["CREATE CUSTOM INDEX"],
        reader: Reader::Own(own::<CreateIndex>),
        offered: Offered::Nowhere,
        ..StatementRow::PLAIN
    },
    StatementRow {
        words: "CREATE MATERIALIZED VIEW",
        reader: Reader::Refused(Some(NO_VIEWS)),
        ..StatementRow::REFUSED
    },
    StatementRow {
        words: "CREATE FUNCTION",
        aliases: &["CREATE OR REPLACE FUNCTION", "CREATE AGGREGATE", "CREATE OR REPLACE AGGREGATE"],
        reader: Reader::Refused(Some("leave it out: SELECT has all functions of DataFusion")),
        ..StatementRow::REFUSED
    },
    StatementRow { words: "MERGE", ..StatementRow::REFUSED },
];

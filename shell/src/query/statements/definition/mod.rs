//! Statements that change the catalog: keyspaces, tables and types; and `USE`.

pub mod alter;
pub mod keyspace;
pub mod table;
pub mod table_option;
pub mod user_type;

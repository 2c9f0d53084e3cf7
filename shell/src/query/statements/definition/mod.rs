//! Statements that change the catalog: keyspaces, tables, views and types; and `USE`.

pub mod alter;
mod counter;
mod foreign;
pub mod index;
pub mod keyspace;
pub mod option_text;
mod query;
pub mod table;
pub mod table_as;
pub mod table_option;
pub mod text;
pub mod user_type;
pub mod view;
mod view_plan;

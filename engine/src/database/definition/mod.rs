//! Changes of what the catalog defines, beside creating and dropping keyspaces and tables: options
//! of a table (`options.rs`), its columns (`columns.rs`), its rows all at once (`truncate.rs`),
//! user types (`types.rs`), views (`views.rs`), service levels (`levels.rs`), and roles
//! (`roles.rs`).

mod columns;
mod levels;
mod options;
mod roles;
mod truncate;
mod types;
mod views;

pub use columns::{ColumnChange, NewColumn};
pub use options::AlteredTable;

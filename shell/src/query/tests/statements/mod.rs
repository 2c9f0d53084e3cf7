//! Statements of all kinds: by each path, bare and prepared, and at the borders of their options.

mod border;
mod copied;
mod definition;
mod door;
mod refused;
mod told;

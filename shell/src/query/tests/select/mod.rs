//! What users of wide-column stores select: clauses and functions of CQL.

mod by_partition;
mod distinct;
mod file;
mod hot;
mod level;
mod partition_limit;
mod reading_conditions;
mod reading_damage;
mod reading_ends;
mod reading_joins;
mod result;
mod stamp;
mod timeout;
mod view;

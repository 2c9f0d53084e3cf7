//! What users of wide-column stores select: clauses and functions of CQL.

mod by_partition;
mod distinct;
mod file;
mod hot;
mod level;
mod partition_limit;
mod result;
mod stamp;
mod timeout;
mod view;

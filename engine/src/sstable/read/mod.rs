//! Reading one SSTable: it is opened, and gives rows, slices and whole scans.

mod clip;
mod cursor;
mod damage;
mod item;
mod open;
mod part;
mod partition_reader;
mod plan;
mod row_read;
mod salvage;
mod seek;
mod source;
mod sstable;

pub use damage::{Damage, DamageLog};
pub use open::stated_positions;
pub use part::{Part, overlap};
pub use plan::ReadPlan;
pub use sstable::{HeldMemory, Sstable};

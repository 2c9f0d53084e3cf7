//! The eviction policies of the engine itself. A policy is a file here and a row of [`NATIVES`].
//!
//! They need no component: a cache and a trace find them by their names.

mod lru;

pub use lru::Lru;

use super::EvictionPolicy;

/// An eviction policy of the engine itself.
#[derive(Debug, Clone, Copy)]
pub struct Native {
    pub name: &'static str,
    make: fn() -> Box<dyn EvictionPolicy>,
}

/// Least recently used. It governs where no other is wanted, and where others failed.
pub const LRU: Native = Native { name: "lru", make: || Box::<Lru>::default() };

/// All of them, in the order in which they are shown.
pub static NATIVES: &[Native] = &[LRU];

impl Native {
    /// The one of this name.
    pub fn find(name: &str) -> Option<Native> {
        NATIVES.iter().find(|native| native.name == name).copied()
    }

    /// A new instance. It needs no number of slots: its arrays grow.
    pub fn make(&self) -> Box<dyn EvictionPolicy> {
        (self.make)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_calls_itself_so() {
        for native in NATIVES {
            let found = Native::find(native.name).expect("it has a row");
            assert_eq!(found.make().name(), native.name);
            let rows = NATIVES.iter().filter(|other| other.name == native.name);
            assert_eq!(rows.count(), 1, "{}", native.name);
        }
        assert!(Native::find("LRU").is_none() && Native::find("").is_none());
        assert_eq!(NATIVES[0].name, LRU.name, "it stands first");
    }
}

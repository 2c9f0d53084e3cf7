//! Events that a cache reports to its eviction policy, packed into words.
//!
//! ```text
//! event : slot 0..32 | op 32..36 | kind 36..40 | flags 40..48 | dt 48..64
//! attrs : three words for each INSERT, RESTORE and MISS, in event order:
//!         fingerprint 64 | size 0..32, cost 32..64 | table 0..32, class 32..48, level 48..56
//! ```
//! `dt` is in ticks of 1/16 ms since the previous event of the batch, saturating; `cost` is the
//! expected time to load the entry again, in µs.

use super::eviction::Slot;

/// What happened to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    Access = 0,
    Insert = 1,
    Remove = 2,
    Miss = 3,
    Restore = 4,
    Resize = 5,
    Pin = 6,
    Unpin = 7,
    VictimRefused = 8,
    Update = 9,
}

/// What kind of thing an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    Row = 0,
    IndexPage = 1,
    PartitionIndexPage = 2,
    PartitionHeader = 3,
    DataPage = 4,
    ReversedIndexPage = 5,
    Dummy = 15,
}

impl EntryKind {
    /// The kind with this number; there is one.
    #[inline]
    pub fn numbered(number: u8) -> EntryKind {
        match number {
            0 => EntryKind::Row,
            1 => EntryKind::IndexPage,
            2 => EntryKind::PartitionIndexPage,
            3 => EntryKind::PartitionHeader,
            4 => EntryKind::DataPage,
            5 => EntryKind::ReversedIndexPage,
            15 => EntryKind::Dummy,
            _ => unreachable!("no kind has the number {number}"),
        }
    }
}

/// Expected time to load an entry, whatever it is, as policies are told: one random read of a local
/// SSD, µs.
pub const LOAD_COST_US: u32 = 100;

/// What a policy may know of an entry when it comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryAttributes {
    /// Keyed hash of the entry's identity; equal for the same entry when it returns.
    pub fingerprint: u64,
    pub size_bytes: u32,
    /// Expected time to load the entry again, µs.
    pub cost_us: u32,
    /// Number of the table within the shard.
    pub table: u32,
}

/// One event word.
pub fn event(slot: Slot, op: Op, kind: EntryKind, flags: u8, dt: u16) -> u64 {
    u64::from(slot)
        | (op as u64) << 32
        | (kind as u64) << 36
        | u64::from(flags) << 40
        | u64::from(dt) << 48
}

/// The three attribute words.
pub fn attributes(entry: &EntryAttributes) -> [u64; 3] {
    [
        entry.fingerprint,
        u64::from(entry.size_bytes) | u64::from(entry.cost_us) << 32,
        u64::from(entry.table),
    ]
}

/// An event word as people read it: `access 17`.
pub fn describe(word: u64) -> String {
    let name = match word >> 32 & 0xF {
        0 => "access",
        1 => "insert",
        2 => "remove",
        3 => "miss",
        4 => "restore",
        5 => "resize",
        6 => "pin",
        7 => "unpin",
        8 => "victim-refused",
        9 => "update",
        _ => "unknown",
    };
    format!("{name} {}", word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number() {
        use EntryKind::*;
        for kind in [
            Row,
            IndexPage,
            PartitionIndexPage,
            PartitionHeader,
            DataPage,
            ReversedIndexPage,
            Dummy,
        ] {
            assert_eq!(EntryKind::numbered(kind as u8), kind);
        }
    }

    #[test]
    fn an_event_is_one_word_that_people_can_read() {
        let word = event(0xFFFF_FFFE, Op::Update, EntryKind::ReversedIndexPage, 0xAB, 0xCDEF);
        assert_eq!(word, 0xCDEF_AB59_FFFF_FFFE);
        assert_eq!(describe(word), "update 4294967294");
        let named = [
            (Op::Access, "access 17"),
            (Op::Insert, "insert 17"),
            (Op::Remove, "remove 17"),
            (Op::Miss, "miss 17"),
            (Op::Restore, "restore 17"),
            (Op::Resize, "resize 17"),
            (Op::Pin, "pin 17"),
            (Op::Unpin, "unpin 17"),
            (Op::VictimRefused, "victim-refused 17"),
            (Op::Update, "update 17"),
        ];
        for (op, text) in named {
            assert_eq!(describe(event(17, op, EntryKind::Dummy, 0xFF, u16::MAX)), text);
        }
        assert_eq!(describe(0xA_0000_0011), "unknown 17");
        let entry = EntryAttributes { fingerprint: 1, size_bytes: 2, cost_us: 3, table: 4 };
        assert_eq!(attributes(&entry), [1, 3 << 32 | 2, 4]);
    }
}

//! The pace of a read: how much of what it passes it brings into the cache.
//!
//! Inserting an entry costs about as much as reading it. So a read inserts a part of what it
//! passes, and more after entries from memory, which saved most of a read. It costs at most a fifth
//! more than a read past the cache, whatever the cache knows. The known part grows from the front:
//! after six to nine reads a table is in memory. Short reads insert everything at once. A long
//! entry counts as several, so a scan of long rows takes no more of the cache than of time.

use std::cell::Cell;

/// Entries that every read may bring in.
const ENTRIES_MIN: usize = 4096;
/// A read may insert one in this many of the entries that it may reach.
const SHARE: usize = 20;
/// Entries beyond that, so that a partition is brought in whole once it was begun.
const BEYOND: i64 = 256;

/// What an entry costs that is brought in, and one that is found to be there.
const BROUGHT: i64 = 4;
const MET: i64 = 1;
/// Bytes of an entry that are copied at the cost of another entry.
const LONG_BYTES: usize = 4 << 10;
/// What an entry earns that comes from memory. With twice as much, a scan of a long partition of
/// which memory has a part took a third more time than one past the cache.
const SAVED: i64 = 1;
/// What a row of a short partition earns: the start of its partition would have been read with it.
const SAVED_SHORT: i64 = 2;

/// One scan in so many tells the policy that it used the rows of a short partition; which one,
/// their slots say. That all rows are scanned says little of each, and to tell of all of them
/// takes a tenth of the time of a scan.
pub(super) const SCANS_PER_USE: u32 = 8;

/// The pace of one read.
pub(super) struct FillPace {
    left: Cell<i64>,
    /// How far it may go beyond what it has.
    beyond: i64,
    /// Bytes that may still come in though others leave for them; beyond that comes in what there
    /// is spare room for.
    room_left: Cell<usize>,
}

impl FillPace {
    /// For a read that may come to about so many `entries`, and that pushes others out for `room`
    /// bytes. `min` stands in for the number that every read may bring in.
    pub(super) fn new(entries: usize, min: Option<usize>, room: usize) -> Self {
        let may_come_in = (entries / SHARE).max(min.unwrap_or(ENTRIES_MIN));
        let beyond = BEYOND.min(may_come_in as i64);
        FillPace {
            left: Cell::new(may_come_in as i64 * BROUGHT),
            beyond: beyond * BROUGHT,
            room_left: Cell::new(room),
        }
    }

    /// Whether a partition that comes next may come in.
    pub(super) fn begins(&self) -> bool {
        self.left.get() > 0
    }

    /// Whether an entry of a partition that was begun may come in.
    pub(super) fn goes_on(&self) -> bool {
        self.left.get() > -self.beyond
    }

    /// Whether others may leave for what comes in.
    pub(super) fn has_room(&self) -> bool {
        self.room_left.get() > 0
    }

    /// An entry of this many bytes came in.
    pub(super) fn brought(&self, bytes: usize) {
        self.room_left.set(self.room_left.get().saturating_sub(bytes));
        self.spend(BROUGHT * (1 + bytes / LONG_BYTES) as i64);
    }

    /// An expected entry has come in.
    pub(super) fn met(&self) {
        self.spend(MET);
    }

    /// Entries of a partition came from memory.
    pub(super) fn saved(&self, entries: u64) {
        self.earn(SAVED * entries as i64);
    }

    /// Rows of short partitions came from memory.
    pub(super) fn saved_short(&self, rows: u64) {
        self.earn(SAVED_SHORT * rows as i64);
    }

    fn earn(&self, gain: i64) {
        self.left.set(self.left.get().saturating_add(gain));
    }

    fn spend(&self, cost: i64) {
        debug_assert!(
            self.left.get() > -self.beyond - 2 * BROUGHT || cost == MET,
            "a read brings in one entry beyond its share"
        );
        self.left.set(self.left.get() - cost);
    }
}

/// The turn of a scan of the whole ring, or of a piece of it. Whole scans take turns. Pieces are
/// scanned side by side, as many each time, so the turn of each is spread.
pub(super) fn turn_of(number: u32, is_whole: bool) -> u32 {
    // The last step of MurmurHash3.
    let mut spread = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    spread = (spread ^ spread >> 13).wrapping_mul(0xc2b2_ae35);
    spread ^= spread >> 16;
    if is_whole { number % SCANS_PER_USE } else { spread % SCANS_PER_USE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of this many entries from the SSTables come in.
    fn read(pace: &FillPace, entries: usize) -> usize {
        let comes_in = |_: &usize| {
            let goes_on = pace.goes_on();
            if goes_on {
                pace.brought(0);
            }
            goes_on
        };
        (0..entries).filter(comes_in).count()
    }

    #[test]
    fn short_reads_bring_in_all_and_long_ones_a_share() {
        assert_eq!(read(&FillPace::new(10, None, 0), ENTRIES_MIN), ENTRIES_MIN);
        let most = read(&FillPace::new(1_000_000, None, 0), 1_000_000);
        let share = 1_000_000 / SHARE;
        assert!((share..=share + BEYOND as usize).contains(&most), "{most} of {share}");
    }

    #[test]
    fn long_entries_count_as_several() {
        let pace = FillPace::new(1_000_000, None, 0);
        let most = (1_000_000 / SHARE) * LONG_BYTES;
        let mut bytes = 0;
        while pace.begins() {
            pace.brought(300_000);
            bytes += 300_000;
        }
        assert!((most - most / 10..most + 600_000).contains(&bytes), "{bytes} of {most}");
    }

    #[test]
    fn a_read_fills_its_share_of_the_bytes_and_no_more() {
        let pace = FillPace::new(0, None, 1000);
        pace.brought(600);
        assert!(pace.has_room());
        pace.brought(400);
        assert!(!pace.has_room());
        pace.saved(1000);
        assert!(!pace.has_room() && pace.begins());
    }

    #[test]
    fn what_memory_saves_is_spent_on_what_comes_behind() {
        let pace = FillPace::new(0, Some(64), 0);
        read(&pace, 10_000);
        assert!(!pace.goes_on() && !pace.begins());
        pace.saved(1_000);
        let more = read(&pace, 10_000);
        assert!((250..350).contains(&more), "a quarter of them: {more}");
        pace.saved_short(1_000);
        let more = read(&pace, 10_000);
        assert_eq!(more, 500, "half of them");
    }

    #[test]
    fn what_is_there_costs_a_quarter() {
        let pace = FillPace::new(0, Some(100), 0);
        for _ in 0..400 {
            assert!(pace.begins());
            pace.met();
        }
        assert!(!pace.begins());
    }

    #[test]
    fn a_partition_that_was_begun_comes_in_whole() {
        let pace = FillPace::new(0, Some(64), 0);
        assert_eq!(read(&pace, 64), 64);
        assert!(!pace.begins(), "no other partition begins");
        assert_eq!(read(&pace, 100), 64, "the one at hand goes on");
    }

    #[test]
    fn each_piece_of_the_ring_has_each_turn() {
        for pieces in 1..=64 {
            for piece in 0..pieces {
                let turns: std::collections::BTreeSet<u32> =
                    (0..256).map(|scan| turn_of(scan * pieces + piece, false)).collect();
                assert_eq!(turns.len(), SCANS_PER_USE as usize, "piece {piece} of {pieces}");
            }
        }
        let whole = (0..SCANS_PER_USE).map(|number| turn_of(number, true));
        assert!(whole.eq(0..SCANS_PER_USE), "in turn");
    }
}

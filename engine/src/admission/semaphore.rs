//! Whether a read may begin or take more memory: the rules, and nothing that waits.
//!
//! ```text
//! all that reads of a class may have = one half by shares + one half that whoever needs it borrows
//! bytes of a level:  0 ── its part, what it may borrow ── and its part ── and 3 times its part
//!                      all go on                  who begins waits   one goes on   who asks ends
//! ```
//! Reads that only compute gain nothing from each other's company: a hundred that take turns are
//! all done when their clients have given up. So a few begin at a time, and the next one when one
//! of them is done, waits for the disk or its client, or turns out to be long.
//!
//! Invariant: where no read of a level runs, one may begin; where only one read has memory, it gets
//! what it asks for. So whatever is held, some read goes on. The order of the rules counts: the
//! first that fits decides.

use crate::config::COMPUTING_READS_MAX;

/// Times its part that a level holds, beyond what it may borrow, when only one of its reads goes
/// on.
const SERIALIZE_TIMES: u64 = 2;
/// The same when whoever asks for more is ended.
const KILL_TIMES: u64 = 4;

/// What a level and its neighbours have when one of its reads asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its reads that run; those that wait for their clients do not.
    pub running: u32,
    /// Those of them that compute, and have not done so for long.
    pub computing: u32,
    /// Turns that are its own.
    pub turns: u32,
    /// Turns that are there to borrow.
    pub spare_turns: u32,
    /// Bytes that its reads hold.
    pub used: u64,
    /// Bytes that are its own.
    pub part: u64,
    /// Bytes that others have not borrowed: what it has borrowed itself is among them.
    pub spare: u64,
    /// Whether one of its reads goes on alone, beyond the limit.
    pub has_blessed: bool,
}

impl Facts {
    /// Whether it may run one read more.
    pub fn has_turn(&self) -> bool {
        self.running < self.turns || self.spare_turns > 0
    }

    /// Bytes that its reads may have beside those that they hold.
    pub fn free_bytes(&self) -> u64 {
        self.part.saturating_add(self.spare).saturating_sub(self.used)
    }
}

/// What a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// To begin, with so many bytes. A brief one is mostly done at once.
    Begin { bytes: u64, is_brief: bool },
    /// To go on after its client had taken what was there.
    Return,
    /// For more memory, where it holds some already.
    More { bytes: u64, held: u64, is_blessed: bool },
}

/// What it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Yes,
    /// Yes, and it alone until it ends or waits for its client.
    Bless,
    NoTurn,
    NoMemory,
    /// It holds the last of what there is beyond every limit: it is ended.
    Kill,
}

/// See the head of this file.
pub(super) fn decide(facts: &Facts, question: Question) -> Decision {
    let over = |times: u64, bytes: u64| {
        let beyond = facts.used.saturating_add(bytes).saturating_sub(facts.spare);
        beyond >= facts.part.saturating_mul(times)
    };
    let free = facts.free_bytes();
    match question {
        // Reads that wait for their clients may have all, and a client may wait for this one.
        _ if facts.running == 0 && !matches!(question, Question::More { .. }) => Decision::Yes,
        Question::Begin { .. } | Question::Return if !facts.has_turn() => Decision::NoTurn,
        Question::Return => Decision::Yes,
        Question::Begin { is_brief: false, .. } if facts.computing >= COMPUTING_READS_MAX => {
            Decision::NoTurn
        }
        Question::Begin { bytes, .. } if bytes <= free => Decision::Yes,
        Question::Begin { .. } => Decision::NoMemory,
        Question::More { held, .. } if held == facts.used => Decision::Yes,
        Question::More { bytes, .. } if over(KILL_TIMES, bytes) => Decision::Kill,
        Question::More { is_blessed: true, .. } => Decision::Yes,
        Question::More { bytes, .. } if bytes <= free || !over(SERIALIZE_TIMES, bytes) => {
            Decision::Yes
        }
        Question::More { .. } if facts.has_blessed => Decision::NoMemory,
        Question::More { .. } => Decision::Bless,
    }
}

/// Divides a half of `all` by shares, with at least `least` for each. What is left belongs to all.
pub(super) fn divide(all: u64, shares: &[u32], least: u64) -> (Vec<u64>, u64) {
    let sum: u64 = shares.iter().map(|shares| u64::from(*shares)).sum();
    let half = all / 2;
    let part = |shares: &u32| {
        let part = u128::from(half) * u128::from(*shares) / u128::from(sum.max(1));
        u64::try_from(part).unwrap_or(half).max(least)
    };
    let parts: Vec<u64> = shares.iter().map(part).collect();
    let left = all.saturating_sub(parts.iter().sum());
    (parts, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Facts = Facts {
        running: 1,
        computing: 1,
        turns: 2,
        spare_turns: 0,
        used: 10,
        part: 100,
        spare: 0,
        has_blessed: false,
    };

    fn begin(bytes: u64) -> Question {
        Question::Begin { bytes, is_brief: false }
    }

    fn more(bytes: u64) -> Question {
        Question::More { bytes, held: 5, is_blessed: false }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        use Decision::{Bless, Kill, NoMemory, NoTurn, Yes};
        use Question::Return;
        let full = Facts { used: 100, ..FREE };
        let over = Facts { used: 200, ..FREE };
        let blessed = Facts { has_blessed: true, ..over };
        let lent = Facts { used: 350, spare: 300, ..FREE };
        let idle = |facts: Facts| Facts { running: 0, ..facts };
        let busy = |facts: Facts| Facts { running: 2, ..facts };
        let computing = Facts { computing: COMPUTING_READS_MAX, turns: 9, ..FREE };
        let brief = Question::Begin { bytes: 1, is_brief: true };
        let go_on = |bytes| Question::More { bytes, held: 5, is_blessed: true };
        let alone = |bytes, held| Question::More { bytes, held, is_blessed: false };
        for (what, facts, question, wanted) in [
            ("a turn and memory are free", FREE, begin(90), Yes),
            ("nothing runs: memory does not count", idle(over), begin(999), Yes),
            ("nothing runs: turns do not count", Facts { turns: 0, ..idle(full) }, Return, Yes),
            ("all turns are taken", busy(FREE), begin(1), NoTurn),
            ("turns come before memory", busy(full), begin(1), NoTurn),
            ("a turn is borrowed", Facts { spare_turns: 1, ..busy(FREE) }, begin(1), Yes),
            ("few compute at once", computing, begin(1), NoTurn),
            ("one that is brief goes past them", computing, brief, Yes),
            ("and so does who returns", computing, Return, Yes),
            ("who returns needs a turn", busy(FREE), Return, NoTurn),
            ("who returns has its memory", over, Return, Yes),
            ("more than is free", FREE, begin(91), NoMemory),
            ("memory is borrowed", Facts { spare: 1, ..FREE }, begin(91), Yes),
            ("who runs may go over its part", full, more(99), Yes),
            ("but not to twice its part", full, more(100), Bless),
            ("what is there to borrow is no excess", lent, more(49), Yes),
            ("nor is what it has borrowed", Facts { used: 400, ..lent }, more(99), Yes),
            ("beyond that it is", Facts { used: 400, ..lent }, more(100), Bless),
            ("and ends who asks for more", Facts { used: 600, ..lent }, more(100), Kill),
            ("one goes on at a time", blessed, more(1), NoMemory),
            ("it goes on up to the last limit", blessed, go_on(199), Yes),
            ("and not beyond it", blessed, go_on(200), Kill),
            ("who would go beyond it is ended", over, more(200), Kill),
            ("unless nobody else holds anything", over, alone(9999, 200), Yes),
        ] {
            assert_eq!(decide(&facts, question), wanted, "{what}: {facts:?} {question:?}");
        }
    }

    #[test]
    fn parts_go_by_shares_and_nothing_is_given_twice() {
        for (all, shares, least, wanted) in [
            (100, vec![1000], 1, (vec![50], 50)),
            (101, vec![1000], 1, (vec![50], 51)),
            (100, vec![300, 100], 1, (vec![37, 12], 51)),
            (100, vec![1000, 1], 1, (vec![49, 1], 50)),
            (2, vec![1000, 1000, 1000], 1, (vec![1, 1, 1], 0)),
            (u64::MAX, vec![1000, 1000], 1, (vec![u64::MAX / 4; 2], u64::MAX / 2 + 2)),
            (100, vec![0], 1, (vec![1], 99)),
        ] {
            let found = divide(all, &shares, least);
            assert_eq!(found, wanted, "{all} by {shares:?}");
        }
    }
}

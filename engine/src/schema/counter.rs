//! Counter contexts: what each node has counted, and their sum.
//!
//! ```text
//! context := i16 n, n x i16 entry, shards         entry: index of a shard, - 32768 if it is global
//! shard   := id (16 bytes), i64 clock, i64 count  sorted by id; those without entry are remote
//! ```

use std::collections::BTreeMap;

const SHARD_BYTES: usize = 32;
/// The id of steps that no node has counted yet.
const NOBODY: [u8; 16] = [0; 16];
/// Added to an entry's index where the shard is global.
const GLOBAL: i16 = i16::MIN;

/// Who may change a shard. The order is that of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A copy of what another node counted, of old versions.
    Remote,
    /// What this node counted, as deltas, of old versions.
    Local,
    /// The state that one node leads.
    Global,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    kind: Kind,
    clock: i64,
    count: i64,
}

type Shards = BTreeMap<[u8; 16], Shard>;

fn parse(context: &[u8]) -> Option<Shards> {
    let (count, rest) = context.split_first_chunk::<2>()?;
    let entries_bytes = 2 * usize::try_from(i16::from_be_bytes(*count)).ok()?;
    let (entries, body) = rest.split_at_checked(entries_bytes)?;
    if !body.len().is_multiple_of(SHARD_BYTES) {
        return None;
    }
    let mut kinds = BTreeMap::new();
    for entry in entries.chunks_exact(2) {
        let entry = i16::from_be_bytes([entry[0], entry[1]]);
        let (index, kind) = match entry {
            0.. => (entry, Kind::Local),
            _ => (entry.wrapping_sub(GLOBAL), Kind::Global),
        };
        kinds.insert(usize::try_from(index).ok()?, kind);
    }
    let mut shards = Shards::new();
    for (i, shard) in body.chunks_exact(SHARD_BYTES).enumerate() {
        let number = |at: usize| Some(i64::from_be_bytes(shard[at..at + 8].try_into().ok()?));
        let id: [u8; 16] = shard[..16].try_into().ok()?;
        let kind = kinds.get(&i).copied().unwrap_or(Kind::Remote);
        let shard = Shard { kind, clock: number(16)?, count: number(24)? };
        shards.entry(id).and_modify(|own| *own = join(*own, shard)).or_insert(shard);
    }
    Some(shards)
}

/// Two versions of one node's shard: the more authoritative, then the newer; old deltas add up.
fn join(a: Shard, b: Shard) -> Shard {
    if a.kind == Kind::Local && b.kind == Kind::Local {
        return Shard {
            kind: Kind::Local,
            clock: a.clock.wrapping_add(b.clock),
            count: a.count.wrapping_add(b.count),
        };
    }
    let rank = |shard: &Shard| (shard.kind, shard.clock, shard.count);
    if rank(&a) >= rank(&b) { a } else { b }
}

/// The value of the counter; `None` when the bytes are no context.
pub fn total(context: &[u8]) -> Option<i64> {
    if context.is_empty() {
        return Some(0);
    }
    Some(parse(context)?.values().fold(0i64, |sum, shard| sum.wrapping_add(shard.count)))
}

/// A step of a counter that is still to be taken: a delta that no node has counted yet.
pub fn step(by: i64) -> Vec<u8> {
    write(&Shards::from([(NOBODY, Shard { kind: Kind::Local, clock: 0, count: by })]))
}

/// How far a step goes; `None` when the bytes are something else. Steps of one counter that were
/// merged are one.
pub fn step_by(context: &[u8]) -> Option<i64> {
    let shards = parse(context)?;
    match (shards.len(), shards.get(&NOBODY)) {
        (1, Some(shard)) if shard.kind == Kind::Local => Some(shard.count),
        _ => None,
    }
}

/// The state of node `id` after it has counted on by `by`, at `at_us`: its own shard alone, which
/// is newer than the one in `stored`. `None` when `stored` is no context, or the count of the node
/// or of all leaves the range of a bigint.
pub fn counted(stored: &[u8], id: [u8; 16], at_us: i64, by: i64) -> Option<Vec<u8>> {
    let shards = if stored.is_empty() { Shards::new() } else { parse(stored)? };
    let own = shards.get(&id).filter(|shard| shard.kind == Kind::Global);
    let (clock, count) = own.map_or((0, 0), |own| (own.clock, own.count));
    total(stored)?.checked_add(by)?;
    // As a time the clock is also newer than what was counted before a deletion.
    let clock = at_us.max(clock.checked_add(1)?);
    let shard = Shard { kind: Kind::Global, clock, count: count.checked_add(by)? };
    Some(write(&Shards::from([(id, shard)])))
}

/// What two versions of a counter know together; `None` when either is no context.
pub fn merge(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let mut shards = parse(a)?;
    for (id, shard) in parse(b)? {
        shards.entry(id).and_modify(|own| *own = join(*own, shard)).or_insert(shard);
    }
    // More shards than a context can name are none that a node has written.
    i16::try_from(shards.len()).ok()?;
    Some(write(&shards))
}

/// The context of so many shards as an `i16` can count.
fn write(shards: &Shards) -> Vec<u8> {
    let entry = |(i, shard): (usize, &Shard)| {
        let index = i16::try_from(i).expect("shards were counted");
        match shard.kind {
            Kind::Remote => None,
            Kind::Local => Some(index),
            Kind::Global => Some(index.wrapping_add(GLOBAL)),
        }
    };
    let entries: Vec<i16> = shards.values().enumerate().filter_map(entry).collect();
    let count = i16::try_from(entries.len()).expect("shards were counted");
    let mut out = count.to_be_bytes().to_vec();
    entries.iter().for_each(|entry| out.extend_from_slice(&entry.to_be_bytes()));
    for (id, shard) in shards {
        out.extend_from_slice(id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_on_from_what_is_stored() {
        let (ours, other) = ([7; 16], context(&[GLOBAL], &[(9, 5, 100)]));
        let first = counted(&[], ours, 1000, 3).unwrap();
        assert_eq!((total(&first), step_by(&first)), (Some(3), None));
        // Not even a clock that stands still, or went back, gives two states one clock.
        let second = counted(&first, ours, 1000, -5).unwrap();
        let third = counted(&second, ours, 10, 1).unwrap();
        for all in [[&first, &second, &third], [&third, &first, &second]] {
            let merged = all.into_iter().fold(other.clone(), |sum, one| merge(&sum, one).unwrap());
            assert_eq!(total(&merged), Some(99));
            assert_eq!(total(&counted(&merged, ours, 2000, 1).unwrap()), Some(0), "its own alone");
        }
        let most = counted(&[], ours, 1, i64::MAX).unwrap();
        assert_eq!(counted(&most, ours, 2, 1), None);
        let full = context(&[GLOBAL], &[(9, 5, i64::MAX)]);
        assert_eq!(counted(&full, ours, 2, 1), None, "the sum leaves the range");
        assert_eq!(counted(b"x", ours, 2, 1), None);
    }

    #[test]
    fn steps_of_one_statement_add_up() {
        assert_eq!(step_by(&step(-4)), Some(-4));
        assert_eq!(step_by(&merge(&step(-4), &step(9)).unwrap()), Some(5));
        let counted = context(&[GLOBAL], &[(9, 5, 100)]);
        for other in [&[][..], b"x", &counted, &merge(&counted, &step(1)).unwrap()] {
            assert_eq!(step_by(other), None);
        }
    }

    fn context(entries: &[i16], shards: &[(u8, i64, i64)]) -> Vec<u8> {
        let mut out = (entries.len() as i16).to_be_bytes().to_vec();
        entries.iter().for_each(|entry| out.extend_from_slice(&entry.to_be_bytes()));
        for (id, clock, count) in shards {
            out.extend_from_slice(&[*id; 16]);
            out.extend_from_slice(&clock.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        out
    }

    #[test]
    fn shards_are_summed() {
        assert_eq!(total(&context(&[GLOBAL, GLOBAL + 1], &[(1, 1, 7), (2, 5, -9)])), Some(-2));
        assert_eq!(total(&[]), Some(0));
        assert_eq!(total(&context(&[], &[])), Some(0));
        assert_eq!(total(&[0]), None);
        assert_eq!(total(&[0, 1, 0, 0, 9]), None);
        assert_eq!(total(&[0xff; 40]), None);
    }

    #[test]
    fn the_newer_state_of_each_node_stands_whatever_the_order() {
        let a = context(&[GLOBAL, GLOBAL + 1], &[(1, 3, 30), (2, 1, 1)]);
        let b = context(&[GLOBAL, GLOBAL + 1], &[(1, 2, 20), (3, 1, 100)]);
        let both =
            context(&[GLOBAL, GLOBAL + 1, GLOBAL + 2], &[(1, 3, 30), (2, 1, 1), (3, 1, 100)]);
        assert_eq!(merge(&a, &b), Some(both.clone()));
        assert_eq!(merge(&b, &a), Some(both.clone()));
        assert_eq!(merge(&both, &a), Some(both));
        // The clock tells what is newer: a count may have been decremented.
        let newer = context(&[GLOBAL], &[(1, 4, 10)]);
        for (one, other) in [(&a, &newer), (&newer, &a)] {
            assert_eq!(total(&merge(one, other).unwrap()), Some(11));
        }
        // Deltas of old versions add up, and a state that is led beats them.
        let delta = context(&[0], &[(1, 1, 5)]);
        assert_eq!(merge(&delta, &delta), Some(context(&[0], &[(1, 2, 10)])));
        assert_eq!(total(&merge(&delta, &a).unwrap()), Some(31));
        assert_eq!(merge(&a, &[1, 2, 3]), None);
    }

    /// Copies of what another node counted, what this node counted as deltas, and states that one
    /// node leads.
    #[test]
    fn of_two_states_of_a_node_the_one_that_may_say_more_stands_and_then_the_newer_one() {
        let remote = |clock, count| context(&[], &[(1, clock, count)]);
        let local = |clock, count| context(&[0], &[(1, clock, count)]);
        let global = |clock, count| context(&[GLOBAL], &[(1, clock, count)]);
        for (one, other, wanted) in [
            // Whatever clocks and counts say.
            (remote(9, 90), local(1, 5), local(1, 5)),
            (remote(9, 90), global(1, 5), global(1, 5)),
            (local(9, 90), global(1, 5), global(1, 5)),
            (remote(1, 90), remote(2, 5), remote(2, 5)),
            (remote(2, 5), remote(2, 6), remote(2, 6)),
            (global(1, 90), global(2, 5), global(2, 5)),
            (global(2, 5), global(2, 6), global(2, 6)),
            (local(1, 5), local(2, -7), local(3, -2)),
        ] {
            for (a, b) in [(&one, &other), (&other, &one)] {
                assert_eq!(merge(a, b).as_ref(), Some(&wanted), "{a:?}, {b:?}");
            }
        }
        // Each shard is of its own kind, wherever it stands.
        let mixed = context(&[GLOBAL + 1, 2], &[(1, 1, 10), (2, 1, 200), (3, 1, 3000)]);
        assert_eq!(merge(&mixed, &context(&[], &[])), Some(mixed.clone()));
        let twice = context(&[GLOBAL + 1, 2], &[(1, 1, 10), (2, 1, 200), (3, 2, 6000)]);
        assert_eq!(merge(&mixed, &mixed), Some(twice));
        assert_eq!(total(&mixed), Some(3210));
    }

    #[test]
    fn a_node_counts_up_to_both_ends_of_a_bigint_and_no_further() {
        let ours = [1; 16];
        for (end, over) in [(i64::MAX, 1), (i64::MIN, -1)] {
            let at_end = counted(&[], ours, 1, end).unwrap();
            assert_eq!(total(&at_end), Some(end));
            assert_eq!(counted(&at_end, ours, 2, over), None, "{end}");
            let back = counted(&at_end, ours, 2, -over).unwrap();
            assert_eq!(total(&merge(&at_end, &back).unwrap()), Some(end - over));
            // The sum of all is there already, though this node has counted nothing.
            let other = context(&[GLOBAL], &[(9, 5, end)]);
            assert_eq!(counted(&other, ours, 2, over), None, "{end}");
            let own = counted(&other, ours, 2, -over).unwrap();
            assert_eq!(total(&merge(&other, &own).unwrap()), Some(end - over));
            // The sum of all has room, and the count of this node has none.
            let both = context(&[GLOBAL, GLOBAL + 1], &[(1, 5, end), (9, 5, -over)]);
            assert_eq!(counted(&both, ours, 6, over), None, "{end}");
        }
        // Behind the last clock there is none.
        let last = context(&[GLOBAL], &[(1, i64::MAX, 3)]);
        assert_eq!(counted(&last, ours, 6, 1), None);
    }
}

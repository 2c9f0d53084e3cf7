//! Counter contexts: what each node has counted, and their sum.
//!
//! ```text
//! context := i16 n, n x i16 entry, shards         entry: index of a shard, - 32768 if it is global
//! shard   := id (16 bytes), i64 clock, i64 count  sorted by id; those without entry are remote
//! ```

use std::collections::BTreeMap;

const SHARD_BYTES: usize = 32;
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

/// What two versions of a counter know together; `None` when either is no context.
pub fn merge(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let mut shards = parse(a)?;
    for (id, shard) in parse(b)? {
        shards.entry(id).and_modify(|own| *own = join(*own, shard)).or_insert(shard);
    }
    let entries: Vec<i16> = shards
        .values()
        .enumerate()
        .filter_map(|(i, shard)| match shard.kind {
            Kind::Remote => None,
            Kind::Local => i16::try_from(i).ok(),
            Kind::Global => i16::try_from(i).ok().map(|index| index.wrapping_add(GLOBAL)),
        })
        .collect();
    let mut out = i16::try_from(entries.len()).ok()?.to_be_bytes().to_vec();
    entries.iter().for_each(|entry| out.extend_from_slice(&entry.to_be_bytes()));
    for (id, shard) in &shards {
        out.extend_from_slice(id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

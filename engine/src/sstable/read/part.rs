//! Which partitions of an SSTable count: files may hold partitions of other shards, and such as
//! other SSTables have taken over.

use crate::schema::Token;

/// Partitions of an SSTable that are read; the others are as if they were not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Those of one shard, where it was written under another number of shards.
    pub only: Option<(u32, u32)>,
    /// The shard that wrote it then.
    pub of: Option<(u32, u32)>,
    /// Not those of these shards, each of its number of shards: others have them, and may have
    /// purged what is here.
    pub without: Vec<(u32, u32)>,
}

impl Part {
    /// Whether every partition counts.
    pub fn is_whole(&self) -> bool {
        self.only.is_none() && self.without.is_empty()
    }

    /// How much of it counts, 0 to 1, if it has many partitions; an estimate.
    pub fn share(&self) -> f64 {
        let (Some((shard, count)), Some((of, of_count))) = (self.only, self.of) else { return 1.0 };
        let (shard, count) = (f64::from(shard), f64::from(count));
        let (of, of_count) = (f64::from(of), f64::from(of_count));
        let lower = (shard / count).max(of / of_count);
        let upper = ((shard + 1.0) / count).min((of + 1.0) / of_count);
        ((upper - lower) * of_count).clamp(0.0, 1.0)
    }

    /// Whether partitions with this token count.
    pub fn has(&self, token: Token) -> bool {
        let is_of = |(shard, count): &(u32, u32)| token.shard(*count) == *shard;
        self.only.as_ref().is_none_or(is_of) && !self.without.iter().any(is_of)
    }
}

/// Whether two shards of different numbers of shards own partitions in common.
pub fn overlap((shard, count): (u32, u32), (other, other_count): (u32, u32)) -> bool {
    assert!(shard < count && other < other_count, "{shard} of {count}, {other} of {other_count}");
    // Each owns one stretch of the biased ring (`schema/token.rs`), in units of both counts.
    let [shard, count, other, other_count] = [shard, count, other, other_count].map(u64::from);
    shard * other_count < (other + 1) * count && other * count < (shard + 1) * other_count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn shards_overlap_where_tokens_are_of_both() {
        let mut random = Random::new(1);
        let tokens: Vec<Token> = (0..4000).map(|_| Token(random.next_u64() as i64)).collect();
        for (count, other_count) in [(1, 1), (1, 3), (2, 3), (3, 2), (4, 2), (2, 4), (5, 7)] {
            for (shard, other) in (0..count).flat_map(|s| (0..other_count).map(move |o| (s, o))) {
                let is_both = |token: &Token| {
                    token.shard(count) == shard && token.shard(other_count) == other
                };
                let found = tokens.iter().any(is_both);
                let pair = ((shard, count), (other, other_count));
                assert_eq!(overlap(pair.0, pair.1), found, "{pair:?}");
                assert_eq!(overlap(pair.1, pair.0), found, "{pair:?}");
            }
        }
    }

    #[test]
    fn shares_are_those_of_the_stretches() {
        let share = |of, only| {
            let part = Part { only: Some(only), of: Some(of), without: vec![] };
            (part.share() * 1e6).round() / 1e6
        };
        assert_eq!([share((0, 1), (1, 2)), share((1, 2), (0, 1))], [0.5, 1.0]);
        assert_eq!([share((0, 2), (0, 3)), share((0, 2), (1, 3))], [0.666667, 0.333333]);
        assert_eq!([share((0, 2), (2, 3)), Part::default().share()], [0.0, 1.0]);
    }

    #[test]
    fn a_part_is_what_one_shard_owns_less_what_others_took() {
        let mut random = Random::new(2);
        let part = Part { only: Some((1, 3)), of: None, without: vec![(0, 2), (4, 5)] };
        assert!(!part.is_whole() && Part::default().is_whole());
        let mut counted = [0; 2];
        for _ in 0..4000 {
            let token = Token(random.next_u64() as i64);
            let taken = token.shard(2) == 0 || token.shard(5) == 4;
            assert_eq!(part.has(token), token.shard(3) == 1 && !taken, "{token:?}");
            assert!(Part::default().has(token));
            counted[usize::from(part.has(token))] += 1;
        }
        assert!(counted.iter().all(|count| *count > 100), "{counted:?}");
    }
}

//! How the memory of the program is divided: one number, and what of it goes to whom.
//!
//! ```text
//! control group or machine ── three quarters ──> --memory
//!   caches 25 %   memtables 25 %   batches of reads 15 %   queries 25 %
//!   connections 5 %   long tickets and prepared statements 5 %
//! ```
//! The last quarter is for what nobody counts: the program itself, stacks, what the allocator
//! keeps. Invariant: the parts are no more than the whole; a part that is given by an option comes
//! off the whole first, and what is left is divided among the others in these proportions.

use std::fmt;

use tidegate_engine::config::{CACHE_BYTES_DEFAULT, MEMTABLE_BYTES_DEFAULT};
use tidegate_engine::os::MemoryLimit;

const CACHES_PERCENT: usize = 25;
const MEMTABLES_PERCENT: usize = 25;
const READS_PERCENT: usize = 15;
const QUERIES_PERCENT: usize = 25;
const CONNECTIONS_PERCENT: usize = 5;
const TICKETS_PERCENT: usize = 5;
/// Writers wait when memtables hold their share so many times.
const MEMTABLE_SHARES: usize = 2;
/// Least bytes of each part, so that it can do anything at all.
const CACHE_BYTES_MIN: usize = 1 << 20;
const MEMTABLE_BYTES_MIN: usize = 1 << 20;
const READS_BYTES_MIN: usize = 16 << 20;
const QUERIES_BYTES_MIN: usize = 16 << 20;
const CONNECTIONS_BYTES_MIN: usize = 8 << 20;
const TICKETS_BYTES_MIN: usize = 2 << 20;
/// Largest share of memtables that nobody asked for: what is flushed at once.
const MEMTABLE_BYTES_MAX: usize = 256 << 20;
/// What is divided where the kernel does not tell how much there is.
const TOTAL_BYTES_UNKNOWN: usize = 1 << 30;

const _: () = assert!(
    CACHES_PERCENT
        + MEMTABLES_PERCENT
        + READS_PERCENT
        + QUERIES_PERCENT
        + CONNECTIONS_PERCENT
        + TICKETS_PERCENT
        == 100
);

/// What the options say of memory, bytes; `None` where they say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryWishes {
    pub total: Option<usize>,
    /// Of the cache of a shard.
    pub cache: Option<usize>,
    /// Of the memtables of a shard.
    pub memtable: Option<usize>,
    pub queries: Option<usize>,
}

/// Who has how much, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    pub total: usize,
    /// Of the cache of each shard.
    pub cache: usize,
    /// Of the memtables of each shard, which may take twice that.
    pub memtable: usize,
    /// Of the batches of all reads.
    pub reads: usize,
    pub queries: usize,
    pub connections: usize,
    /// Of tickets and prepared statements that are too long for their clients to carry.
    pub tickets: usize,
}

/// A part that is still to be given out.
struct Part {
    percent: usize,
    bytes_min: usize,
}

impl MemoryPlan {
    /// Divides memory among `shards`; `limit` is what the system allows.
    ///
    /// Errors: a sentence, when what is asked for does not fit.
    pub fn new(
        wishes: MemoryWishes,
        shards: usize,
        limit: Option<(u64, MemoryLimit)>,
    ) -> Result<Self, String> {
        let available = limit.map_or(TOTAL_BYTES_UNKNOWN as u64 * 4 / 3, |(bytes, _)| bytes);
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        let total = wishes.total.unwrap_or(available / 4 * 3);
        let whole = |bytes: Option<usize>, times: usize| bytes.map(|bytes| bytes * times);
        let part = |percent, bytes_min| Part { percent, bytes_min };
        // Parts, what the options say of them, and the name of the option.
        let parts = [
            (part(CACHES_PERCENT, CACHE_BYTES_MIN * shards), whole(wishes.cache, shards)),
            (
                part(MEMTABLES_PERCENT, MEMTABLE_BYTES_MIN * MEMTABLE_SHARES * shards),
                whole(wishes.memtable, shards * MEMTABLE_SHARES),
            ),
            (part(READS_PERCENT, READS_BYTES_MIN), None),
            (part(QUERIES_PERCENT, QUERIES_BYTES_MIN), wishes.queries),
            (part(CONNECTIONS_PERCENT, CONNECTIONS_BYTES_MIN), None),
            (part(TICKETS_PERCENT, TICKETS_BYTES_MIN), None),
        ];
        let fixed: usize = parts.iter().filter_map(|(_, wish)| *wish).sum();
        let open = || parts.iter().filter(|(_, wish)| wish.is_none()).map(|(part, _)| part);
        let least: usize = open().map(|part| part.bytes_min).sum();
        if fixed.saturating_add(least) > total {
            return Err(refusal(wishes, shards, Needs { total, fixed, least }, limit));
        }
        // Above its least each part has its proportion of what is left.
        let (rest, percents) = (total - fixed - least, open().map(|part| part.percent).sum());
        let share = |(part, wish): &(Part, Option<usize>)| {
            let own = |percents: usize| part.bytes_min + rest / percents * part.percent;
            wish.unwrap_or_else(|| own(percents))
        };
        let [caches, memtables, reads, queries, connections, tickets] = parts.each_ref().map(share);
        // Who did not ask for more gets the caches that he always got: beyond them not every policy
        // could be put in charge.
        let most = |bytes_max: usize| if wishes.total.is_some() { usize::MAX } else { bytes_max };
        let memtable = memtables / shards / MEMTABLE_SHARES;
        Ok(MemoryPlan {
            total,
            cache: wishes.cache.unwrap_or((caches / shards).min(most(CACHE_BYTES_DEFAULT))),
            memtable: wishes
                .memtable
                .unwrap_or(memtable.min(most(MEMTABLE_BYTES_DEFAULT)).min(MEMTABLE_BYTES_MAX)),
            reads,
            queries,
            connections,
            tickets,
        })
    }
}

/// Bytes that there are, that options fix, and that the other parts want at least.
struct Needs {
    total: usize,
    fixed: usize,
    least: usize,
}

/// Says which options ask for too much.
fn refusal(
    wishes: MemoryWishes,
    shards: usize,
    Needs { total, fixed, least }: Needs,
    limit: Option<(u64, MemoryLimit)>,
) -> String {
    let mut asked = Vec::new();
    if let Some(bytes) = wishes.cache {
        asked.push(format!("--cache-bytes {} for each of {shards} shards", Bytes(bytes)));
    }
    if let Some(bytes) = wishes.memtable {
        asked.push(format!("--memtable-bytes {}, twice for each of {shards} shards", Bytes(bytes)));
    }
    if let Some(bytes) = wishes.queries {
        asked.push(format!("--query-memory {}", Bytes(bytes)));
    }
    let whole = match (wishes.total, limit) {
        (Some(_), _) => format!("--memory {}", Bytes(total)),
        (None, Some((bytes, limit))) => {
            let whose = match limit {
                MemoryLimit::Group => "control group",
                MemoryLimit::Machine => "machine",
            };
            let bytes = Bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
            format!("{} (three quarters of the {bytes} of the {whose})", Bytes(total))
        }
        (None, None) => format!("{}", Bytes(total)),
    };
    if asked.is_empty() {
        return format!(
            "{whole} is too little: {shards} shards want {} at least; raise --memory or take fewer \
             --shards",
            Bytes(least)
        );
    }
    format!(
        "the parts do not fit: {} take {} and the others want {} at least, but all there is is \
         {whole}; lower them or raise --memory",
        asked.join(", "),
        Bytes(fixed),
        Bytes(least)
    )
}

/// A size as people write it.
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1024 => write!(f, "{bytes} B"),
            bytes @ 1024..0x10_0000 => write!(f, "{} KiB", bytes >> 10),
            bytes @ 0x10_0000..0x4000_0000 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const GROUP: Option<(u64, MemoryLimit)> = Some((1 << 30, MemoryLimit::Group));

    fn sum(plan: &MemoryPlan, shards: usize) -> usize {
        let of_shard = plan.cache + MEMTABLE_SHARES * plan.memtable;
        of_shard * shards + plan.reads + plan.queries + plan.connections + plan.tickets
    }

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for mib in [80, 100, 512, 1 << 10, 16 << 10] {
            for shards in [1, 2, 8] {
                for is_asked_for in [false, true] {
                    let bytes = mib * MIB;
                    let total = is_asked_for.then_some(bytes);
                    let wishes = MemoryWishes { total, ..MemoryWishes::default() };
                    let limit = Some((bytes as u64 / 3 * 4, MemoryLimit::Machine));
                    let plan = MemoryPlan::new(wishes, shards, limit).unwrap();
                    assert!(sum(&plan, shards) <= plan.total && plan.total <= bytes, "{plan:?}");
                    assert!(plan.reads >= READS_BYTES_MIN && plan.cache >= CACHE_BYTES_MIN);
                }
            }
        }
    }

    #[test]
    fn the_default_comes_from_the_limit_and_keeps_small_caches() {
        let plan = MemoryPlan::new(MemoryWishes::default(), 2, GROUP).unwrap();
        assert_eq!(plan.total, 768 * MIB);
        assert_eq!(plan.cache, CACHE_BYTES_DEFAULT);
        assert!((150 * MIB..200 * MIB).contains(&plan.queries), "{plan:?}");
        let wishes = MemoryWishes { total: Some(8 << 30), ..MemoryWishes::default() };
        let plan = MemoryPlan::new(wishes, 2, GROUP).unwrap();
        assert!(plan.cache > 4 * CACHE_BYTES_DEFAULT, "{plan:?}");
        assert_eq!(plan.memtable, MEMTABLE_BYTES_MAX);
    }

    #[test]
    fn what_is_asked_for_comes_first_and_must_fit() {
        let wishes = MemoryWishes {
            total: Some(1 << 30),
            cache: Some(200 * MIB),
            queries: Some(300 * MIB),
            ..MemoryWishes::default()
        };
        let plan = MemoryPlan::new(wishes, 2, GROUP).unwrap();
        assert_eq!((plan.cache, plan.queries), (200 * MIB, 300 * MIB));
        assert!(sum(&plan, 2) <= 1 << 30, "{plan:?}");
        let wishes = MemoryWishes { cache: Some(1 << 30), ..MemoryWishes::default() };
        let error = MemoryPlan::new(wishes, 2, GROUP).unwrap_err();
        for part in ["--cache-bytes 1.0 GiB", "2 shards", "768 MiB", "control group", "--memory"] {
            assert!(error.contains(part), "{error}");
        }
        let little = MemoryWishes { total: Some(10 * MIB), ..MemoryWishes::default() };
        let error = MemoryPlan::new(little, 2, None).unwrap_err();
        assert!(error.contains("--memory 10 MiB is too little"), "{error}");
    }

    #[test]
    fn memtables_that_are_asked_for_count_twice_for_each_shard() {
        let others = CACHE_BYTES_MIN
            + READS_BYTES_MIN
            + QUERIES_BYTES_MIN
            + CONNECTIONS_BYTES_MIN
            + TICKETS_BYTES_MIN;
        let divided = |total, memtable, shards| {
            let (total, memtable) = (Some(total), Some(memtable));
            let wishes = MemoryWishes { total, memtable, ..MemoryWishes::default() };
            MemoryPlan::new(wishes, shards, None)
        };
        // Nothing is left over.
        let exact = divided(others + 100 * MIB, 50 * MIB, 1).unwrap();
        assert_eq!((exact.memtable, exact.cache), (50 * MIB, CACHE_BYTES_MIN), "{exact:?}");
        assert_eq!(sum(&exact, 1), exact.total, "{exact:?}");
        for (total, memtable, shards) in [
            (others + 100 * MIB - 1, 50 * MIB, 1),
            (others + 100 * MIB, 50 * MIB + 1, 1),
            (1 << 30, 300 * MIB, 2),
        ] {
            let told = divided(total, memtable, shards).unwrap_err();
            let option = format!("MiB, twice for each of {shards} shards take ");
            assert!(told.contains("--memtable-bytes ") && told.contains(&option), "{told}");
        }
    }

    #[test]
    fn sizes_are_told_in_the_largest_unit_that_they_fill() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (MIB - 1, "1023 KiB"),
            (MIB, "1 MiB"),
            (1024 * MIB - 1, "1023 MiB"),
            (1024 * MIB, "1.0 GiB"),
            (1536 * MIB, "1.5 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), wanted);
        }
    }

    #[test]
    fn what_is_left_is_divided_in_the_proportions_that_are_told() {
        let unit = 3 * MIB;
        for shards in [1, 3] {
            let least = shards * (CACHE_BYTES_MIN + MEMTABLE_SHARES * MEMTABLE_BYTES_MIN)
                + READS_BYTES_MIN
                + QUERIES_BYTES_MIN
                + CONNECTIONS_BYTES_MIN
                + TICKETS_BYTES_MIN;
            let wanted = MemoryPlan {
                total: least + 100 * unit,
                cache: CACHE_BYTES_MIN + 25 * unit / shards,
                memtable: MEMTABLE_BYTES_MIN + 25 * unit / shards / 2,
                reads: READS_BYTES_MIN + 15 * unit,
                queries: QUERIES_BYTES_MIN + 25 * unit,
                connections: CONNECTIONS_BYTES_MIN + 5 * unit,
                tickets: TICKETS_BYTES_MIN + 5 * unit,
            };
            let all = MemoryWishes { total: Some(wanted.total), ..MemoryWishes::default() };
            assert_eq!(MemoryPlan::new(all, shards, GROUP), Ok(wanted));
            // What one wishes for itself comes off, and the others keep their proportions.
            for queries in [1, 20 * MIB, 900 * MIB] {
                let total = wanted.total - wanted.queries + queries;
                let wishes = MemoryWishes { total: Some(total), queries: Some(queries), ..all };
                let wanted = MemoryPlan { total, queries, ..wanted };
                assert_eq!(MemoryPlan::new(wishes, shards, GROUP), Ok(wanted), "{queries}");
            }
            // The least is enough, and less is not.
            let of = |total| {
                let wishes = MemoryWishes { total: Some(total), ..MemoryWishes::default() };
                MemoryPlan::new(wishes, shards, GROUP)
            };
            assert_eq!(of(least).map(|plan| sum(&plan, shards)), Ok(least));
            assert!(of(least - 1).is_err());
        }
    }

    #[test]
    fn a_refusal_names_each_option_that_takes_a_part_and_whose_memory_it_is() {
        let told = |wishes, limit| MemoryPlan::new(wishes, 2, limit).unwrap_err();
        let (part, none) = (Some(300 * MIB), MemoryWishes::default());
        let machine = Some((1 << 30, MemoryLimit::Machine));
        let queries = MemoryWishes { queries: Some(1 << 30), ..none };
        let all = MemoryWishes { total: Some(1 << 30), cache: part, memtable: part, queries: part };
        assert_eq!(
            told(all, machine),
            "the parts do not fit: --cache-bytes 300 MiB for each of 2 shards, --memtable-bytes \
             300 MiB, twice for each of 2 shards, --query-memory 300 MiB take 2.1 GiB and the \
             others want 26 MiB at least, but all there is is --memory 1.0 GiB; lower them or \
             raise --memory"
        );
        assert_eq!(
            told(queries, machine),
            "the parts do not fit: --query-memory 1.0 GiB take 1.0 GiB and the others want 32 MiB \
             at least, but all there is is 768 MiB (three quarters of the 1.0 GiB of the machine); \
             lower them or raise --memory"
        );
        let unknown = told(queries, None);
        assert!(unknown.contains("all there is is 1023 MiB; lower them"), "{unknown}");
        assert_eq!(
            told(none, Some((30 << 20, MemoryLimit::Group))),
            "22 MiB (three quarters of the 30 MiB of the control group) is too little: 2 shards \
             want 48 MiB at least; raise --memory or take fewer --shards"
        );
    }
}

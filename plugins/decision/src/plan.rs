//! Worlds `read-admission-policy` and `load-shedding-policy`: limits of what a shard lets in, made some
//! times a second and obeyed by the host.

use crate::Setup;

/// What became of the reads of a class since the last plan, and what there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadLoad {
    pub arrived: u64,
    pub admitted: u64,
    /// Reads that wait now.
    pub queued: u64,
    /// Most reads that ran at once.
    pub running_most: u64,
    pub refused: u64,
    /// Bytes that reads are charged with now.
    pub memory_bytes: u64,
    /// From admission to the first batch; 0 where none came so far.
    pub p50_us: u64,
    pub p99_us: u64,
    /// Time that the shard computed for them.
    pub busy_us: u64,
}

impl ReadLoad {
    /// The words of `plan` as loads, one a class.
    pub fn of_words(words: &[u64]) -> impl Iterator<Item = ReadLoad> + '_ {
        words.as_chunks::<8>().0.iter().map(|words| ReadLoad {
            arrived: words[0],
            admitted: words[1],
            queued: words[2] & 0xFFFF_FFFF,
            running_most: words[2] >> 32,
            refused: words[3],
            memory_bytes: words[4],
            p50_us: words[5],
            p99_us: words[6],
            busy_us: words[7],
        })
    }
}

/// Limits of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Reads that run at once.
    pub running_max: u64,
    /// Bytes that they are charged with.
    pub memory_bytes_max: u64,
    /// Reads that wait.
    pub queued_max: u64,
    /// Time after which a read that waits is refused; 0 never.
    pub wait_us_max: u64,
}

/// A policy of world `read-admission-policy`.
pub trait ReadAdmissionPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// Limits of all classes, in the order of the loads; classes left out keep theirs.
    fn plan(&mut self, now_us: u64, memory_free: u64, loads: &[ReadLoad]) -> Vec<ReadLimits>;

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Requests of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkLoad {
    /// Since the last plan.
    pub arrived: u64,
    /// Now.
    pub waiting: u64,
    /// For which the first of them waits.
    pub waited_us: u64,
    /// For the plan, since the last.
    pub shed: u64,
}

/// What a shard has to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signals {
    /// Since the last plan.
    pub elapsed_us: u64,
    /// Of it, what the shard computed for reads.
    pub busy_us: u64,
    pub memtable_bytes: u64,
    /// So many make writes wait.
    pub memtable_bytes_max: u64,
    /// Reads of named partitions, scans, writes.
    pub classes: Vec<WorkLoad>,
}

impl Signals {
    /// The words of `plan`; words that are missing are zeros.
    pub fn of_words(words: &[u64]) -> Signals {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let classes = words.get(4..).unwrap_or_default().as_chunks::<4>().0;
        Signals {
            elapsed_us: word(0),
            busy_us: word(1),
            memtable_bytes: word(2),
            memtable_bytes_max: word(3),
            classes: classes
                .iter()
                .map(|[arrived, waiting, waited_us, shed]| WorkLoad {
                    arrived: *arrived,
                    waiting: *waiting,
                    waited_us: *waited_us,
                    shed: *shed,
                })
                .collect(),
        }
    }
}

/// What is refused of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shedding {
    /// Of a thousand arrivals.
    pub per_mille: u32,
    /// Age at which a request that waits is refused, milliseconds; 0 none.
    pub wait_ms_max: u32,
}

/// A policy of world `load-shedding-policy`.
pub trait LoadSheddingPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// What is refused, in the order of the classes; classes left out keep what they have.
    fn plan(&mut self, now_us: u64, signals: &Signals) -> Vec<Shedding>;

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_contract_puts_them() {
        let words = [1, 2, 4 << 32 | 3, 5, 6, 7, 8, 9, 10];
        let loads: Vec<ReadLoad> = ReadLoad::of_words(&words).collect();
        let wanted = ReadLoad {
            arrived: 1,
            admitted: 2,
            queued: 3,
            running_most: 4,
            refused: 5,
            memory_bytes: 6,
            p50_us: 7,
            p99_us: 8,
            busy_us: 9,
        };
        assert_eq!(loads, [wanted]);
        let signals = Signals::of_words(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((signals.busy_us, signals.memtable_bytes_max), (2, 4));
        let load = WorkLoad { arrived: 5, waiting: 6, waited_us: 7, shed: 8 };
        assert_eq!(signals.classes, [load]);
        assert_eq!(Signals::of_words(&[9]), Signals { elapsed_us: 9, ..Signals::default() });
    }
}

//! What a policy of world `compaction` chooses, and whether it may.
//!
//! Invariant: a merge that a policy wants is legal or is not made, and gains something: fewer
//! SSTables, fewer that overlap, or a deeper level. Policies may not go round: between two flushes
//! a table is in each shape once. Where too many overlap, and for SSTables that only take room, the
//! engine decides by itself.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::choose::{choose, expired, is_oldest_of_its_range};
use super::facts::{Choice, Facts, FileFacts, Reason};
use super::leveled::LEVEL_MAX;
use crate::policy::compaction::{
    Chooser, Pick, SstableFacts, TableFacts, TableStrategy, WantedMerge,
};
use crate::schema::CompactionClass;

/// SSTables that overlap at one token from which on the strategy of the table decides.
const OVERLAP_MAX: usize = 64;
/// SSTables that a merge takes at most, and of these such that overlap at one token: each is a
/// stream.
const INPUTS_MAX: usize = 1024;
const STREAMS_MAX: usize = 64;
/// Least bytes at which what is written is cut.
const SPLIT_BYTES_MIN: u64 = 1 << 20;
/// Seconds that an SSTable must be there before it is rewritten alone: what is dead in it may be
/// kept by others, and then a rewrite gains nothing.
const ALONE_AGE_SECONDS: i64 = 60;

/// SSTables that a merge writes at most.
const OUTPUTS_MAX: u64 = 1024;

/// The shapes that a table had when a policy's merge of it began, since its last flush.
#[derive(Debug, Default)]
pub struct Shapes(BTreeSet<u64>);

impl Shapes {
    /// A merge that a policy chose has changed these.
    pub fn leave(&mut self, files: &[FileFacts]) {
        self.0.insert(shape(files));
    }

    /// There is new data.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn was(&self, files: &[FileFacts]) -> bool {
        !self.0.is_empty() && self.0.contains(&shape(files))
    }
}

/// What a merge that gains nothing leaves as it was, in one word.
fn shape(files: &[FileFacts]) -> u64 {
    let mut all: Vec<_> = files
        .iter()
        .map(|file| (file.first, file.last, file.level, file.rows, file.partitions))
        .collect();
    all.sort_unstable();
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    hasher.finish()
}

/// The merge that is wanted most, if any: by the policy in charge, or by the table's strategy.
pub fn choose_by(
    chooser: &Chooser,
    name: impl FnOnce() -> String,
    facts: &Facts<'_>,
    shapes: &Shapes,
) -> Option<Choice> {
    if !facts.options.is_enabled || !chooser.has_policy() {
        return choose(facts);
    }
    if let Some(expired) = expired(facts) {
        return Some(expired);
    }
    if overlap(facts.files.iter()) > OVERLAP_MAX {
        return choose(facts).or_else(|| Some(fewer(facts)));
    }
    let table = table_facts(name(), facts);
    let sstables: Vec<SstableFacts> = facts.files.iter().map(sstable_facts).collect();
    match chooser.pick(&table, &sstables) {
        Pick::Nothing => None,
        Pick::Strategy => choose(facts),
        Pick::Merge(wanted) => match legal(&wanted, facts.files, shapes) {
            Ok(choice) => Some(choice),
            Err(reason) => {
                chooser.refuse(&table.name, reason);
                choose(facts)
            }
        },
    }
}

/// The smallest as one, where a policy has let SSTables pile up out of the strategy's sight.
fn fewer(facts: &Facts<'_>) -> Choice {
    let mut files: Vec<&FileFacts> = facts.files.iter().collect();
    files.sort_by_key(|file| (file.bytes, file.number));
    files.truncate(facts.options.max_threshold.max(2) as usize);
    Choice::whole(files, Reason::Tier)
}

fn table_facts(name: String, facts: &Facts<'_>) -> TableFacts {
    let options = facts.options;
    TableFacts {
        name,
        now_seconds: u64::try_from(facts.now_seconds).unwrap_or(0),
        strategy: match options.class {
            CompactionClass::SizeTiered => TableStrategy::SizeTiered,
            CompactionClass::Leveled => TableStrategy::Leveled,
            CompactionClass::TimeWindow => TableStrategy::TimeWindow,
            CompactionClass::Incremental => TableStrategy::Incremental,
        },
        min_threshold: options.min_threshold,
        max_threshold: options.max_threshold,
        sstable_bytes: options.sstable_bytes,
    }
}

fn sstable_facts(file: &FileFacts) -> SstableFacts {
    SstableFacts {
        number: file.number,
        run: file.run,
        level: file.level,
        bytes: file.bytes,
        partitions: file.partitions,
        rows: file.rows,
        first_token: file.first.0,
        last_token: file.last.0,
        min_timestamp: file.min_timestamp,
        max_timestamp: file.max_timestamp,
        droppable_per_mille: match file.is_expired {
            true => 1000,
            false => (file.droppable.clamp(0.0, 1.0) * 1000.0) as u32,
        },
        age_seconds: u32::try_from(file.age_seconds.max(0)).unwrap_or(u32::MAX),
    }
}

/// Most SSTables that have one token among theirs.
fn overlap<'a>(files: impl Iterator<Item = &'a FileFacts>) -> usize {
    let mut ends: Vec<_> = files.flat_map(|file| [(file.first, 0), (file.last, 1)]).collect();
    // At one token those that begin count before those that end.
    ends.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, is_end) in ends {
        if is_end == 1 {
            now -= 1;
        } else {
            now += 1;
            most = most.max(now);
        }
    }
    most
}

/// The merge as the engine makes it.
///
/// Errors: why it is none that may be made, for people.
fn legal(wanted: &WantedMerge, files: &[FileFacts], shapes: &Shapes) -> Result<Choice, String> {
    let WantedMerge { level, split_bytes, is_incremental, .. } = *wanted;
    let mut inputs = wanted.inputs.clone();
    inputs.sort_unstable();
    if inputs.is_empty() {
        return Err("a merge of no SSTables".to_owned());
    }
    if inputs.len() > INPUTS_MAX {
        return Err(format!("a merge of {} SSTables, the most is {INPUTS_MAX}", inputs.len()));
    }
    if let Some(twice) = inputs.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("SSTable {} is named twice", twice[0]));
    }
    let find = |number: &u64| {
        let found = files.iter().find(|file| file.number == *number);
        found.ok_or_else(|| format!("SSTable {number} is none that may be merged"))
    };
    let named = inputs.iter().map(find).collect::<Result<Vec<&FileFacts>, String>>()?;
    let streams = overlap(named.iter().copied());
    if streams > STREAMS_MAX {
        return Err(format!("{streams} inputs that overlap, the most is {STREAMS_MAX}"));
    }
    if level > LEVEL_MAX {
        return Err(format!("level {level}, the deepest is {LEVEL_MAX}"));
    }
    if split_bytes > 0 && split_bytes < SPLIT_BYTES_MIN {
        return Err(format!("SSTables of {split_bytes} bytes, the least is {SPLIT_BYTES_MIN}"));
    }
    if is_incremental && split_bytes == 0 {
        return Err("an incremental merge that is cut nowhere".to_owned());
    }
    let bytes: u64 = named.iter().map(|file| file.bytes).sum();
    let outputs = if split_bytes > 0 { bytes.div_ceil(split_bytes) } else { 1 };
    if outputs > OUTPUTS_MAX {
        return Err(format!("a merge into {outputs} SSTables, the most is {OUTPUTS_MAX}"));
    }
    // From level 1 on SSTables of a level are disjoint.
    let meets = |other: &&FileFacts| {
        let is_input = inputs.binary_search(&other.number).is_ok();
        !is_input && other.level == level && named.iter().any(|file| file.meets(other))
    };
    if level > 0
        && let Some(met) = files.iter().find(meets)
    {
        return Err(format!("SSTable {} of level {level} overlaps it", met.number));
    }
    gains(&named, (level, outputs), files)?;
    if shapes.was(files) {
        return Err("since the last flush the table was as it is now: merges go round".to_owned());
    }
    let cut_bytes = (split_bytes > 0).then_some(split_bytes);
    Ok(Choice { inputs, level, cut_bytes, is_incremental, reason: Reason::Policy })
}

/// Errors: why a merge into so many SSTables of a level would leave things as they are, or worse.
fn gains(
    files: &[&FileFacts],
    (level, outputs): (u32, u64),
    all: &[FileFacts],
) -> Result<(), String> {
    let mut in_order = files.to_vec();
    in_order.sort_by_key(|file| (file.first, file.last));
    if in_order.windows(2).any(|pair| pair[0].meets(pair[1])) {
        return Ok(());
    }
    let count = files.len() as u64;
    if outputs > count {
        return Err(format!("{count} SSTables that do not overlap would become {outputs}"));
    }
    let deepest = files.iter().map(|file| file.level).max().unwrap_or(0);
    if level < deepest {
        return Err(format!("level {deepest} would become level {level} for nothing"));
    }
    if files.iter().all(|file| file.level < level) || outputs < count {
        return Ok(());
    }
    let [file] = files else {
        return Err(format!("{count} SSTables that do not overlap would become as many"));
    };
    let number = file.number;
    if file.droppable == 0.0 && !file.is_expired && !file.has_dropped {
        return Err(format!("nothing of SSTable {number} can go, and it is merged alone"));
    }
    if !file.has_dropped && !is_oldest_of_its_range(file, all) {
        return Err(format!("older SSTables may need what SSTable {number} has dead"));
    }
    if file.age_seconds < ALONE_AGE_SECONDS {
        return Err(format!(
            "SSTable {number} is merged alone, {} seconds old; it may be at {ALONE_AGE_SECONDS}",
            file.age_seconds
        ));
    }
    Ok(())
}

//! What a policy of world `compaction` chooses, and whether it may.
//!
//! Invariant: a merge that a policy wants is legal or is not made, and each legal one brings a
//! table nearer to a state in which no other is: fewer SSTables, fewer that overlap, or a deeper
//! level. Where too many overlap, and for SSTables that only take room, the engine decides by
//! itself.

use super::choose::{choose, expired};
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

/// The merge that is wanted most, if any: by the policy in charge, or by the table's strategy.
pub fn choose_by(
    chooser: &Chooser,
    name: impl FnOnce() -> String,
    facts: &Facts<'_>,
) -> Option<Choice> {
    if !facts.options.is_enabled || !chooser.has_policy() {
        return choose(facts);
    }
    if let Some(expired) = expired(facts) {
        return Some(expired);
    }
    if overlap(facts.files.iter()) > OVERLAP_MAX
        && let Some(choice) = choose(facts)
    {
        return Some(choice);
    }
    let table = table_facts(name(), facts);
    let sstables: Vec<SstableFacts> = facts.files.iter().map(sstable_facts).collect();
    match chooser.pick(&table, &sstables) {
        Pick::Nothing => None,
        Pick::Strategy => choose(facts),
        Pick::Merge(wanted) => match legal(&wanted, facts.files) {
            Ok(choice) => Some(choice),
            Err(reason) => {
                chooser.refuse(&table.name, reason);
                choose(facts)
            }
        },
    }
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
fn legal(wanted: &WantedMerge, files: &[FileFacts]) -> Result<Choice, String> {
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
    gains(&named, wanted)?;
    let cut_bytes = (split_bytes > 0).then_some(split_bytes);
    Ok(Choice { inputs, level, cut_bytes, is_incremental, reason: Reason::Policy })
}

/// Errors: why the merge would leave things as they are.
fn gains(files: &[&FileFacts], wanted: &WantedMerge) -> Result<(), String> {
    if files.iter().all(|file| file.level < wanted.level) {
        return Ok(());
    }
    if let [file] = files {
        let number = file.number;
        if file.droppable == 0.0 && !file.is_expired && !file.has_dropped {
            return Err(format!("nothing of SSTable {number} can go, and it is merged alone"));
        }
        if file.age_seconds < ALONE_AGE_SECONDS {
            return Err(format!(
                "SSTable {number} is merged alone, {} seconds old; it may be at {ALONE_AGE_SECONDS}",
                file.age_seconds
            ));
        }
        return Ok(());
    }
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let is_fewer = match wanted.split_bytes {
        0 => true,
        split => bytes.div_ceil(split) < files.len() as u64,
    };
    let mut in_order = files.to_vec();
    in_order.sort_by_key(|file| (file.first, file.last));
    if is_fewer || in_order.windows(2).any(|pair| pair[0].meets(pair[1])) {
        return Ok(());
    }
    Err(format!("{} SSTables that do not overlap would become as many", files.len()))
}

//! The service level of a role, merged from those that are attached to it and to roles that it has.
//!
//! | option | of several levels |
//! |---|---|
//! | timeout | the shortest that is set |
//! | shares | the smallest that are set; reads queue in that level |
//! | workload type | that of the level in which reads queue |
//!
//! Where no level sets shares, reads queue in one of workload type `batch`, else in an
//! `interactive` one, else in the first by name.

use crate::admission::{LevelOptions, ServiceLevel, Workload};

/// A value, and the service level that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin<T> {
    pub value: T,
    pub level: String,
}

/// What holds for a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveLevel {
    /// In which one reads queue, and whose memory they take.
    pub level: Origin<ServiceLevel>,
    /// Most milliseconds of a statement.
    pub timeout_ms: Option<Origin<u64>>,
    pub workload: Option<Origin<Workload>>,
    pub shares: Option<Origin<u32>>,
}

/// Merges levels, in the order of their names; `None` where there is none.
pub fn effective<'a>(
    levels: impl IntoIterator<Item = (&'a str, ServiceLevel)>,
) -> Option<EffectiveLevel> {
    let levels: Vec<(String, ServiceLevel)> =
        levels.into_iter().map(|(name, level)| (name.to_owned(), level)).collect();
    let timeout_ms = smallest(&levels, |options| options.timeout_ms);
    let shares = smallest(&levels, |options| options.shares);
    // Whoever waits gets out of the way of those who do not.
    let rank = |options: &LevelOptions| options.workload.map(|kind| kind == Workload::Interactive);
    let whose = shares.as_ref().map(|shares| shares.level.clone());
    let whose = whose.or_else(|| smallest(&levels, rank).map(|workload| workload.level));
    let (name, level) = match whose {
        Some(whose) => levels.iter().find(|(name, _)| *name == whose)?,
        None => levels.first()?,
    };
    let workload = level.options.workload.map(|value| Origin { value, level: name.clone() });
    let level = Origin { value: *level, level: name.clone() };
    Some(EffectiveLevel { level, timeout_ms, workload, shares })
}

/// The smallest value that is set, and the first level that has it.
fn smallest<T: Ord>(
    levels: &[(String, ServiceLevel)],
    of: impl Fn(&LevelOptions) -> Option<T>,
) -> Option<Origin<T>> {
    let set = levels.iter().filter_map(|(name, level)| Some((of(&level.options)?, name)));
    let (value, level) = set.min_by(|(a, _), (b, _)| a.cmp(b))?;
    Some(Origin { value, level: level.clone() })
}

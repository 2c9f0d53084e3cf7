//! Replays the commitlogs of earlier runs, judges damage, and releases their segments.
//!
//! Invariant: the shard refuses a table that may have lost writes, unless the options allow leaving
//! out what is unreadable. Then it reports what it left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Shard;
use super::left_out::LeftOut;
use super::opening::Ledgers;
use crate::commitlog::{self, Damaged, Recovery, Replay, ReplayPosition};
use crate::database::layout;
use crate::disk::write_file_atomically;
use crate::error::{Error, Result};
use crate::ledger::{Entry, Known, Ledger};
use crate::mutation::{Mutation, codec};
use crate::schema::TableId;

/// What can be done about a damaged log.
const REMEDY: &str = "bring the file back; or open once with --recover=skip-damaged-log \
                      (Options::recovery), which leaves out what cannot be read and says what";

/// What reading back one log came to.
pub(in crate::database) struct Replayed {
    /// Everything in it that is this shard's is in memory or in SSTables.
    pub(in crate::database) is_all_kept: bool,
    /// The segments that were read.
    pub(in crate::database) paths: Vec<PathBuf>,
}

type Flushed = BTreeMap<TableId, Option<ReplayPosition>>;

impl Shard {
    /// Commitlog folders with the shard and shard count that wrote them: the own one, and those of
    /// other shard counts. Those that a ledger knows are among them though the folder may be gone.
    pub(in crate::database) async fn old_logs(
        &self,
        ledgers: &Ledgers,
    ) -> Result<Vec<(PathBuf, (u32, u32))>> {
        let own = (self.context.shard, self.context.shard_count);
        let commitlogs = self.options.layout.commitlogs();
        let entries = self.list(&commitlogs).await?;
        let there = entries.iter().filter_map(|entry| layout::parse_log_name(&entry.name));
        let known = ledgers.iter().filter(|(_, known)| !known.segments.is_empty());
        let mut logs: Vec<(u32, u32)> = there.chain(known.map(|(log, _)| *log)).collect();
        logs.sort_unstable();
        logs.dedup();
        Ok(logs
            .into_iter()
            .filter(|log| *log == own || log.1 != own.1)
            .map(|log| (self.options.layout.commitlog(log.0, log.1), log))
            .collect())
    }

    /// Reads one log back into the memtables. Segments from `first_segment` on are of this run,
    /// where the log is the shard's own.
    pub(in crate::database) async fn replay(
        &self,
        directory: &Path,
        (log, known): ((u32, u32), Known),
        first_segment: u64,
    ) -> Result<Replayed> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let is_own_log = log == (shard, shard_count);
        let mut flushed = Flushed::new();
        for table in self.tables() {
            flushed.insert(table.schema().id, table.flushed_through(log).await);
        }
        let tables = self.tables.borrow().clone();
        let mut unfit = Vec::new();
        let mut apply = |position: ReplayPosition, mut mutation: Mutation| {
            let Some(Ok(table)) = tables.get(&mutation.table) else {
                // The table was dropped, or could not be opened: then the log is kept.
                return Ok(());
            };
            let is_own = mutation.key.token().shard(shard_count) == shard;
            if !is_own {
                return Ok(());
            }
            // What does not fit is in no SSTable, however far the table was flushed: where there
            // was no room to set it aside, the log stayed for it.
            let is_flushed = flushed[&mutation.table].is_some_and(|through| position <= through);
            if !mutation.leave_out_dropped(&table.schema()) {
                return Ok(());
            }
            match table.check(&mutation) {
                Err(error) => unfit.push((position, mutation, error)),
                Ok(()) if is_flushed => {}
                Ok(()) => table.active().replay(is_own_log.then_some(position), mutation),
            }
            Ok(())
        };
        let replay = Replay {
            disk: &self.context.disk,
            directory,
            before: if is_own_log { first_segment } else { u64::MAX },
            known: &known.segments,
            recovery: self.options.recovery,
        };
        let summary = replay.run(&mut apply).await?;
        let mut is_all_kept = self.set_aside(log, unfit).await?;
        for damaged in summary.damaged {
            is_all_kept &= self.judge(damaged, &known, &flushed).await;
        }
        Ok(Replayed { is_all_kept, paths: summary.paths })
    }

    /// Keeps writes that do not fit their table in files of their own: a flush could not write
    /// them. Returns whether there was room for them.
    async fn set_aside(
        &self,
        log: (u32, u32),
        unfit: Vec<(ReplayPosition, Mutation, Error)>,
    ) -> Result<bool> {
        for (position, mutation, error) in unfit {
            let (segment, offset) = (position.segment, position.offset);
            let path = self.options.layout.set_aside(log, segment, offset);
            let mut record = Vec::new();
            codec::encode(&mutation, &mut record);
            let disk = &self.context.disk;
            let kept = async {
                if let Some(folder) = path.parent() {
                    disk.create_directories(folder).await?;
                    disk.sync_directory(self.options.layout.root()).await?;
                }
                write_file_atomically(&**disk, &path, &record).await
            };
            let file = path.display();
            match kept.await {
                Ok(()) => {}
                Err(error) if error.is_disk_full() => {
                    tracing::error!(%file, %error, "no room to set a write aside");
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            let table = mutation.table.hex();
            tracing::warn!(table, %file, %error, "a write does not fit its table: it is set aside");
        }
        Ok(true)
    }

    /// Finds out which tables may lack writes because of damage, and refuses them, or tells what
    /// was left out. Returns whether the log may go.
    async fn judge(&self, damaged: Damaged, known: &Known, flushed: &Flushed) -> bool {
        let entry = known.segments.get(&damaged.segment).cloned().unwrap_or_default();
        let place = (damaged.segment, damaged.from);
        let lacks = |id: &TableId| {
            let flushed = flushed.get(id).copied().flatten();
            entry.may_hold(place, *id, flushed.map(|through| (through.segment, through.offset)))
        };
        let suspects: Vec<_> =
            self.tables().into_iter().filter(|table| lacks(&table.schema().id)).collect();
        let shard = self.context.shard;
        if self.options.recovery == Recovery::SkipDamagedLog {
            self.tell_left_out(&damaged, suspects.iter().map(|table| table.schema().full_name()));
            return true;
        }
        if suspects.is_empty() {
            let error = damaged.error;
            tracing::info!(shard, %error, "SSTables have all that a damaged segment held");
            return true;
        }
        let error = damaged.error.with_remedy(REMEDY);
        for table in suspects {
            let name = table.schema().full_name();
            tracing::error!(shard, table = name, %error, "a table may lack writes; others go on");
            self.tables.borrow_mut().insert(table.schema().id, Err(error.clone()));
            table.mark_dropped();
            table.rows().close();
            table.free_rows().await;
            if let Err(error) = table.flush().await {
                tracing::warn!(table = name, %error, "what was read of a refused table stays");
            }
        }
        false
    }

    fn tell_left_out(&self, damaged: &Damaged, tables: impl Iterator<Item = String>) {
        let (file, reason) = match &damaged.error {
            Error::Corrupt(corruption) => {
                let at = corruption.offset;
                let (wanted, found) = (&corruption.wanted, &corruption.found);
                let reason = format!("at offset {at}: wanted {wanted}, found {found}");
                (corruption.file.clone(), reason)
            }
            Error::Io { path, .. } => (path.clone(), damaged.error.to_string()),
            other => (PathBuf::new(), other.to_string()),
        };
        let mut tables: Vec<String> = tables.collect();
        tables.sort();
        let left_out = LeftOut { file, ranges: damaged.left_out.clone(), reason, tables };
        tracing::info!(shard = self.context.shard, "{left_out}");
        self.left_out.borrow_mut().push(left_out);
    }

    /// Has the own ledger forget the segments of earlier runs: SSTables of all shards have what
    /// they held. Returns whether they may go.
    pub(in crate::database) async fn release_old_segments(&self) -> Result<bool> {
        let Some(ledger) = self.ledger.borrow().clone() else { return Ok(true) };
        let known = ledger.known();
        let ids = known.segments.into_keys().filter(|id| *id < self.first_segment.get()).collect();
        may_go(ledger.record(vec![Entry::Released { ids }]).await)
    }

    /// Removes segments that every shard has replayed, and folders of other shard counts that are
    /// empty then; false when they had to stay.
    ///
    /// Errors: `Io`.
    pub(in crate::database) async fn remove_spent(
        &self,
        segments: Vec<PathBuf>,
        ledgers: Ledgers,
    ) -> Result<bool> {
        for (log, known) in ledgers.iter() {
            if log.1 != self.context.shard_count && !known.segments.is_empty() {
                let path = self.options.layout.ledger(log.0, log.1);
                let ledger = Ledger::open(self.context.disk.clone(), &path).await?;
                let ids = known.segments.keys().copied().collect();
                if !may_go(ledger.record(vec![Entry::Released { ids }]).await)? {
                    return Ok(false);
                }
            }
        }
        commitlog::remove_segments(&self.context.disk, &segments).await?;
        let commitlogs = self.options.layout.commitlogs();
        for entry in self.context.disk.list(&commitlogs).await? {
            let is_foreign = layout::parse_log_name(&entry.name)
                .is_some_and(|(_, count)| count != self.context.shard_count);
            let path = commitlogs.join(&entry.name);
            if is_foreign && self.context.disk.list(&path).await?.is_empty() {
                self.context.disk.remove_directory(&path).await?;
            }
        }
        self.context.disk.sync_directory(&commitlogs).await?;
        Ok(true)
    }
}

/// Segments that the ledger could not let go stay for the next start.
fn may_go(recorded: Result<()>) -> Result<bool> {
    match recorded {
        Ok(()) => Ok(true),
        Err(error) if error.is_disk_full() => {
            tracing::warn!(%error, "spent commitlog segments stay until a start that finds room");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

//! Batches that write to several partitions, all or nothing.
//!
//! A batch is written to a file of its own before any part of it, and the file goes when all parts
//! are durable. What is there at a start is applied again: the parts have their timestamps, so that
//! changes nothing where they are there already.
//!
//! ```text
//! batches/<shard>-<number> := "tidegate-batch 1 <crc of the rest>\n", mutation*
//! mutation                 := u32 length (little-endian), binary form (`mutation/codec.rs`)
//! ```
//! Invariant: a file has its name only when it is whole and durable. Nothing of a batch is in a
//! commitlog before that. While a file is there no tombstone is purged: it may cover what a start
//! would bring back. Others may see a part of a batch before the rest.
//!
//! A batch for one partition needs no file: it is one mutation, and so one record.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use tokio::sync::oneshot;

use super::calls::{Under, Writing};
use super::database::Database;
use super::ring::Taking;
use super::shard::Shard;
use super::shard::call::{ApplyLogged, Asked};
use crate::admission::{LevelId, Terms};
use crate::checksum::crc32;
use crate::commitlog::Durability;
use crate::config::LOGGED_BYTES_MAX;
use crate::disk::{read_file, remove_if_there, write_file_atomically};
use crate::error::{Error, Result};
use crate::mutation::{Mutation, codec};
use crate::runtime;
use crate::schema::{PartitionKey, TableId};

const MAGIC: &str = "tidegate-batch 1 ";
/// Bytes of the first line: magic, eight hex digits and the line break.
const LINE_BYTES: usize = MAGIC.len() + 8 + 1;
/// Pause before parts that were refused are tried again; it doubles up to the maximum.
const RETRY: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Tries after which whoever waits is told that the rest comes later.
const TRIES_MAX: u32 = 8;

impl Database {
    /// Applies writes all or nothing, whatever happens meanwhile: those of one partition with one
    /// record, others through the log of batches. Done when all are as durable as the options
    /// demand. Readers may see a part of them before the rest.
    ///
    /// Load shedding counts them as one write; rate limits of partitions do not count them.
    ///
    /// Errors: as [`apply`](Self::apply), and nothing was done; `Unavailable` where the batch is
    /// logged and some parts are not there yet: they come when the cause is mended, or at the next
    /// start.
    pub fn apply_logged(&self, mutations: Vec<Mutation>) -> BoxFuture<'static, Result<()>> {
        self.under(Terms::default()).apply_logged(mutations)
    }

    /// Applies writes, those of one partition together: they are seen whole or not at all. Those of
    /// several partitions are independent, as those of [`apply_many`](Self::apply_many).
    ///
    /// Errors: as `apply_many`.
    pub fn apply_by_partition(&self, mutations: Vec<Mutation>) -> Writing {
        self.under(Terms::default()).apply_by_partition(mutations)
    }

    async fn run_batch(
        self,
        shard: Rc<Shard>,
        (parts, asked): (Vec<Mutation>, Asked),
        sender: oneshot::Sender<Result<()>>,
    ) {
        let level = asked.terms.level;
        let logged = shard.options.logged_batches.clone();
        logged.count.fetch_add(1, Ordering::Relaxed);
        let path = match shard.log_batch(&parts, &asked).await {
            Ok(path) => path,
            Err(error) => {
                logged.count.fetch_sub(1, Ordering::Relaxed);
                // Nobody waits any more when the caller has gone.
                return drop(sender.send(Err(error)));
            }
        };
        let mut sender = Some(sender);
        let tell = |told: Result<()>| drop(sender.take().map(|sender| sender.send(told)));
        self.complete(&shard, (parts, path), level, tell).await;
    }

    /// Applies a batch that is logged, and tries again what does not succeed; whoever waits is told
    /// how far that is. What only another start can mend ends it.
    async fn complete(
        &self,
        shard: &Rc<Shard>,
        (parts, path): (Vec<Mutation>, PathBuf),
        level: LevelId,
        mut tell: impl FnMut(Result<()>),
    ) {
        let (mut tries, mut pause) = (0, RETRY);
        while let Err(error) = self.apply_parts(&parts, level).await {
            tries += 1;
            let is_over =
                matches!(error, Error::Closed | Error::Poisoned { .. } | Error::Invalid(_));
            if is_over || tries == TRIES_MAX {
                let file = path.display();
                tracing::warn!(%file, %error, "a batch is applied in part; the rest comes later");
                tell(Err(Error::Unavailable(format!(
                    "the batch is logged, and a part of it is not applied yet: {error}; the rest \
                     comes when the cause is mended, or when the database is opened again"
                ))));
            }
            if is_over || shard.has_closed_after(pause).await {
                return;
            }
            pause = (pause * 2).min(RETRY_MAX);
        }
        tell(Ok(()));
        // One that stays comes again at the next start, so no tombstone is purged meanwhile.
        while let Err(error) = self.forget_batch(shard, &parts, path.clone()).await {
            let file = path.display();
            tracing::warn!(%file, %error, "a batch is done, and its file stays for now");
            if shard.has_closed_after(RETRY_MAX).await {
                return;
            }
        }
        self.logged_batches().count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Applies the parts of a batch that is logged, as work of a service level. Parts of tables
    /// that are gone are left out.
    async fn apply_parts(&self, parts: &[Mutation], level: LevelId) -> Result<()> {
        let catalog = self.catalog();
        let mut there = Vec::new();
        for part in parts {
            let Some(schema) = catalog.all_tables().find(|table| table.id == part.table) else {
                continue;
            };
            let mut part = part.clone();
            if part.leave_out_dropped(schema) {
                there.push(part);
            }
        }
        let (own, others) = self.by_node(there);
        let far = self.apply_far(others, Taking::Logged(level));
        let (own, far) = futures::join!(self.apply_parts_here(own, level), far);
        own.and(far)
    }

    async fn apply_parts_here(&self, parts: Vec<Mutation>, level: LevelId) -> Result<()> {
        let mut by_shard: Vec<Vec<Mutation>> = vec![Vec::new(); self.shard_count() as usize];
        for part in parts {
            by_shard[self.shard_of(&part.key) as usize].push(part);
        }
        let by_shard = (0..).zip(by_shard).filter(|(_, parts)| !parts.is_empty());
        let asked =
            by_shard.map(|(shard, parts)| self.handle(shard).ask(ApplyLogged(parts, level)));
        // Each is tried, also after one that failed.
        let answers = futures::future::join_all(asked).await;
        answers.into_iter().try_for_each(Result::flatten)
    }

    /// Applies parts of a batch that another node has logged, so that nothing of them can be lost.
    pub(super) async fn apply_durably(&self, parts: Vec<Mutation>, level: LevelId) -> Result<()> {
        let keys = parts.iter().map(|part| self.shard_of(&part.key)).collect();
        self.apply_parts_here(parts, level).await?;
        match self.inner.options.durability {
            Durability::Sync => Ok(()),
            _ => self.sync_shards(keys).await,
        }
    }

    /// Makes what these shards have acknowledged durable.
    async fn sync_shards(&self, mut shards: Vec<u32>) -> Result<()> {
        shards.sort_unstable();
        shards.dedup();
        let sync = |shard: Rc<Shard>| async move { shard.commitlog()?.sync().await }.boxed_local();
        let synced = shards
            .into_iter()
            .map(|shard| async move { self.handle(shard).call("sync", sync).await? });
        try_join_all(synced).await?;
        Ok(())
    }

    /// Removes the file of a batch, once nothing of it can be lost.
    async fn forget_batch(
        &self,
        shard: &Rc<Shard>,
        parts: &[Mutation],
        path: PathBuf,
    ) -> Result<()> {
        if shard.options.durability != Durability::Sync {
            // Other nodes have made theirs durable before they said that they have them.
            self.sync_shards(parts.iter().map(|part| self.shard_of(&part.key)).collect()).await?;
        }
        // A snapshot that is being made may need it.
        let _unneeded = shard.options.logged_batches.files.read().await;
        shard.remove_batch(path).await
    }

    /// Applies the batches that an earlier run logged and did not end. One that cannot be applied
    /// is tried again while the database is open, and the log says why.
    ///
    /// Errors: `Io`, `Closed`.
    pub(super) async fn replay_batches(&self) -> Result<()> {
        let logged = self.logged_batches();
        let load = |shard: Rc<Shard>| async move { shard.load_batches().await }.boxed_local();
        for (path, parts) in self.handle(0).call("load batches", load).await?? {
            let file = path.display().to_string();
            assert!(
                logged.count.load(Ordering::Relaxed) > 0,
                "tombstones are purged before a replay"
            );
            if let Err(error) = self.apply_parts(&parts, LevelId::default()).await {
                tracing::error!(file, %error, "a batch of an earlier run is not applied yet");
                logged.count.fetch_add(1, Ordering::Relaxed);
                // Say because another node is down: it comes when that is back.
                let database = self.clone();
                let complete = move |shard: Rc<Shard>| {
                    let of_run = (parts, path);
                    async move {
                        database.complete(&shard, of_run, LevelId::default(), |_| ()).await;
                    }
                    .boxed_local()
                };
                self.handle(0).spawn("batch", complete).await?;
                continue;
            }
            tracing::info!(file, parts = parts.len(), "a batch of an earlier run is applied");
            let database = self.clone();
            let forget = move |shard: Rc<Shard>| {
                async move { database.forget_batch(&shard, &parts, path).await }.boxed_local()
            };
            if let Err(error) = self.handle(0).call("forget batch", forget).await? {
                tracing::warn!(file, %error, "a batch is done, and its file stays to the next start");
                logged.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        // That of the opening itself.
        let before = logged.count.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "batches of earlier runs are replayed twice");
        Ok(())
    }
}

impl Under<'_> {
    /// As [`Database::apply_logged`]. A batch that its shard comes to too late is refused; one that
    /// is logged does not end with the deadline.
    pub fn apply_logged(&self, mutations: Vec<Mutation>) -> BoxFuture<'static, Result<()>> {
        let (database, mut asked) = (self.database.clone(), self.asked());
        async move {
            let mut parts = by_partition(mutations);
            let terms = asked.terms;
            asked.waits.start();
            if parts.len() < 2 {
                return match parts.pop() {
                    Some(only) => database.under(terms).apply(only).await,
                    None => Ok(()),
                };
            }
            let coordinator = database.handle(database.shard_of(&parts[0].key)).clone();
            // A task of its own: a batch that has begun must not end with its caller.
            let (sender, told) = oneshot::channel();
            let work = move |shard: Rc<Shard>| {
                let batch = database.run_batch(shard, (parts, asked), sender);
                runtime::in_group(terms.level.0, batch).boxed_local()
            };
            coordinator.spawn("batch", work).await?;
            told.await.map_err(|_| Error::Closed)?
        }
        .boxed()
    }

    /// As [`Database::apply_by_partition`].
    pub fn apply_by_partition(&self, mutations: Vec<Mutation>) -> Writing {
        self.apply_many(by_partition(mutations))
    }
}

impl Shard {
    /// Makes a batch durable; nothing of it is in a commitlog yet.
    ///
    /// Errors: those of a write that is refused, or that its shard came to too late; `Io`.
    async fn log_batch(&self, parts: &[Mutation], asked: &Asked) -> Result<PathBuf> {
        self.check_open()?;
        self.check_write_wait(&asked.terms, asked.waits.passed_ns())?;
        self.admission.admit_write()?;
        for part in parts {
            let table = self.table(part.table)?;
            table.check_writable()?;
            table.check(part)?;
        }
        let content = encode(parts, self.commitlog()?.mutation_bytes_max())?;
        let (disk, layout) = (&self.context.disk, &self.options.layout);
        let directory = layout.batches();
        // Files of batches go soon, so the folder is mostly empty; once a run it is made sure of.
        if !self.has_batches_folder.get() {
            disk.create_directories(&directory).await?;
            disk.sync_directory(layout.root()).await?;
            self.has_batches_folder.set(true);
        }
        let number = self.options.timestamps.next_us();
        let path = layout.batch(self.context.shard, number);
        if let Err(error) = write_file_atomically(&**disk, &path, &content).await {
            // It may have got its name all the same, and would be applied at the next start.
            self.remove_batch(path).await?;
            return Err(error);
        }
        Ok(path)
    }

    /// Waits, unless the shard is closed meanwhile, which it says.
    async fn has_closed_after(&self, pause: Duration) -> bool {
        let closed = self.closed.notified();
        if self.closing.get() {
            return true;
        }
        tokio::select! {
            biased;
            () = closed => true,
            () = self.context.sleep(pause) => false,
        }
    }

    async fn remove_batch(&self, path: PathBuf) -> Result<()> {
        let disk = &self.context.disk;
        remove_if_there(&**disk, &path).await?;
        disk.sync_directory(&self.options.layout.batches()).await
    }

    /// The batches that earlier runs left, in the order in which they came.
    async fn load_batches(&self) -> Result<Vec<(PathBuf, Vec<Mutation>)>> {
        let (disk, directory) = (&self.context.disk, self.options.layout.batches());
        let mut batches = Vec::new();
        for entry in disk.list(&directory).await? {
            let path = directory.join(&entry.name);
            if entry.name.ends_with(".tmp") {
                // It never got its name: nothing of it was applied.
                remove_if_there(&**disk, &path).await?;
                continue;
            }
            let content = read_file(&**disk, &path).await?;
            match decode(&content) {
                Some(parts) => batches.push((entry.name, path, parts)),
                None => {
                    let file = path.display();
                    tracing::error!(
                        %file,
                        "a logged batch is damaged: parts of it may be missing; remove the file \
                         when that is mended"
                    );
                }
            }
        }
        batches.sort_by_key(|(name, ..)| {
            name.rsplit_once('-').and_then(|(_, number)| number.parse::<i64>().ok())
        });
        Ok(batches.into_iter().map(|(_, path, parts)| (path, parts)).collect())
    }
}

/// The same writes, one for each partition of a table, in the order in which these come first.
fn by_partition(mutations: Vec<Mutation>) -> Vec<Mutation> {
    let mut places: HashMap<(TableId, PartitionKey), usize> = HashMap::new();
    let mut merged: Vec<Mutation> = Vec::new();
    for mutation in mutations {
        match places.entry((mutation.table, mutation.key.clone())) {
            Entry::Occupied(place) => merged[*place.get()].add(mutation),
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(mutation);
            }
        }
    }
    merged
}

/// Errors: `Invalid` where a part, or all of them, are too large.
fn encode(parts: &[Mutation], part_bytes_max: usize) -> Result<Vec<u8>> {
    let mut content = vec![0; LINE_BYTES];
    for part in parts {
        let start = content.len();
        content.extend_from_slice(&[0; 4]);
        codec::encode(part, &mut content);
        let bytes = content.len() - start - 4;
        if bytes > part_bytes_max || content.len() > LOGGED_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the batch is too large: a partition takes {part_bytes_max} bytes at most, and all \
                 of them {LOGGED_BYTES_MAX}; write less at once"
            )));
        }
        content[start..start + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
    }
    let line = format!("{MAGIC}{:08x}\n", crc32(&content[LINE_BYTES..]));
    assert_eq!(line.len(), LINE_BYTES, "the first line of a batch has another length");
    content[..LINE_BYTES].copy_from_slice(line.as_bytes());
    debug_assert_eq!(decode(&content).as_deref(), Some(parts), "a batch is read back otherwise");
    Ok(content)
}

/// `None` where the content is not what was written.
fn decode(content: &[u8]) -> Option<Vec<Mutation>> {
    let (line, mut rest) = content.split_at_checked(LINE_BYTES)?;
    if line != format!("{MAGIC}{:08x}\n", crc32(rest)).as_bytes() {
        return None;
    }
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk()?;
        let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        parts.push(codec::decode(part).ok()?);
        rest = behind;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Liveness, Row};
    use crate::schema::ClusteringKey;

    fn write(table: u128, key: u8, row: u8) -> Mutation {
        let mut mutation = Mutation::new(TableId(table), PartitionKey::from_bytes([key]));
        let content = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        mutation.rows.push((ClusteringKey::from_ordered([row]), content));
        mutation
    }

    #[test]
    fn writes_to_one_partition_of_one_table_become_one_and_no_others_do() {
        let all = [(1, 1, 1), (2, 1, 2), (1, 2, 3), (1, 1, 4), (2, 1, 5), (1, 3, 6)];
        let all = all.map(|(table, key, row)| write(table, key, row));
        let merged = by_partition(Vec::from(all));
        let rows = |part: &Mutation| -> Vec<u8> {
            part.rows.iter().map(|(key, _)| key.as_ordered()[0]).collect()
        };
        let told = merged.iter().map(|part| (part.table.0, part.key.as_bytes()[0], rows(part)));
        // In the order in which the partitions came first.
        let wanted = [(1, 1, vec![1, 4]), (2, 1, vec![2, 5]), (1, 2, vec![3]), (1, 3, vec![6])];
        assert_eq!(told.collect::<Vec<_>>(), wanted);
        assert!(by_partition(Vec::new()).is_empty());
    }

    #[test]
    fn a_file_of_a_batch_is_read_back_whole_or_not_at_all() {
        let parts = [write(1, 1, 1), write(2, 3, 4), write(1, 2, 9)];
        let file = encode(&parts, 1000).unwrap();
        assert_eq!(decode(&file).as_deref(), Some(&parts[..]));
        for at in 0..file.len() {
            assert!(decode(&file[..at]).is_none(), "{at} bytes are left");
            for bit in [1, 0x20, 0x80] {
                let mut changed = file.clone();
                changed[at] ^= bit;
                assert!(decode(&changed).is_none(), "bit {bit} of byte {at} is another one");
            }
        }
        let mut longer = file;
        longer.push(0);
        assert!(decode(&longer).is_none(), "something stands behind it");
    }

    #[test]
    fn each_part_of_a_batch_has_as_many_bytes_as_a_partition_takes_at_most() {
        let parts = [write(1, 1, 1), write(2, 3, 4), write(1, 2, 9)];
        let mut record = Vec::new();
        codec::encode(&parts[0], &mut record);
        let bytes = record.len();
        for (most, fits) in [(bytes - 1, false), (bytes, true), (bytes + 1, true)] {
            match encode(&parts, most) {
                Ok(file) => assert!(fits && decode(&file).is_some(), "{most}"),
                Err(error) => {
                    let wanted = format!("a partition takes {most} bytes at most");
                    assert!(!fits && error.to_string().contains(&wanted), "{error}");
                }
            }
        }
    }
}

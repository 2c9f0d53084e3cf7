//! What a policy learnt, handed over: from its shadow, its predecessor, or the last run.

use super::Eviction;
use crate::disk::{read_file, write_file_atomically};
use crate::error::Result;
use crate::governance::origin::Origin;
use crate::policy::{EvictionPolicy, PolicySnapshot, SNAPSHOT_FILE_BYTES_MAX};

impl Eviction {
    /// Hands over what a policy of the same name and schema learnt: its own shadow, the one in
    /// charge, or that of the last run. A state that is refused means a cold start, never an error.
    pub(super) async fn hand_over(
        &self,
        origin: &Origin,
        policy: &mut Box<dyn EvictionPolicy>,
    ) -> Result<String> {
        let (kept, bad) = match self.kept.borrow_mut().take() {
            Some(Ok(kept)) => (Some(kept), None),
            Some(Err(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        let schema = policy.state_schema();
        if schema == 0 {
            return Ok("none, it keeps no state".into());
        }
        let fits = |snapshot: &PolicySnapshot| snapshot.fits(policy.name(), schema);
        let shadow = self.parts.cache.policy_status().shadow;
        let is_promoted = shadow.is_some_and(|shadow| shadow.identity == origin.identity());
        let of_shadow = || is_promoted.then(|| self.parts.cache.snapshot_shadow()).flatten();
        let found = kept
            .filter(fits)
            .map(|kept| (kept, "the last run"))
            .or_else(|| of_shadow().filter(fits).map(|found| (found, "its shadow")))
            .or_else(|| {
                let found = self.parts.cache.snapshot_policy().filter(fits);
                found.map(|found| (found, "the policy before"))
            });
        let Some((snapshot, source)) = found else {
            return Ok(match bad {
                Some(reason) => format!("cold, the file of the last run is unusable: {reason}"),
                None => "cold, there was none of its name and schema".into(),
            });
        };
        let bytes = snapshot.state.len();
        let refusal = match policy.restore(schema, &snapshot.state) {
            Ok(Ok(())) => return Ok(format!("{bytes} bytes of {source}")),
            Ok(Err(reason)) => reason,
            Err(failure) => failure.to_string(),
        };
        // Whatever it took in is gone with the instance.
        *policy = self.instantiate_for_cache(origin).await?;
        let (shard, policy) = (self.parts.context.shard, origin.identity().name);
        tracing::warn!(shard, policy, reason = refusal, "state of {source} refused: a cold start");
        Ok(format!("cold, {bytes} bytes of {source} were refused: {refusal}"))
    }

    /// Takes up what the policy of the last run left, if the file is good. It is used once.
    pub(super) async fn load_kept(&self) {
        let (shard, count) = (self.parts.context.shard, self.parts.context.shard_count);
        let path = self.parts.files.state(shard, count);
        let read = match self.parts.context.disk.list(self.parts.files.folder()).await {
            Ok(entries) => {
                let name = path.file_name().and_then(|name| name.to_str());
                let is_there = entries.iter().any(|entry| Some(entry.name.as_str()) == name);
                if !is_there {
                    return;
                }
                read_file(&*self.parts.context.disk, &path).await
            }
            Err(error) => Err(error),
        };
        let kept = match read {
            Ok(file) => PolicySnapshot::decode(&file),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = &kept {
            let path = path.display();
            tracing::warn!(shard, %path, reason, "a policy's state is unusable: it starts cold");
        }
        *self.kept.borrow_mut() = Some(kept);
        if let Err(error) = self.parts.context.disk.remove(&path).await {
            tracing::warn!(shard, %error, "a policy's state was used and stays on disk");
        }
    }

    /// Leaves what the policy in charge learnt for the next run. A failure costs a cold start.
    pub(super) async fn store(&self) {
        let Some(snapshot) = self.parts.cache.snapshot_policy() else { return };
        let (shard, count) = (self.parts.context.shard, self.parts.context.shard_count);
        let path = self.parts.files.state(shard, count);
        let file = snapshot.encode();
        if file.len() > SNAPSHOT_FILE_BYTES_MAX {
            tracing::warn!(shard, bytes = file.len(), "a policy's state is too large to keep");
            return;
        }
        if let Err(error) = write_file_atomically(&*self.parts.context.disk, &path, &file).await {
            tracing::warn!(shard, %error, "a policy's state was not kept");
        }
    }
}

//! Statements that change how the engine runs: policies, the cache, flushes, recorded traces.

use std::path::Path;

use tidegate_engine::RolledBack;

use super::error::{QueryError, Result, Span};
use super::explain_policy::explain_policy;
use super::outcome::Outcome;
use super::parse::{CreatePolicy, Name, PolicyMode, SetCachePolicy, TableName};
use super::replay::read_component;
use super::session::Session;

impl Session {
    pub(super) async fn create_policy(&self, policy: &CreatePolicy) -> Result<Outcome> {
        self.check_local_files().map_err(|error| error.at(policy.file_span))?;
        let name = &policy.name.value;
        let is_there = self.database.catalog().policies().any(|known| known.name == *name);
        if policy.if_not_exists && is_there {
            return Ok(Outcome::message(format!("Policy {name} exists already.")));
        }
        let component =
            read_component(Path::new(&policy.file)).map_err(|error| error.at(policy.file_span))?;
        let info = self
            .database
            .create_policy(name, component, policy.parameters.clone(), policy.sha256.clone())
            .await
            .map_err(|error| QueryError::from(error).at(policy.name.span))?;
        Ok(Outcome::message(format!(
            "Policy {} {} created ({}).",
            info.name, info.version, info.digest
        )))
    }

    pub(super) async fn drop_policy(&self, name: &Name, if_exists: bool) -> Result<Outcome> {
        self.database.drop_policy(&name.value, if_exists).await?;
        Ok(Outcome::message(format!("Policy {} dropped.", name.value)))
    }

    pub(super) async fn set_cache_policy(&self, set: &SetCachePolicy) -> Result<Outcome> {
        let database = &self.database;
        let value = set.name.as_ref().map(|name| name.value.as_str());
        let shown = value.unwrap_or("native");
        let placed = |error| at_name(QueryError::from(error), set.name.as_ref());
        let message = match set.mode {
            PolicyMode::Active => {
                database.set_cache_policy(value).await.map_err(placed)?;
                format!("Eviction policy set to {shown}.")
            }
            PolicyMode::Canary => {
                let value = value.unwrap_or("lru");
                let shards = database.canary_cache_policy(value).await.map_err(placed)?;
                let all = database.shard_count();
                format!("Canary of {value} started on {shards} of {all} shards.")
            }
            PolicyMode::Shadow { sample } => {
                let rate = database.shadow_cache_policy(value, sample).await.map_err(placed)?;
                match value {
                    Some(name) => format!("Shadow of {name} started on one key in {rate}."),
                    None => "Shadow ended.".to_owned(),
                }
            }
        };
        let note = "SHOW POLICIES tells how the canary fares, and what it came to";
        let note = matches!(set.mode, PolicyMode::Canary).then(|| note.to_owned());
        Ok(Outcome { note, ..Outcome::message(message) })
    }

    pub(super) async fn roll_back_policy(&self) -> Result<Outcome> {
        let RolledBack { policy, was_kept } = self.database.roll_back_cache_policy().await?;
        let how = if was_kept { "" } else { "; a new instance took over" };
        Ok(Outcome::message(format!("Eviction policy set back to {policy}{how}.")))
    }

    pub(super) async fn explain_policy(&self, name: &Name) -> Result<Outcome> {
        let report = self.database.explain_policy(&name.value).await;
        explain_policy(&report.map_err(|error| QueryError::from(error).at(name.span))?)
    }

    pub(super) async fn set_admission_policy(&self, name: Option<&Name>) -> Result<Outcome> {
        let set = self.database.set_admission_policy(value_of(name)).await;
        set.map_err(|error| at_name(error.into(), name))?;
        Ok(Outcome::message(match value_of(name) {
            Some(value) => format!("Cache admission set to {value}."),
            None => "Cache admission set to none: the cache keeps all that is read.".to_owned(),
        }))
    }

    pub(super) async fn set_rate_policy(&self, name: Option<&Name>) -> Result<Outcome> {
        let set = self.database.set_rate_policy(value_of(name)).await;
        set.map_err(|error| at_name(error.into(), name))?;
        let value = value_of(name).unwrap_or("native");
        Ok(Outcome::message(format!("Rate limiter set to {value}.")))
    }

    pub(super) async fn set_read_admission_policy(&self, name: Option<&Name>) -> Result<Outcome> {
        let set = self.database.set_read_admission_policy(value_of(name)).await;
        set.map_err(|error| at_name(error.into(), name))?;
        let value = value_of(name).unwrap_or("native");
        Ok(Outcome::message(format!("Read admission set to {value}.")))
    }

    pub(super) async fn set_load_shedding_policy(&self, name: Option<&Name>) -> Result<Outcome> {
        let set = self.database.set_load_shedding_policy(value_of(name)).await;
        set.map_err(|error| at_name(error.into(), name))?;
        Ok(Outcome::message(match value_of(name) {
            Some(value) => format!("Load shedding set to {value}."),
            None => "Load shedding is off.".to_owned(),
        }))
    }

    pub(super) async fn set_cache_bytes(&self, bytes: usize) -> Result<Outcome> {
        self.database.set_cache_bytes(bytes).await?;
        Ok(Outcome::message(format!("Cache capacity set to {bytes} bytes a shard.")))
    }

    /// Of one table, or of all.
    pub(super) async fn flush(&self, name: Option<&TableName>) -> Result<Outcome> {
        let table = name.map(|name| self.table(name)).transpose()?;
        self.database.flush(table.as_ref().map(|table| table.id)).await?;
        Ok(Outcome::message(match table {
            Some(table) => format!("Table {} flushed.", table.full_name()),
            None => "All tables flushed.".to_owned(),
        }))
    }

    /// Of one table, or of all.
    pub(super) async fn invalidate_cache(&self, name: Option<&TableName>) -> Result<Outcome> {
        let table = name.map(|name| self.table(name)).transpose()?;
        self.database.invalidate_cache(table.as_ref().map(|table| table.id)).await?;
        let what = table.map_or("all tables".to_owned(), |table| table.full_name());
        Ok(Outcome::message(format!("Cached rows of {what} dropped.")))
    }

    pub(super) async fn record_trace(
        &self,
        (file, span): (&str, Span),
        reads_max: Option<u64>,
    ) -> Result<Outcome> {
        self.check_local_files().map_err(|error| error.at(span))?;
        let begun = self.database.record_trace(file.into(), reads_max).await;
        begun.map_err(|error| QueryError::from(error).at(span))?;
        let end = match reads_max {
            Some(reads) => format!("{reads} reads or RECORD TRACE STOP"),
            None => "RECORD TRACE STOP".to_owned(),
        };
        Ok(Outcome::message(format!("Recording the caches' reads to {file} until {end}.")))
    }

    pub(super) async fn stop_trace(&self) -> Result<Outcome> {
        let summary = self.database.stop_recording().await?;
        Ok(Outcome::message(format!(
            "{} holds {} reads in {} bytes; {} were lost.",
            summary.path.display(),
            summary.requests,
            summary.bytes,
            summary.lost
        )))
    }
}

fn value_of(name: Option<&Name>) -> Option<&str> {
    name.map(|name| name.value.as_str())
}

fn at_name(error: QueryError, name: Option<&Name>) -> QueryError {
    match name {
        Some(name) => error.at(name.span),
        None => error,
    }
}

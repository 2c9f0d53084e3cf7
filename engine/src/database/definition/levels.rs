//! Creates, changes and drops service levels.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::admission::{DEFAULT_LEVEL, LevelId, LevelOptions, LevelStatus, ServiceLevel};
use crate::config::LEVELS_MAX;
use crate::database::catalog::check_name;
use crate::database::database::Database;
use crate::database::shard::Shard;
use crate::error::{Error, Result};
use crate::runtime;

impl Database {
    /// Creates a service level.
    ///
    /// Errors: `Exists`; `Invalid` for an impossible name or option, or where there are
    /// [`LEVELS_MAX`] levels; `Io`.
    pub fn create_service_level(
        &self,
        name: &str,
        options: LevelOptions,
        if_not_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            check_name("service level", &name)?;
            check_reserved(&name)?;
            options.check()?;
            let catalog = database.catalog();
            if catalog.service_level(&name).is_some() {
                return match if_not_exists {
                    true => Ok(()),
                    false => Err(Error::Exists { kind: "service level", name }),
                };
            }
            if catalog.service_levels().count() > LEVELS_MAX {
                return Err(Error::invalid(format!(
                    "there are {LEVELS_MAX} service levels beside '{DEFAULT_LEVEL}', which is most: \
                     drop one first (DROP SERVICE LEVEL x)"
                )));
            }
            let mut changed = catalog.changed();
            let level = ServiceLevel { id: changed.fresh_level_id(), options };
            changed.set_service_level(name, level);
            database.publish(changed).await?;
            database.apply_service_levels().await
        })
    }

    /// Changes what is set of a service level. Returns what is set then.
    ///
    /// Errors: `NotFound`; `Invalid` for an impossible option; `Io`.
    pub fn alter_service_level(
        &self,
        name: &str,
        change: impl FnOnce(&mut LevelOptions) + Send + 'static,
    ) -> BoxFuture<'static, Result<LevelOptions>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            check_reserved(&name)?;
            let catalog = database.catalog();
            let Some(mut level) = catalog.service_level(&name) else {
                return Err(Error::NotFound { kind: "service level", name });
            };
            change(&mut level.options);
            level.options.check()?;
            let mut changed = catalog.changed();
            changed.set_service_level(name, level);
            database.publish(changed).await?;
            database.apply_service_levels().await?;
            Ok(level.options)
        })
    }

    /// Drops a service level. What runs under it goes on to its end; later statements that name it
    /// are refused.
    ///
    /// Errors: `NotFound`; `Invalid` for the level that is there always; `Io`.
    pub fn drop_service_level(
        &self,
        name: &str,
        if_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            check_reserved(&name)?;
            let catalog = database.catalog();
            if catalog.service_level(&name).is_none() {
                return match if_exists {
                    true => Ok(()),
                    false => Err(Error::NotFound { kind: "service level", name }),
                };
            }
            let mut changed = catalog.changed();
            changed.remove_service_level(&name);
            database.publish(changed).await?;
            database.apply_service_levels().await
        })
    }

    /// Tells all shards what the catalog says of service levels.
    pub(in crate::database) async fn apply_service_levels(&self) -> Result<()> {
        let catalog = self.catalog();
        let others = catalog.service_levels().filter(|(_, level)| level.id != LevelId::DEFAULT);
        let levels: Vec<(LevelId, Arc<str>, LevelOptions)> =
            others.map(|(name, level)| (level.id, name.into(), level.options)).collect();
        let group =
            |(level, _, options): &(LevelId, Arc<str>, LevelOptions)| (level.0, options.shares());
        let groups: Vec<(u64, u32)> = levels.iter().map(group).collect();
        let set = move |shard: &Shard| {
            shard.admission.set_levels(&levels);
            runtime::set_groups(&groups);
        };
        self.of_shards("set service levels", set).await.map(drop)
    }

    /// How the reads of each service level stand, of all shards together, by name.
    ///
    /// Errors: `Closed`.
    pub async fn service_level_report(&self) -> Result<Vec<(String, LevelOptions, LevelStatus)>> {
        let catalog = self.catalog();
        let ids: Vec<LevelId> = catalog.service_levels().map(|(_, level)| level.id).collect();
        let of_shard = move |shard: &Shard| -> Vec<LevelStatus> {
            ids.iter().map(|id| shard.admission.level_status(*id)).collect()
        };
        let shards = self.of_shards("service level report", of_shard).await?;
        let sum = |at: usize| {
            let of_level = shards.iter().map(|levels| levels[at]);
            of_level.fold(LevelStatus::default(), LevelStatus::and)
        };
        let levels = catalog.service_levels().enumerate();
        let rows = levels.map(|(at, (name, level))| (name.to_owned(), level.options, sum(at)));
        Ok(rows.collect())
    }
}

/// Errors: `Invalid` for the level of what names none.
fn check_reserved(name: &str) -> Result<()> {
    match name == DEFAULT_LEVEL {
        false => Ok(()),
        true => Err(Error::invalid(format!(
            "service level '{DEFAULT_LEVEL}' is that of whatever names none: it is there always and \
             stays as it is; create another one"
        ))),
    }
}

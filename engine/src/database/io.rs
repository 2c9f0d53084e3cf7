//! Classes of requests to the disk: what is set of them, and how they fare.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::database::Database;
use super::report::IoReport;
use super::shard::Shard;
use crate::config::IO_SHARES_MAX;
use crate::error::{Error, Result};
use crate::io::{Class, ClassSettings};

impl Database {
    /// Changes shares and bandwidth of a class of I/O, for requests from now on and after a
    /// restart. Returns what it has then.
    ///
    /// Errors: `Invalid` for shares that are not 1 to 1000, and for a bandwidth of 0; `Io`.
    pub fn alter_io_class(
        &self,
        class: Class,
        change: impl FnOnce(&mut ClassSettings) + Send + 'static,
    ) -> BoxFuture<'static, Result<ClassSettings>> {
        let database = self.clone();
        self.uninterrupted(async move {
            let mut settings = database.io_settings(class);
            change(&mut settings);
            if !(1..=IO_SHARES_MAX).contains(&settings.shares) {
                let message = format!("shares are 1 to {IO_SHARES_MAX}, not {}", settings.shares);
                return Err(Error::invalid(message));
            }
            if settings.bandwidth == Some(0) {
                return Err(Error::invalid("a class without bandwidth would wait for ever"));
            }
            let mut changed = database.catalog().changed();
            changed.io_classes.insert(class.name().to_owned(), settings);
            database.publish(changed).await?;
            database.apply_io(class, settings).await?;
            Ok(settings)
        })
    }

    /// What is set of a class.
    fn io_settings(&self, class: Class) -> ClassSettings {
        let catalog = self.catalog();
        let set = catalog.io_classes.get(class.name()).copied();
        set.unwrap_or(ClassSettings { shares: class.default_shares(), bandwidth: None })
    }

    async fn apply_io(&self, class: Class, settings: ClassSettings) -> Result<()> {
        let set = move |shard: &Shard| shard.context.io.scheduler().set(class, settings);
        self.of_shards("set class of I/O", set).await.map(drop)
    }

    /// Brings back what the catalog says of classes of I/O.
    pub(super) async fn restore_io(&self) -> Result<()> {
        for class in Class::ALL {
            if self.catalog().io_classes.contains_key(class.name()) {
                self.apply_io(class, self.io_settings(class)).await?;
            }
        }
        Ok(())
    }

    /// The I/O of each shard: one row a class.
    ///
    /// Errors: `Closed`.
    pub fn io_report(&self) -> BoxFuture<'_, Result<Vec<IoReport>>> {
        async move {
            let of_shard = |shard: &Shard| {
                let queue = &shard.context.io;
                let scheduler = queue.scheduler();
                let in_force = |class| ClassSettings {
                    shares: queue.shares(class),
                    ..scheduler.settings(class)
                };
                let settings = Class::ALL.map(in_force);
                (queue.stats(), settings, scheduler.is_measured())
            };
            let mut reports = Vec::new();
            let all = self.of_shards("I/O report", of_shard).await?;
            for (shard, (stats, settings, is_measured)) in (0..).zip(all) {
                let classes = Class::ALL.into_iter().zip(settings).zip(stats);
                let report = |((class, settings), stats)| IoReport {
                    shard,
                    class,
                    settings,
                    is_measured,
                    stats,
                };
                reports.extend(classes.map(report));
            }
            Ok(reports)
        }
        .boxed()
    }
}

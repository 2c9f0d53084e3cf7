//! The keeper of an open database's catalog, in memory and on disk.
//!
//! Invariant: a catalog is stored before anybody sees it, except for attached tables, which no file
//! has.

use std::rc::Rc;
use std::sync::{Arc, RwLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Mutex, MutexGuard, oneshot};

use super::catalog::Catalog;
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::governance::{Keeper, Wishes};
use crate::runtime::ShardHandle;

/// See the head of this file.
pub(super) struct CatalogKeeper {
    /// The one that stores it.
    shard: ShardHandle<Shard>,
    catalog: RwLock<Arc<Catalog>>,
    /// Held by a change of the catalog, and while shards close.
    change: Arc<Mutex<()>>,
}

impl CatalogKeeper {
    /// Keeps a catalog that was loaded by `shard`, number 0.
    pub(super) fn new(shard: ShardHandle<Shard>, catalog: Catalog) -> Self {
        CatalogKeeper { shard, catalog: RwLock::new(Arc::new(catalog)), change: Arc::default() }
    }

    /// The catalog as of now.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().expect("no reader or writer of the catalog panics").clone()
    }

    /// Stores a changed catalog, then lets everyone see it.
    pub(super) async fn publish(&self, catalog: Catalog) -> Result<()> {
        self.store(&catalog).await?;
        self.replace(catalog);
        Ok(())
    }

    /// Stores a changed catalog, which `replace` lets everyone see.
    pub(super) async fn store(&self, catalog: &Catalog) -> Result<()> {
        let (stored, before) = (catalog.clone(), self.catalog());
        let store = move |shard: Rc<Shard>| {
            async move { shard.store_catalog(&stored, Some(&before)).await }.boxed_local()
        };
        self.shard.call("store catalog", store).await?
    }

    /// Lets everyone see a changed catalog.
    pub(super) fn replace(&self, catalog: Catalog) {
        *self.catalog.write().expect("no reader or writer of the catalog panics") =
            Arc::new(catalog);
    }

    /// Runs a change of the catalog as a job of shard 0, after those before it and to its end, also
    /// when the caller stops waiting: what disk and memory say must not part.
    ///
    /// Errors: those of `change`; `Closed`.
    pub(super) fn uninterrupted<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (shard, lock) = (self.shard.clone(), self.change.clone());
        let change = change.boxed();
        async move {
            let (sender, changed) = oneshot::channel();
            let work = |_| {
                let work = async move {
                    let _change = lock.lock().await;
                    // Nobody waits any more when the caller has gone.
                    drop(sender.send(change.await));
                };
                work.boxed_local()
            };
            shard.spawn("change", work).await?;
            changed.await.map_err(|_| Error::Closed)?
        }
        .boxed()
    }

    /// Keeps changes waiting.
    pub(super) async fn pause(&self) -> MutexGuard<'_, ()> {
        self.change.lock().await
    }
}

impl Keeper for CatalogKeeper {
    fn wishes(&self) -> Wishes {
        self.catalog().wishes.clone()
    }

    fn keep(&self, wishes: Wishes) -> BoxFuture<'_, Result<()>> {
        let mut changed = self.catalog().changed();
        changed.wishes = wishes;
        self.publish(changed).boxed()
    }

    fn uninterrupted(
        &self,
        change: BoxFuture<'static, Result<()>>,
    ) -> BoxFuture<'static, Result<()>> {
        CatalogKeeper::uninterrupted(self, change)
    }
}

//! The stored component of a policy, for running it on traces beside the caches.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::database::Database;
use super::report::PolicyInfo;
use crate::disk::read_file;
use crate::error::{Error, Result};

impl Database {
    /// A policy that was created, and the bytes of its component. Replays compile it on a host of
    /// their own: they must not take instances from the shards.
    ///
    /// Errors: `NotFound`, `Io`.
    pub fn policy_component(
        &self,
        name: &str,
    ) -> BoxFuture<'static, Result<(PolicyInfo, Vec<u8>)>> {
        let database = self.clone();
        let name = name.to_owned();
        async move {
            let catalog = database.catalog();
            let info = catalog.policies.get(&name).cloned();
            let info = info.ok_or(Error::NotFound { kind: "policy", name })?;
            let path = database.inner.layout.policy(&info.digest);
            let read = database.handle(0).call("read policy", move |shard| {
                async move { read_file(&*shard.context.disk, &path).await }.boxed_local()
            });
            let component = read.await??;
            Ok((info, component))
        }
        .boxed()
    }
}

//! The registry of policies: creates them from components, drops them, compiles them on demand.
//!
//! The engine compiles a policy once, off the shards, and instantiates it on each. Not here:
//! activation (`rollout.rs`, `canary.rs`).

use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::files::is_code_of;
use super::governance::Governance;
use super::origin::{Component, Origin};
use super::report::PolicyInfo;
use super::shard::ShardPolicies;
use super::wishes::Wishes;
use crate::disk::{Disk, read_file, remove_if_there, write_file_atomically};
use crate::error::{Error, Result};
use crate::plugin::Loaded;
use crate::policy::Native;
use crate::runtime;

impl Governance {
    /// Compiles and checks a policy of any world and stores its bytes in the folder of policies. It
    /// governs nothing yet.
    ///
    /// Errors: `Exists`; `Policy` saying why the component is refused.
    pub async fn create(
        &self,
        name: &str,
        component: Vec<u8>,
        params: Vec<(String, String)>,
        sha256: Option<String>,
    ) -> Result<PolicyInfo> {
        let mut wishes = self.inner.keeper.wishes();
        if Native::find(name).is_some() || wishes.policy(name).is_some() {
            return Err(Error::Exists { kind: "policy", name: name.into() });
        }
        let bytes = Arc::new(component);
        let Loaded { compiled, artifact } = self.load(name, bytes.clone(), None).await?;
        let digest = compiled.digest_hex();
        if sha256.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&digest)) {
            return Err(Error::Policy {
                name: name.into(),
                message: format!("the component's SHA-256 is {digest}, not the expected one"),
            });
        }
        let world = compiled.world().as_str().to_owned();
        let version = String::new();
        let mut info = PolicyInfo { name: name.into(), version, digest, params, world };
        // A first instance shows that it starts with these parameters, and what it calls itself.
        let probe = Component { compiled: compiled.clone(), info: info.clone() };
        let path = self.inner.files.component(&info.digest);
        let try_out = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
            async move {
                let post = policies.post(probe.compiled.world());
                let version = post.try_out(&probe).await?;
                write_file_atomically(&*policies.parts.context.disk, &path, &bytes).await?;
                Ok::<_, Error>(version)
            }
            .boxed_local()
        };
        info.version = self.inner.shards.call(0, "try policy", try_out).await??;
        wishes.add(info.clone());
        self.inner.keeper.keep(wishes).await?;
        self.inner.components.keep(compiled);
        self.store_code(&info.digest, artifact).await;
        Ok(info)
    }

    /// Compiles on a thread of its own: it takes tens of milliseconds. Less than one where machine
    /// code was kept.
    async fn load(
        &self,
        name: &str,
        component: Arc<Vec<u8>>,
        kept: Option<Vec<u8>>,
    ) -> Result<Loaded> {
        let components = self.inner.components.clone();
        let owned = name.to_owned();
        let load = move || components.load(&owned, &component, kept.as_deref());
        runtime::aside("policy compiler", load).await?
    }

    /// Has shard 0 work on its disk, which all shards share.
    async fn on_disk<R: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(Rc<dyn Disk>) -> LocalBoxFuture<'static, R> + Send + 'static,
    ) -> Result<R> {
        let work = move |policies: Rc<ShardPolicies>| work(policies.parts.context.disk.clone());
        self.inner.shards.call(0, name, work).await
    }

    /// Keeps machine code for the next start, in the place of what other builds made. A failure
    /// costs that start a compilation and is logged.
    async fn store_code(&self, digest: &str, artifact: Option<Vec<u8>>) {
        let Some(artifact) = artifact else { return };
        let stored = async {
            let Some(compatibility) = self.inner.components.code_compatibility()? else {
                return Ok(());
            };
            let path = self.inner.files.code(digest, compatibility);
            self.remove_code(digest).await?;
            let store = move |disk: Rc<dyn Disk>| {
                async move { write_file_atomically(&*disk, &path, &artifact).await }.boxed_local()
            };
            self.on_disk("store machine code", store).await?
        };
        if let Err(error) = stored.await {
            tracing::warn!(digest, %error, "machine code of a policy is not kept");
        }
    }

    /// Removes what was kept of a component's machine code.
    async fn remove_code(&self, digest: &str) -> Result<()> {
        let (folder, digest) = (self.inner.files.folder().to_owned(), digest.to_owned());
        let remove = move |disk: Rc<dyn Disk>| -> LocalBoxFuture<'static, Result<()>> {
            async move {
                for entry in disk.list(&folder).await? {
                    if is_code_of(&entry.name, &digest) {
                        remove_if_there(&*disk, &folder.join(&entry.name)).await?;
                    }
                }
                Ok(())
            }
            .boxed_local()
        };
        self.on_disk("remove machine code", remove).await?
    }

    /// Forgets a policy, also one that could not be brought back or whose file is gone.
    ///
    /// Errors: `NotFound`; `Invalid` while it is in charge of something.
    pub async fn drop_policy(&self, name: &str, if_exists: bool) -> Result<()> {
        let mut wishes = self.inner.keeper.wishes();
        let Some(info) = wishes.policy(name) else {
            return match (Native::find(name), if_exists) {
                (Some(_), _) => Err(Error::invalid("a native policy cannot be dropped")),
                (None, true) => Ok(()),
                (None, false) => Err(Error::NotFound { kind: "policy", name: name.into() }),
            };
        };
        self.check_idle(name, &wishes)?;
        let digest = info.digest.clone();
        self.trials().ended.remove(name);
        // If the wishes still name it, it could not be restored, and the native policy governs.
        wishes.remove(name);
        let is_last = wishes.policies().all(|other| other.digest != digest);
        self.inner.keeper.keep(wishes).await?;
        let components = &self.inner.components;
        components.mark_available(name);
        self.forget_instances(name).await?;
        if !is_last {
            return Ok(());
        }
        components.forget(&digest);
        self.remove_code(&digest).await?;
        let path = self.inner.files.component(&digest);
        // Somebody may have removed the file before.
        let remove = move |disk: Rc<dyn Disk>| {
            async move { remove_if_there(&*disk, &path).await }.boxed_local()
        };
        self.on_disk("remove policy", remove).await?
    }

    /// Errors: `Invalid` for a policy that decides somewhere.
    fn check_idle(&self, name: &str, wishes: &Wishes) -> Result<()> {
        let is_canary = self.trials().canary.as_ref().is_some_and(|canary| canary.name == name);
        if is_canary {
            return Err(Error::invalid(format!(
                "policy '{name}' is a canary: ROLLBACK POLICY ends it"
            )));
        }
        let is_there = self.inner.components.why_unavailable(name).is_none();
        match wishes.charge_of(name).filter(|_| is_there) {
            Some(charge) => Err(Error::invalid(format!(
                "policy '{name}' {charge}: put another in charge first"
            ))),
            None => Ok(()),
        }
    }

    /// Ends the shadow and the standby of a policy that is dropped.
    async fn forget_instances(&self, name: &str) -> Result<()> {
        self.end_shadow(Some(name)).await?;
        let name = name.to_owned();
        let drop_standby = |policies: Rc<ShardPolicies>| {
            async move { policies.stages().drop_standby(Some(&name)) }.boxed_local()
        };
        self.inner.shards.each("drop standby", drop_standby).await.map(drop)
    }

    /// The policy of this name, compiled; `None` is what decides where none is wanted. A component
    /// that has had its name for longer than a native policy keeps it.
    ///
    /// Errors: `NotFound`; `Policy`, `Corrupt` and `Io` when its component is no longer usable.
    pub(super) async fn origin(&self, name: Option<&str>) -> Result<Origin> {
        let Some(name) = name else { return Ok(Origin::default()) };
        let info = match (self.info(name), Native::find(name)) {
            (Err(_), Some(native)) => return Ok(Origin::Native(native)),
            (info, _) => info?,
        };
        if let Some(compiled) = self.inner.components.find(&info.digest) {
            return Ok(Origin::Component(Component { compiled, info }));
        }
        let path = self.inner.files.component(&info.digest);
        let read = path.clone();
        let compatibility = self.inner.components.code_compatibility()?;
        let code = compatibility.map(|build| self.inner.files.code(&info.digest, build));
        let read = move |disk: Rc<dyn Disk>| -> LocalBoxFuture<'static, _> {
            async move {
                let component = read_file(&*disk, &read).await?;
                let kept = match code {
                    // What cannot be read is made anew.
                    Some(code) => read_file(&*disk, &code).await.ok(),
                    None => None,
                };
                Ok::<_, Error>((component, kept))
            }
            .boxed_local()
        };
        let (component, kept) = self.on_disk("read policy", read).await??;
        let Loaded { compiled, artifact } = self.load(name, Arc::new(component), kept).await?;
        if compiled.digest_hex() != info.digest {
            return Err(Error::corrupt(path, 0, &info.digest, compiled.digest_hex()));
        }
        self.inner.components.keep(compiled.clone());
        self.store_code(&info.digest, artifact).await;
        Ok(Origin::Component(Component { compiled, info }))
    }

    fn info(&self, name: &str) -> Result<PolicyInfo> {
        let info = self.inner.keeper.wishes().policy(name).cloned();
        info.ok_or_else(|| Error::NotFound { kind: "policy", name: name.into() })
    }

    /// A policy that was created, and the bytes of its component.
    ///
    /// Errors: `NotFound`, `Io`.
    pub async fn component(&self, name: &str) -> Result<(PolicyInfo, Vec<u8>)> {
        let info = self.info(name)?;
        let path = self.inner.files.component(&info.digest);
        let read = move |disk: Rc<dyn Disk>| -> LocalBoxFuture<'static, _> {
            async move { read_file(&*disk, &path).await }.boxed_local()
        };
        let component = self.on_disk("read policy", read).await??;
        Ok((info, component))
    }
}

//! Components of a database: the runtime that compiles them, and what it compiled.
//!
//! Invariant: the runtime is started with the first component, so a database without one pays
//! nothing for it; and only a component that passed every check is kept. Not here: which component
//! governs (`rollout.rs`), what compiling means (`plugin`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::Result;
use crate::plugin::{CompiledPolicy, HostOptions, Loaded, PolicyHost};

/// The components of one database, shared by its clones.
pub(crate) struct Components {
    options: HostOptions,
    /// Machine code is kept in files.
    keeps_code: bool,
    host: Mutex<Option<Arc<PolicyHost>>>,
    /// By digest.
    compiled: Mutex<BTreeMap<String, Arc<CompiledPolicy>>>,
    /// Policies that could not be brought back, and why.
    unavailable: Mutex<BTreeMap<String, String>>,
}

impl Components {
    /// None yet. Starts nothing.
    pub(super) fn new(options: HostOptions, keeps_code: bool) -> Self {
        Components {
            options,
            keeps_code,
            host: Mutex::default(),
            compiled: Mutex::default(),
            unavailable: Mutex::default(),
        }
    }

    /// What the names of files of machine code end in; `None` where code is not kept.
    ///
    /// Errors: `Unavailable` when the machine cannot run compiled Wasm.
    pub(super) fn code_compatibility(&self) -> Result<Option<u64>> {
        match self.keeps_code {
            true => Ok(Some(self.host()?.code_compatibility())),
            false => Ok(None),
        }
    }

    /// Checks a component and compiles it, or takes the machine code that was kept of it; starts
    /// the runtime with the first. Takes tens of milliseconds, so it does not belong on a shard.
    ///
    /// Errors: `Policy` with what is wrong with the component; `Unavailable` when the machine
    /// cannot run compiled Wasm.
    pub(super) fn load(&self, name: &str, component: &[u8], kept: Option<&[u8]>) -> Result<Loaded> {
        self.host()?.load(name, component, kept)
    }

    /// A start that failed is tried again with the next component.
    fn host(&self) -> Result<Arc<PolicyHost>> {
        let mut host = self.host.lock().expect("starting the runtime does not panic");
        match &*host {
            Some(host) => Ok(host.clone()),
            None => Ok(host.insert(Arc::new(PolicyHost::new(self.options.clone())?)).clone()),
        }
    }

    /// Whether a component was compiled so far.
    #[cfg(test)]
    pub(crate) fn has_host(&self) -> bool {
        self.host.lock().expect("starting the runtime does not panic").is_some()
    }

    fn compiled(&self) -> MutexGuard<'_, BTreeMap<String, Arc<CompiledPolicy>>> {
        self.compiled.lock().expect("no holder of this lock panics")
    }

    /// The component with this digest, if it was kept.
    pub(crate) fn find(&self, digest: &str) -> Option<Arc<CompiledPolicy>> {
        self.compiled().get(digest).cloned()
    }

    /// Keeps a component that passed every check.
    pub(super) fn keep(&self, compiled: Arc<CompiledPolicy>) {
        self.compiled().insert(compiled.digest_hex(), compiled);
    }

    pub(super) fn forget(&self, digest: &str) {
        self.compiled().remove(digest);
    }

    fn unavailable(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.unavailable.lock().expect("no holder of this lock panics")
    }

    /// Notes that a policy could not be brought back when the database was opened, and why.
    pub(super) fn mark_unavailable(&self, policy: &str, reason: String) {
        self.unavailable().insert(policy.to_owned(), reason);
    }

    /// Notes that a policy works again, or is gone.
    pub(super) fn mark_available(&self, policy: &str) {
        self.unavailable().remove(policy);
    }

    /// Why a policy could not be brought back, if that is still so.
    pub(super) fn why_unavailable(&self, policy: &str) -> Option<String> {
        self.unavailable().get(policy).cloned()
    }
}

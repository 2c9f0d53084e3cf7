//! The origin of a policy's instances: the engine itself or a component. Also the record of a
//! policy's end.

use std::sync::Arc;

use super::report::PolicyInfo;
use crate::cache::PolicyIdentity;
use crate::error::Error;
use crate::plugin::{self, CompiledPolicy};
use crate::policy::{FailureKind, LRU, Native, PolicyFailure};

/// Name of the eviction policy that governs where no other is wanted.
pub(super) const NATIVE: &str = LRU.name;
pub(super) const NATIVE_VERSION: &str = "native";

/// A policy that was created, compiled.
#[derive(Clone)]
pub struct Component {
    pub compiled: Arc<CompiledPolicy>,
    pub info: PolicyInfo,
}

impl Component {
    /// An instance failed or was not made.
    pub(super) fn refused(&self, message: impl Into<String>) -> Error {
        Error::Policy { name: self.info.name.clone(), message: message.into() }
    }
}

/// What decides: the engine itself, or a component.
#[derive(Clone)]
pub enum Origin {
    /// An eviction policy of the engine itself. In other worlds, where no policy is wanted, it
    /// stands for what the engine does without one.
    Native(Native),
    Component(Component),
}

impl Origin {
    pub(super) fn identity(&self) -> PolicyIdentity {
        match self {
            Origin::Native(native) => PolicyIdentity {
                name: native.name.into(),
                version: NATIVE_VERSION.into(),
                digest: String::new(),
            },
            Origin::Component(Component { info, .. }) => PolicyIdentity {
                name: info.name.clone(),
                version: info.version.clone(),
                digest: info.digest.clone(),
            },
        }
    }

    pub(super) fn refused(&self, message: impl Into<String>) -> Error {
        Error::Policy { name: self.identity().name, message: message.into() }
    }

    /// The world of a policy that was named.
    pub(super) fn world(&self) -> plugin::World {
        match self {
            Origin::Native(_) => plugin::World::Eviction,
            Origin::Component(component) => component.compiled.world(),
        }
    }
}

impl Default for Origin {
    /// What decides where no policy is wanted.
    fn default() -> Self {
        Origin::Native(LRU)
    }
}

/// The record of an end that a person or a rule decided.
pub(super) fn ended(kind: FailureKind, message: impl Into<String>) -> PolicyFailure {
    PolicyFailure { kind, message: message.into(), backtrace: Vec::new() }
}

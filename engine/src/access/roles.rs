//! All roles, and the decision whether one may do something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::right::{Permission, Resource};
use super::role::Role;

/// Roles by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(BTreeMap<String, Role>);

impl Roles {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, name: &str) -> Option<&Role> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Role)> {
        self.0.iter().map(|(name, role)| (name.as_str(), role))
    }

    /// Whether anybody may log in. Where nobody may, nobody is asked who they are.
    pub fn has_logins(&self) -> bool {
        self.0.values().any(|role| role.options.login)
    }

    /// The role of this name, if somebody may come as it.
    pub fn login(&self, name: &str) -> Option<&Role> {
        self.get(name).filter(|role| role.options.login)
    }

    /// A role and all that it has, through others as well, by name. Empty where there is no such
    /// role.
    pub fn with_inherited(&self, name: &str) -> BTreeMap<&str, &Role> {
        let mut found = BTreeMap::new();
        let mut next: Vec<&str> = vec![name];
        while let Some(name) = next.pop() {
            let Some((name, role)) = self.0.get_key_value(name) else { continue };
            if found.insert(name.as_str(), role).is_none() {
                next.extend(role.roles.iter().map(String::as_str));
            }
        }
        found
    }

    /// Whether a role may do everything, by itself or through a role that it has.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.with_inherited(name).values().any(|role| role.options.superuser)
    }

    /// Whether a role may do this, by itself or through a role that it has. A role that does not
    /// exist may do nothing.
    pub fn may(&self, name: &str, permission: Permission, resource: &Resource) -> bool {
        let grants = |role: &&Role| {
            role.options.superuser
                || role
                    .grants
                    .iter()
                    .any(|grant| grant.permission == permission && grant.resource.covers(resource))
        };
        self.with_inherited(name).values().any(grants)
    }

    pub(crate) fn insert(&mut self, name: String, role: Role) {
        self.0.insert(name, role);
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Role> {
        self.0.get_mut(name)
    }

    /// Takes a role away, from those that have it too.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
        for role in self.0.values_mut() {
            role.roles.remove(name);
        }
    }

    /// Takes away what was granted on a resource that goes, and on what belongs to it: the next of
    /// its name is another one.
    pub(crate) fn forget(&mut self, gone: &Resource) {
        for role in self.0.values_mut() {
            role.grants.retain(|grant| !gone.covers(&grant.resource));
        }
    }

    /// Takes away a service level that goes.
    pub(crate) fn forget_level(&mut self, gone: &str) {
        for role in self.0.values_mut() {
            role.service_level.take_if(|level| level == gone);
        }
    }
}

//! Creates, changes and drops roles, and grants to them.

use futures::future::BoxFuture;

use crate::access::{AccessToken, Grant, Permission, Resource, Role, RoleOptions};
use crate::config::{ROLE_NAME_BYTES_MAX, ROLES_MAX, TOKENS_MAX};
use crate::database::catalog::Catalog;
use crate::database::database::Database;
use crate::error::{Error, Result};

impl Database {
    /// Creates a role that may do nothing yet.
    ///
    /// Errors: `Exists`; `Invalid` for an impossible name, or where there are [`ROLES_MAX`] roles;
    /// `Io`.
    pub fn create_role(
        &self,
        name: &str,
        options: RoleOptions,
        if_not_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            check_name("role", &name)?;
            let catalog = database.catalog();
            if catalog.roles().get(&name).is_some() {
                return match if_not_exists {
                    true => Ok(()),
                    false => Err(Error::Exists { kind: "role", name }),
                };
            }
            if catalog.roles().len() >= ROLES_MAX {
                return Err(Error::invalid(format!(
                    "there are {ROLES_MAX} roles, which is most: drop one first (DROP ROLE x)"
                )));
            }
            let mut changed = catalog.changed();
            changed.roles_mut().insert(name, Role { options, ..Role::default() });
            database.publish(changed).await
        })
    }

    /// Changes what is set of a role. It holds for the next call of whoever is logged in.
    ///
    /// Errors: `NotFound`; `Io`.
    pub fn alter_role(
        &self,
        name: &str,
        change: impl FnOnce(&mut RoleOptions) + Send + 'static,
    ) -> BoxFuture<'static, Result<()>> {
        self.change_role(name, move |_, role| {
            change(&mut role.options);
            Ok(())
        })
    }

    /// Drops a role, and takes it from those that have it.
    ///
    /// Errors: `NotFound`; `Invalid` while it owns a view; `Io`.
    pub fn drop_role(&self, name: &str, if_exists: bool) -> BoxFuture<'static, Result<()>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            let catalog = database.catalog();
            if catalog.roles().get(&name).is_none() {
                return match if_exists {
                    true => Ok(()),
                    false => Err(Error::NotFound { kind: "role", name }),
                };
            }
            if let Some(view) = catalog.all_views().find(|view| view.owner.as_ref() == Some(&name)) {
                let view = view.full_name();
                return Err(Error::invalid(format!(
                    "role '{name}' owns view '{view}', which reads with its rights: drop that first \
                     (DROP VIEW {view}), or let another role replace it"
                )));
            }
            let mut changed = catalog.changed();
            changed.roles_mut().remove(&name);
            database.publish(changed).await
        })
    }

    /// Gives a role a token of this name: whoever has the text of which `token` keeps the digest
    /// comes as the role.
    ///
    /// Errors: `NotFound`; `Exists`; `Invalid` for an impossible name, or where the role has
    /// [`TOKENS_MAX`] tokens; `Io`.
    pub fn create_token(
        &self,
        role: &str,
        name: &str,
        token: AccessToken,
    ) -> BoxFuture<'static, Result<()>> {
        let (of, name) = (role.to_owned(), name.to_owned());
        self.change_role(role, move |_, role| {
            check_name("token", &name)?;
            if role.tokens.contains_key(&name) {
                return Err(Error::Exists { kind: "token", name });
            }
            if role.tokens.len() >= TOKENS_MAX {
                return Err(Error::invalid(format!(
                    "role '{of}' has {TOKENS_MAX} tokens, which is most: drop one first (DROP TOKEN x \
                     OF {of})"
                )));
            }
            role.tokens.insert(name, token);
            Ok(())
        })
    }

    /// Takes a token from a role. It holds no more from the next call on.
    ///
    /// Errors: `NotFound` for the role or the token; `Io`.
    pub fn drop_token(
        &self,
        role: &str,
        name: &str,
        if_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let name = name.to_owned();
        self.change_role(role, move |_, role| match role.tokens.remove(&name) {
            None if !if_exists => Err(Error::NotFound { kind: "token", name }),
            _ => Ok(()),
        })
    }

    /// Gives role `role` to role `to`, which may do from then on what `role` may.
    ///
    /// Errors: `NotFound`; `Invalid` where `role` has `to` already, through others perhaps; `Io`.
    pub fn grant_role(&self, role: &str, to: &str) -> BoxFuture<'static, Result<()>> {
        let (role, to) = (role.to_owned(), to.to_owned());
        self.change_role(&to.clone(), move |catalog, member| {
            known(catalog, &role)?;
            if catalog.roles().with_inherited(&role).contains_key(to.as_str()) {
                return Err(Error::invalid(format!(
                    "role '{role}' has role '{to}' already, and no role has itself through others: \
                     revoke that first (REVOKE {to} FROM {role})"
                )));
            }
            member.roles.insert(role);
            Ok(())
        })
    }

    /// Takes role `role` from role `from`.
    ///
    /// Errors: `NotFound`; `Invalid` where `from` does not have it by itself; `Io`.
    pub fn revoke_role(&self, role: &str, from: &str) -> BoxFuture<'static, Result<()>> {
        let (role, from) = (role.to_owned(), from.to_owned());
        self.change_role(&from.clone(), move |catalog, member| {
            known(catalog, &role)?;
            match member.roles.remove(&role) {
                true => Ok(()),
                false => Err(Error::invalid(format!(
                    "role '{from}' was not granted role '{role}': LIST ROLES shows who has what"
                ))),
            }
        })
    }

    /// Grants permissions on a resource to a role. Those that it has stay.
    ///
    /// Errors: `NotFound` for a role, a keyspace or a table; `Invalid` for a permission that there
    /// is not on this resource, and for a table that is attached; `Io`.
    pub fn grant(
        &self,
        permissions: &[Permission],
        resource: &Resource,
        to: &str,
    ) -> BoxFuture<'static, Result<()>> {
        let (permissions, resource) = (permissions.to_vec(), resource.clone());
        self.change_role(to, move |catalog, role| {
            check_resource(catalog, &resource)?;
            check_permissions(&permissions, &resource)?;
            let grants = permissions.into_iter().map(|one| Grant::new(one, resource.clone()));
            role.grants.extend(grants);
            Ok(())
        })
    }

    /// Takes permissions on a resource from a role. What it may do by others stays.
    ///
    /// Errors: `NotFound` for a role; `Invalid` for a permission that there is not on this
    /// resource; `Io`.
    pub fn revoke(
        &self,
        permissions: &[Permission],
        resource: &Resource,
        from: &str,
    ) -> BoxFuture<'static, Result<()>> {
        let (permissions, resource) = (permissions.to_vec(), resource.clone());
        self.change_role(from, move |_, role| {
            check_permissions(&permissions, &resource)?;
            role.grants.retain(|grant| {
                grant.resource != resource || !permissions.contains(&grant.permission)
            });
            Ok(())
        })
    }

    /// Attaches a service level to a role, in place of the one before; `None` detaches that.
    ///
    /// Errors: `NotFound` for the role or the level; `Io`.
    pub fn attach_service_level(
        &self,
        level: Option<&str>,
        role: &str,
    ) -> BoxFuture<'static, Result<()>> {
        let level = level.map(str::to_owned);
        self.change_role(role, move |catalog, role| {
            if let Some(name) = level.as_ref().filter(|name| catalog.service_level(name).is_none())
            {
                return Err(Error::NotFound { kind: "service level", name: name.clone() });
            }
            role.service_level = level;
            Ok(())
        })
    }

    /// Changes a role and publishes it, unless `change` refuses or leaves all as it is; that sees
    /// the catalog before.
    ///
    /// Errors: `NotFound`; those of `change`; `Io`.
    fn change_role(
        &self,
        name: &str,
        change: impl FnOnce(&Catalog, &mut Role) -> Result<()> + Send + 'static,
    ) -> BoxFuture<'static, Result<()>> {
        let (database, name) = (self.clone(), name.to_owned());
        self.uninterrupted(async move {
            let catalog = database.catalog();
            let mut changed = catalog.changed();
            let Some(role) = changed.roles_mut().get_mut(&name) else {
                return Err(Error::NotFound { kind: "role", name });
            };
            change(&catalog, role)?;
            if changed.roles() == catalog.roles() {
                return Ok(());
            }
            database.publish(changed).await
        })
    }
}

/// Errors: `NotFound` for a role that is not there.
fn known(catalog: &Catalog, role: &str) -> Result<()> {
    let unknown = || Error::NotFound { kind: "role", name: role.to_owned() };
    catalog.roles().get(role).map(drop).ok_or_else(unknown)
}

/// Errors: `Invalid` for a name that no credentials could carry.
fn check_name(kind: &str, name: &str) -> Result<()> {
    let fits = (1..=ROLE_NAME_BYTES_MAX).contains(&name.len())
        && !name.contains(|c: char| c == ':' || c.is_control());
    match fits {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "'{}' cannot name a {kind}: use 1 to {ROLE_NAME_BYTES_MAX} bytes without ':' and control \
             characters",
            name.escape_debug()
        ))),
    }
}

/// Errors: `NotFound` for a keyspace or table that is not there, `Invalid` for one that is
/// attached.
fn check_resource(catalog: &Catalog, resource: &Resource) -> Result<()> {
    match resource {
        Resource::Keyspace(name) if !catalog.has_keyspace(name) => {
            Err(Error::NotFound { kind: "keyspace", name: name.clone() })
        }
        Resource::Table { keyspace, name } if catalog.view(keyspace, name).is_none() => {
            let hint = "the next start forgets it; grant on its keyspace instead";
            catalog.own_table(keyspace, name, hint).map(drop)
        }
        _ => Ok(()),
    }
}

/// Errors: `Invalid` for a permission that there is not on this resource.
fn check_permissions(permissions: &[Permission], resource: &Resource) -> Result<()> {
    let known = resource.permissions();
    match permissions.iter().find(|permission| !known.contains(permission)) {
        None => Ok(()),
        Some(other) => {
            let names: Vec<&str> = known.iter().map(|known| known.name()).collect();
            Err(Error::invalid(format!(
                "there is no {other} on {resource}: there is {}",
                names.join(", ")
            )))
        }
    }
}

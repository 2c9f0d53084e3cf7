//! Roles: who may do what, and the service level that somebody has.
//!
//! | file | holds |
//! |---|---|
//! | `right` | permissions, what they are on, and what covers what |
//! | `role` | one role, as the catalog keeps it |
//! | `roles` | all roles, and the decision whether one may do something |
//! | `effective` | the service level of a role, merged from those of all roles that it has |
//! | `view` | a view, and with whose rights it reads |
//!
//! Invariant: [`Roles::may`] depends on nothing but what was granted, and no role has itself
//! through others. Not here: who somebody is. A password is a text here that nobody can read.

mod effective;
mod right;
mod role;
mod roles;
mod view;

#[cfg(test)]
mod tests;

pub use effective::{EffectiveLevel, Origin, effective};
pub use right::{Grant, Permission, Resource};
pub use role::{AccessToken, PasswordHash, Role, RoleOptions};
pub use roles::Roles;
pub use view::View;

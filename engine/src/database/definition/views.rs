//! Creates and drops views. The engine keeps them, and whoever plans queries gives them a meaning.
//!
//! Invariant: what a view reads is there until the view is dropped, but for tables that are
//! attached: those go with the process. No view reads itself through others.

use futures::future::BoxFuture;

use crate::access::View;
use crate::config::VIEW_DEPTH_MAX;
use crate::database::catalog::{Catalog, check_name};
use crate::database::database::Database;
use crate::error::{Error, Result};

impl Database {
    /// Creates a view. With `or_replace` it takes the place of the view of that name, with all that
    /// was granted on it.
    ///
    /// Errors: `Exists` for a table, or a view that is not to be replaced; `NotFound` for a
    /// keyspace or what it reads; `Invalid` for an impossible name, for a view that would read
    /// itself, and for more than [`VIEW_DEPTH_MAX`] views upon one another; `Io`.
    pub fn create_view(&self, view: View, or_replace: bool) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        self.uninterrupted(async move {
            check_name("view", &view.name)?;
            let catalog = database.catalog();
            if !catalog.has_keyspace(&view.keyspace) {
                return Err(Error::NotFound { kind: "keyspace", name: view.keyspace });
            }
            if catalog.table(&view.keyspace, &view.name).is_some() {
                return Err(Error::Exists { kind: "table", name: view.full_name() });
            }
            if !or_replace {
                catalog.check_no_view(&view.keyspace, &view.name)?;
            }
            for (keyspace, name) in &view.reads {
                let is_there = catalog.table(keyspace, name).is_some()
                    || catalog.view(keyspace, name).is_some();
                if !is_there {
                    let name = format!("{keyspace}.{name}");
                    return Err(Error::NotFound { kind: "table", name });
                }
            }
            let name = view.full_name();
            let mut changed = catalog.changed();
            changed.add_view(view);
            let is_deep = |view: &View| depth(&changed, view, VIEW_DEPTH_MAX).is_none();
            if let Some(deep) = changed.all_views().find(|view| is_deep(view)) {
                let deep = deep.full_name();
                return Err(Error::invalid(format!(
                    "view '{name}' would read itself, or be one of more than {VIEW_DEPTH_MAX} views \
                     upon one another below '{deep}': select from the tables"
                )));
            }
            database.publish(changed).await
        })
    }

    /// Drops a view, with what was granted on it.
    ///
    /// Errors: `NotFound`; `Invalid` where another view reads it; `Io`.
    pub fn drop_view(
        &self,
        keyspace: &str,
        name: &str,
        if_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let (database, keyspace, name) = (self.clone(), keyspace.to_owned(), name.to_owned());
        self.uninterrupted(async move {
            let catalog = database.catalog();
            if catalog.view(&keyspace, &name).is_none() {
                let name = format!("{keyspace}.{name}");
                return match if_exists {
                    true => Ok(()),
                    false => Err(Error::NotFound { kind: "view", name }),
                };
            }
            catalog.check_unread("view", &keyspace, &name)?;
            let mut changed = catalog.changed();
            changed.drop_view(&keyspace, &name);
            database.publish(changed).await
        })
    }
}

/// How many views stand upon one another from this one down; none where there are more than `most`.
fn depth(catalog: &Catalog, view: &View, most: usize) -> Option<usize> {
    let below = most.checked_sub(1)?;
    let views = view.reads.iter().filter_map(|(keyspace, name)| catalog.view(keyspace, name));
    let mut depths = views.map(|view| depth(catalog, view, below));
    depths.try_fold(0, |deepest: usize, depth| Some(deepest.max(depth?))).map(|depth| depth + 1)
}

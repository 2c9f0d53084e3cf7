//! A place in object storage.

use std::fmt;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, parse_url_opts};
use url::Url;

use super::list::List;

/// The object that is written last.
const LIST: &str = "SNAPSHOT";
/// How the names of variables begin that say how to reach a store.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// Schemes of URLs that are understood, as people are told them.
const SCHEMES: &str =
    "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder";

/// Where machines of a provider are told their keys: asked only where the environment has none.
const TELLERS_OF_KEYS: [&str; 3] = ["169.254.169.254", "169.254.170.", "metadata.google.internal"];

/// See the head of this file.
pub(crate) struct Place {
    pub(super) store: Arc<dyn ObjectStore>,
    root: ObjectPath,
    /// Its URL, for people.
    name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Place {
    /// Whether a text names a place in object storage, and no directory.
    pub(crate) fn is_one(text: &str) -> bool {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_letter)
        })
    }

    /// The place of a URL. Keys, regions and endpoints come from the environment, by the names that
    /// each provider's own tools use (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    ///
    /// Errors: in words, for a URL that is none, has a password or query, or a scheme that is not
    /// understood; where the environment contradicts itself.
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("'{text}' is no URL: {error}"))?;
        let has_secret = !url.username().is_empty() || url.password().is_some();
        if has_secret || url.query().is_some() || url.fragment().is_some() {
            return Err(
                "a place is named without user, password, query and fragment: keys come from the \
                 environment, such as AWS_ACCESS_KEY_ID"
                    .to_owned(),
            );
        }
        if !["s3", "s3a", "gs", "az", "abfs", "abfss", "file"].contains(&url.scheme()) {
            let scheme = url.scheme();
            return Err(format!(
                "'{scheme}://' is no object storage that is known: name {SCHEMES}"
            ));
        }
        let is_known = |name: &str| VARIABLES.iter().any(|begin| name.starts_with(begin));
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| is_known(name));
        let (store, root) =
            parse_url_opts(&url, variables).map_err(|error| format!("{text}: {error}"))?;
        let name = text.trim_end_matches('/').to_owned();
        Ok(Place { store: store.into(), root, name })
    }

    /// The same place of a store at hand.
    #[cfg(test)]
    pub(super) fn within(store: Arc<dyn ObjectStore>, root: &str) -> Self {
        let root = ObjectPath::from(root);
        let name = format!("test://{root}");
        Place { store, root, name }
    }

    /// Where a file of the snapshot is.
    pub(super) fn at(&self, path: &str) -> ObjectPath {
        path.split('/').fold(self.root.clone(), |at, part| at.join(part))
    }

    /// What went wrong with a file, in words.
    pub(super) fn told(&self, path: &str, error: impl fmt::Display) -> String {
        self.with_advice(format!("{self}/{path}: {error}"))
    }

    /// An error of the store, with what to do where it found no keys.
    fn with_advice(&self, mut told: String) -> String {
        if TELLERS_OF_KEYS.iter().any(|teller| told.contains(teller)) {
            let names = match self.name.split("://").next().unwrap_or_default() {
                "gs" => "GOOGLE_SERVICE_ACCOUNT",
                "az" | "abfs" | "abfss" => {
                    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
                }
                _ => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            };
            told.push_str("; the environment names no keys, and this machine was told none: set ");
            told.push_str(names);
        }
        told
    }

    /// Errors: in words, where something is there.
    pub(super) async fn check_empty(&self) -> Result<(), String> {
        let first = self.store.list(Some(&self.root)).try_next().await;
        match first.map_err(|error| self.with_advice(format!("{self}: {error}")))? {
            None => Ok(()),
            Some(object) => Err(format!(
                "{self} is not empty, it has {}: name a new place, or remove what is there",
                object.location
            )),
        }
    }

    /// The list of the snapshot that is there.
    ///
    /// Errors: in words.
    pub(super) async fn list(&self) -> Result<List, String> {
        let told = |error: object_store::Error| match error {
            object_store::Error::NotFound { .. } => format!(
                "{self} holds no snapshot: it has no object {LIST}, which SNAPSHOT TO writes last"
            ),
            error => self.told(LIST, error),
        };
        let object = self.store.get(&self.at(LIST)).await.map_err(told)?;
        let text = object.bytes().await.map_err(told)?;
        List::decode(&text).map_err(|error| self.told(LIST, error))
    }

    /// Makes what was sent a snapshot.
    ///
    /// Errors: in words.
    pub(super) async fn put_list(&self, list: &List) -> Result<(), String> {
        let put = self.store.put(&self.at(LIST), list.encode().into()).await;
        put.map(drop).map_err(|error| self.told(LIST, error))
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn each_provider_is_told_the_variables_of_its_own_keys() {
        let amazon = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        let azure = "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY";
        for (name, keys) in [
            ("s3://b/p", amazon),
            ("s3a://b/p", amazon),
            ("gs://b/p", "GOOGLE_SERVICE_ACCOUNT"),
            ("az://b/p", azure),
            ("abfs://b/p", azure),
            ("abfss://b/p", azure),
        ] {
            let (store, root) = (Arc::new(InMemory::new()), ObjectPath::from("p"));
            let place = Place { store, root, name: name.to_owned() };
            for teller in ["169.254.169.254", "169.254.170.2", "metadata.google.internal"] {
                let told = place.told("catalog", format!("GET http://{teller}/x: timed out"));
                assert!(told.starts_with(&format!("{name}/catalog: GET http://")), "{told}");
                assert!(told.ends_with(&format!(" was told none: set {keys}")), "{told}");
            }
            assert_eq!(place.told("a/b", "404"), format!("{name}/a/b: 404"));
        }
    }

    #[test]
    fn a_file_is_below_the_place_folder_by_folder() {
        for (root, path, wanted) in [
            ("p", "catalog", "p/catalog"),
            ("p/q", "data/ks/t-1/me-1-big-Data.db", "p/q/data/ks/t-1/me-1-big-Data.db"),
            ("", "data/x", "data/x"),
        ] {
            let place = Place::within(Arc::new(InMemory::new()), root);
            assert_eq!(place.at(path).to_string(), wanted);
        }
    }
}

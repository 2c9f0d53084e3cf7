//! The catalog: keyspaces, tables, roles and policies as one immutable snapshot.
//!
//! On disk the catalog is one JSON file, replaced whole; its first line is the format version and
//! the CRC of what stands before and behind it (up to version 2, of what stands behind it), so that
//! a newer format and damage are told apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{EffectiveLevel, Resource, Roles, View, effective};
use crate::admission::{DEFAULT_LEVEL, LevelId, ServiceLevel};
use crate::error::{Error, Result};
use crate::governance::{PolicyInfo, Wishes};
use crate::io::ClassSettings;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{TableId, TableSchema, UserType};

/// Keyspace of tables that name none.
pub const DEFAULT_KEYSPACE: &str = "default";
/// Newest format that this build reads. 2 has columns of collections, tuples
/// and user types; from 3 on the checksum covers the version as well, and the shards have ledgers;
/// 4 has columns that were dropped; 5 has roles; 6 has views; 7 has tokens of roles.
pub(super) const FORMAT_VERSION: u32 = 7;
/// What is written where there are no tokens. A build that knows of none would lose them.
const FORMAT_WITHOUT_TOKENS: u32 = 6;
/// What is written where there are no views either. A build that knows of none would lose them.
const FORMAT_WITHOUT_VIEWS: u32 = 5;
/// What is written where there are no roles either. A build that knows of none must not open a
/// catalog that has some: it would ask nobody who they are.
const FORMAT_WITHOUT_ROLES: u32 = 4;

/// An immutable snapshot of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    version: u64,
    /// Tables by name, by keyspace.
    #[serde(with = "tables_on_disk")]
    keyspaces: BTreeMap<String, BTreeMap<String, SchemaRef>>,
    /// User types by name, by keyspace. A table keeps the types of its columns by itself.
    #[serde(default)]
    types: BTreeMap<String, BTreeMap<String, UserType>>,
    /// Views by name, by keyspace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    views: BTreeMap<String, BTreeMap<String, View>>,
    /// The created policies and the wishes: separate fields on disk.
    #[serde(flatten)]
    pub(super) wishes: Wishes,
    /// Cache capacity that was set by statement, bytes a shard.
    pub(super) cache_bytes: Option<usize>,
    /// Classes of I/O that were set by statement, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) io_classes: BTreeMap<String, ClassSettings>,
    /// Service levels by name, without the one of what names none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    service_levels: BTreeMap<String, ServiceLevel>,
    #[serde(default, skip_serializing_if = "Roles::is_empty")]
    roles: Roles,
    /// Tables over foreign SSTables, by keyspace and name, for as long as the process lives.
    #[serde(skip)]
    attached: BTreeMap<String, BTreeMap<String, SchemaRef>>,
}

impl Catalog {
    pub(super) fn new() -> Self {
        Catalog {
            version: 1,
            keyspaces: BTreeMap::from([(DEFAULT_KEYSPACE.to_owned(), BTreeMap::new())]),
            types: BTreeMap::new(),
            views: BTreeMap::new(),
            wishes: Wishes::default(),
            cache_bytes: None,
            io_classes: BTreeMap::new(),
            service_levels: BTreeMap::new(),
            roles: Roles::default(),
            attached: BTreeMap::new(),
        }
    }

    /// A catalog that knows of nothing, for who asks a service what there is.
    pub fn empty() -> Self {
        Catalog { version: 0, ..Catalog::new() }
    }

    /// The same without roles, their passwords and their tokens: what every role may see.
    pub fn without_roles(&self) -> Self {
        Catalog { roles: Roles::default(), ..self.clone() }
    }

    /// Increases with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> impl Iterator<Item = &str> {
        self.keyspaces.keys().map(String::as_str)
    }

    pub fn has_keyspace(&self, keyspace: &str) -> bool {
        self.keyspaces.contains_key(keyspace)
    }

    /// Tables of a keyspace by name, then those that are attached.
    pub fn tables(&self, keyspace: &str) -> impl Iterator<Item = &SchemaRef> {
        let maps = [self.keyspaces.get(keyspace), self.attached.get(keyspace)];
        maps.into_iter().flatten().flat_map(BTreeMap::values)
    }

    /// All tables of all keyspaces; those that are attached come last.
    pub fn all_tables(&self) -> impl Iterator<Item = &SchemaRef> {
        self.keyspaces.values().chain(self.attached.values()).flat_map(BTreeMap::values)
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Option<&SchemaRef> {
        let maps = [self.keyspaces.get(keyspace), self.attached.get(keyspace)];
        maps.into_iter().flatten().find_map(|tables| tables.get(name))
    }

    /// Whether a table of this name is one of foreign SSTables.
    pub fn is_attached(&self, keyspace: &str, name: &str) -> bool {
        self.attached.get(keyspace).is_some_and(|tables| tables.contains_key(name))
    }

    /// A table that is not attached; `hint` says what to do with one that is.
    ///
    /// Errors: `NotFound`, `Invalid`.
    pub(super) fn own_table(&self, keyspace: &str, name: &str, hint: &str) -> Result<&SchemaRef> {
        if self.is_attached(keyspace, name) {
            return Err(Error::invalid(format!("table '{name}' is attached: {hint}")));
        }
        let unknown = || Error::NotFound { kind: "table", name: format!("{keyspace}.{name}") };
        self.table(keyspace, name).ok_or_else(unknown)
    }

    /// Errors: `Exists` where a view has this name.
    pub(super) fn check_no_view(&self, keyspace: &str, name: &str) -> Result<()> {
        match self.view(keyspace, name) {
            None => Ok(()),
            Some(view) => Err(Error::Exists { kind: "view", name: view.full_name() }),
        }
    }

    /// Errors: `Invalid` where a view reads the table or view that is about to go.
    pub(super) fn check_unread(&self, kind: &str, keyspace: &str, name: &str) -> Result<()> {
        let Some(view) = self.all_views().find(|view| view.reads(keyspace, name)) else {
            return Ok(());
        };
        let view = view.full_name();
        Err(Error::invalid(format!(
            "{kind} '{keyspace}.{name}' is read by view '{view}': drop that first \
             (DROP VIEW {view})"
        )))
    }

    /// User types of a keyspace, by name.
    pub fn types(&self, keyspace: &str) -> impl Iterator<Item = &UserType> {
        self.types.get(keyspace).into_iter().flat_map(BTreeMap::values)
    }

    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&UserType> {
        self.types.get(keyspace)?.get(name)
    }

    /// Views of a keyspace, by name.
    pub fn views(&self, keyspace: &str) -> impl Iterator<Item = &View> {
        self.views.get(keyspace).into_iter().flat_map(BTreeMap::values)
    }

    /// All views of all keyspaces.
    pub fn all_views(&self) -> impl Iterator<Item = &View> {
        self.views.values().flat_map(BTreeMap::values)
    }

    pub fn view(&self, keyspace: &str, name: &str) -> Option<&View> {
        self.views.get(keyspace)?.get(name)
    }

    /// Policies that were created, by name.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyInfo> {
        self.wishes.policies()
    }

    /// All service levels, by name; [`DEFAULT_LEVEL`] comes first.
    pub fn service_levels(&self) -> impl Iterator<Item = (&str, ServiceLevel)> {
        let others = self.service_levels.iter().map(|(name, level)| (name.as_str(), *level));
        std::iter::once((DEFAULT_LEVEL, ServiceLevel::default())).chain(others)
    }

    pub fn service_level(&self, name: &str) -> Option<ServiceLevel> {
        match name == DEFAULT_LEVEL {
            true => Some(ServiceLevel::default()),
            false => self.service_levels.get(name).copied(),
        }
    }

    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The service level of a role; `None` where none is attached to it or to a role that it has.
    pub fn effective_level(&self, role: &str) -> Option<EffectiveLevel> {
        let roles = self.roles.with_inherited(role);
        let mut names: Vec<&str> =
            roles.values().filter_map(|role| role.service_level.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        effective(names.into_iter().filter_map(|name| Some((name, self.service_level(name)?))))
    }

    pub(super) fn changed(&self) -> Catalog {
        Catalog { version: self.version + 1, ..self.clone() }
    }

    pub(super) fn add_keyspace(&mut self, name: &str) {
        self.keyspaces.entry(name.to_owned()).or_default();
    }

    /// Takes a keyspace away, with what was granted on it.
    pub(super) fn remove_keyspace(&mut self, name: &str) {
        self.roles.forget(&Resource::keyspace(name));
        self.keyspaces.remove(name);
        self.types.remove(name);
        self.views.remove(name);
    }

    pub(super) fn add_table(&mut self, schema: SchemaRef) {
        let tables = self.keyspaces.entry(schema.keyspace.clone()).or_default();
        tables.insert(schema.name.clone(), schema);
    }

    pub(super) fn add_attached(&mut self, schema: SchemaRef) {
        let tables = self.attached.entry(schema.keyspace.clone()).or_default();
        tables.insert(schema.name.clone(), schema);
    }

    pub(super) fn remove_attached(&mut self, keyspace: &str, name: &str) {
        if let Some(tables) = self.attached.get_mut(keyspace) {
            tables.remove(name);
        }
    }

    pub(super) fn remove_table(&mut self, keyspace: &str, name: &str) {
        if let Some(tables) = self.keyspaces.get_mut(keyspace) {
            tables.remove(name);
        }
    }

    /// Takes a table away that does not come back, with what was granted on it.
    pub(super) fn drop_table(&mut self, keyspace: &str, name: &str) {
        self.roles.forget(&Resource::table(keyspace, name));
        self.remove_table(keyspace, name);
    }

    pub(super) fn add_type(&mut self, ty: UserType) {
        self.types.entry(ty.keyspace.clone()).or_default().insert(ty.name.clone(), ty);
    }

    pub(super) fn remove_type(&mut self, keyspace: &str, name: &str) {
        if let Some(types) = self.types.get_mut(keyspace) {
            types.remove(name);
        }
    }

    pub(super) fn add_view(&mut self, view: View) {
        let views = self.views.entry(view.keyspace.clone()).or_default();
        views.insert(view.name.clone(), view);
    }

    /// Takes a view away, with what was granted on it.
    pub(super) fn drop_view(&mut self, keyspace: &str, name: &str) {
        self.roles.forget(&Resource::table(keyspace, name));
        let Some(views) = self.views.get_mut(keyspace) else { return };
        views.remove(name);
        if views.is_empty() {
            self.views.remove(keyspace);
        }
    }

    pub(super) fn set_service_level(&mut self, name: String, level: ServiceLevel) {
        self.service_levels.insert(name, level);
    }

    /// Takes a service level away, also from the roles that it is attached to.
    pub(super) fn remove_service_level(&mut self, name: &str) {
        self.roles.forget_level(name);
        self.service_levels.remove(name);
    }

    pub(super) fn roles_mut(&mut self) -> &mut Roles {
        &mut self.roles
    }

    /// An id that no service level of this data directory has or had.
    pub(super) fn fresh_level_id(&self) -> LevelId {
        LevelId(self.version)
    }

    /// An id that no table has or had: the version makes it unique in this data directory, the
    /// time makes it unlikely elsewhere.
    pub(super) fn fresh_table_id(&self, now_us: i64) -> TableId {
        TableId((now_us as u128) << 64 | u128::from(self.version))
    }

    /// Bytes of the catalog file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec_pretty(self).expect("a catalog is plain data");
        let version = if self.roles.iter().any(|(_, role)| !role.tokens.is_empty()) {
            FORMAT_VERSION
        } else if !self.views.is_empty() {
            FORMAT_WITHOUT_TOKENS
        } else if !self.roles.is_empty() {
            FORMAT_WITHOUT_VIEWS
        } else {
            FORMAT_WITHOUT_ROLES
        };
        let front = format!("tidegate-catalog {version} ");
        let crc = checksum(version, &front, &body);
        let mut file = format!("{front}{crc:08x}\n").into_bytes();
        file.extend_from_slice(&body);
        file
    }

    /// Reads a catalog file.
    ///
    /// Errors: `Unavailable` for a newer format, `Corrupt` for damage.
    pub(super) fn decode(path: &std::path::Path, file: &[u8]) -> Result<Catalog> {
        let end = file.iter().position(|&byte| byte == b'\n').unwrap_or(file.len());
        let line = String::from_utf8_lossy(&file[..end]).into_owned();
        let mut words = line.split(' ');
        let wanted =
            || Error::corrupt(path, 0, "'tidegate-catalog <version> <crc>'", format!("'{line}'"));
        if words.next() != Some("tidegate-catalog") {
            return Err(wanted());
        }
        let version: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wanted)?;
        let body = file.get(end + 1..).unwrap_or_default();
        let crc =
            words.next().and_then(|word| u32::from_str_radix(word, 16).ok()).ok_or_else(wanted)?;
        let front = line.rfind(' ').map_or("", |at| &line[..=at]);
        let found = checksum(version, front, body);
        if crc != found {
            let (wanted, found) = (format!("crc {crc:08x}"), format!("crc {found:08x}"));
            return Err(Error::corrupt(path, 0, wanted, found));
        }
        if version > FORMAT_VERSION {
            return Err(Error::Unavailable(format!(
                "{} was written by a newer version of Tidegate (format {version}; this build reads up to {FORMAT_VERSION}): upgrade, or use another data directory",
                path.display()
            )));
        }
        serde_json::from_slice(body)
            .map_err(|error| Error::corrupt(path, end as u64 + 1, "a catalog", error.to_string()))
    }
}

/// The checksum of a catalog file of a format version: of all before it and behind its line, where
/// the format covers its own version.
fn checksum(version: u32, front: &str, body: &[u8]) -> u32 {
    let mut crc = crate::checksum::Crc32::new();
    if version > 2 {
        crc.update(front.as_bytes());
    }
    crc.update(body);
    crc.finish()
}

/// On disk a keyspace is a list of its tables.
mod tables_on_disk {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::schema::TableSchema;
    use crate::schema::table_schema::SchemaRef;

    type Tables = BTreeMap<String, BTreeMap<String, SchemaRef>>;

    pub(super) fn serialize<S: Serializer>(tables: &Tables, to: S) -> Result<S::Ok, S::Error> {
        let lists: BTreeMap<&str, Vec<&TableSchema>> = tables
            .iter()
            .map(|(keyspace, tables)| {
                (keyspace.as_str(), tables.values().map(Arc::as_ref).collect())
            })
            .collect();
        lists.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tables, D::Error> {
        let lists = BTreeMap::<String, Vec<TableSchema>>::deserialize(from)?;
        Ok(lists
            .into_iter()
            .map(|(keyspace, tables)| {
                let by_name = tables.into_iter().map(|table| (table.name.clone(), Arc::new(table)));
                (keyspace, by_name.collect())
            })
            .collect())
    }
}

/// Checks a name that becomes part of a path.
pub(super) fn check_name(kind: &'static str, name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= 48
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "'{name}' cannot name a {kind}: use 1 to 48 letters, digits and underscores"
        )))
    }
}

pub(super) fn shared(schema: TableSchema) -> SchemaRef {
    Arc::new(schema)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::access::{AccessToken, Role};

    /// A file of a format version whose checksum is right: from the third one on it covers its own
    /// line.
    fn file(version: u32, body: &str) -> Vec<u8> {
        let front = format!("tidegate-catalog {version} ");
        let covered = if version > 2 { format!("{front}{body}") } else { body.to_owned() };
        let crc = crate::checksum::crc32(covered.as_bytes());
        format!("{front}{crc:08x}\n{body}").into_bytes()
    }

    #[test]
    fn catalogs_of_earlier_versions_are_read_and_later_ones_are_not() {
        let whole = String::from_utf8(Catalog::new().encode()).unwrap();
        let (_, body) = whole.split_once('\n').unwrap();
        for version in 1..=FORMAT_VERSION {
            Catalog::decode(Path::new("c"), &file(version, body)).unwrap();
        }
        let newer = Catalog::decode(Path::new("c"), &file(FORMAT_VERSION + 1, body)).unwrap_err();
        assert!(matches!(newer, Error::Unavailable(_)), "{newer}");
    }

    #[test]
    fn damage_of_a_catalog_is_told_where_it_is() {
        let at = |file: &[u8]| match Catalog::decode(Path::new("c"), file).unwrap_err() {
            Error::Corrupt(corruption) => (corruption.offset, corruption.wanted.clone()),
            other => panic!("{other}"),
        };
        // Behind the line and its end.
        let wrong = file(FORMAT_VERSION, "no JSON");
        let line = wrong.iter().position(|byte| *byte == b'\n').unwrap() as u64;
        assert_eq!(at(&wrong), (line + 1, "a catalog".to_owned()));
        let mut damaged = file(FORMAT_VERSION, "{}");
        *damaged.last_mut().unwrap() ^= 1;
        let (offset, wanted) = at(&damaged);
        assert!(offset == 0 && wanted.starts_with("crc "), "{wanted}");
        for short in ["", "tidegate-catalog", "tidegate-catalog 1", "other 1 00000000\n{}"] {
            let (offset, wanted) = at(short.as_bytes());
            assert!(offset == 0 && wanted.starts_with("'tidegate-catalog"), "{short}: {wanted}");
        }
    }

    #[test]
    fn a_keyspace_takes_its_types_along() {
        let mut catalog = Catalog::new();
        for keyspace in ["a", "b"] {
            catalog.add_keyspace(keyspace);
            let (keyspace, name) = (keyspace.to_owned(), "address".to_owned());
            catalog.add_type(UserType { keyspace, name, fields: Vec::new() });
        }
        catalog.remove_keyspace("a");
        catalog.add_keyspace("a");
        assert_eq!((catalog.types("a").count(), catalog.types("b").count()), (0, 1));
    }

    /// A build that knows less must not open what it would lose.
    #[test]
    fn the_format_is_that_of_the_latest_kind_of_thing_that_is_there() {
        for kinds in 0..8 {
            let [has_role, has_view, has_token] = [1, 2, 4].map(|kind| kinds & kind != 0);
            let mut catalog = Catalog::new();
            if has_role {
                catalog.roles_mut().insert("ann".into(), Role::default());
            }
            if has_view {
                catalog.add_view(View {
                    keyspace: DEFAULT_KEYSPACE.into(),
                    name: "v".into(),
                    query: "SELECT 1".into(),
                    owner: None,
                    reads: Default::default(),
                });
            }
            if has_token {
                let mut role = Role::default();
                let token = AccessToken { digest: "d".into(), created_us: 1, expires_us: None };
                role.tokens.insert("ci".into(), token);
                catalog.roles_mut().insert("bob".into(), role);
            }
            let wanted = match (has_token, has_view, has_role) {
                (true, ..) => 7,
                (_, true, _) => 6,
                (.., true) => 5,
                _ => 4,
            };
            let (file, front) = (catalog.encode(), format!("tidegate-catalog {wanted} "));
            assert!(file.starts_with(front.as_bytes()), "{front}: {kinds}");
            assert_eq!(Catalog::decode(Path::new("c"), &file).unwrap(), catalog, "{kinds}");
        }
    }
}

//! The wishes, kept over restarts: the created policies, and which should be active.
//!
//! Wishes are a part of the catalog: their fields stand among its own, one for each world. Not
//! here: the policy that is active on a shard, which may differ after a failure (`eviction/`).

use std::collections::BTreeMap;
use std::fmt;

use futures::future::BoxFuture;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::PolicyInfo;
use super::worlds::{Served, WORLDS};
use crate::error::Result;
use crate::plugin;

/// Field of the policies that were created.
const CREATED: &str = "policies";
/// Field of the policy that governed the caches before, for a rollback.
const PREVIOUS: &str = "previous_policy";

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wishes {
    created: BTreeMap<String, PolicyInfo>,
    /// Names of policies, by the key of their world; the engine itself decides where absent.
    wanted: BTreeMap<&'static str, String>,
    /// Name of the policy that governed the caches before.
    pub(super) previous: Option<String>,
}

impl Wishes {
    /// Policies that were created, by name.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyInfo> {
        self.created.values()
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&PolicyInfo> {
        self.created.get(name)
    }

    pub(super) fn add(&mut self, info: PolicyInfo) {
        self.created.insert(info.name.clone(), info);
    }

    /// Forgets a policy and every wish for it.
    pub(super) fn remove(&mut self, name: &str) {
        self.created.remove(name);
        self.wanted.retain(|_, wanted| wanted != name);
        self.previous.take_if(|previous| previous == name);
    }

    /// The policy that a world should have; `None` is the engine itself.
    pub(super) fn wanted(&self, world: plugin::World) -> Option<&str> {
        self.wanted.get(Served::find(world).key).map(String::as_str)
    }

    pub(super) fn want(&mut self, world: plugin::World, name: Option<&str>) {
        let key = Served::find(world).key;
        match name {
            Some(name) => self.wanted.insert(key, name.to_owned()),
            None => self.wanted.remove(key),
        };
    }

    /// What a policy is in charge of, if of anything.
    pub(super) fn charge_of(&self, name: &str) -> Option<&'static str> {
        let is = |served: &&Served| self.wanted(served.world) == Some(name);
        WORLDS.iter().find(is).map(|served| served.charge)
    }
}

impl Serialize for Wishes {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry(CREATED, &self.created)?;
        for Served { key, .. } in &WORLDS {
            map.serialize_entry(key, &self.wanted.get(key))?;
        }
        map.serialize_entry(PREVIOUS, &self.previous)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Wishes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

/// Picks the fields of wishes from among others.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Wishes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("policies, and who is wanted in charge")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Wishes, A::Error> {
        let mut created = None;
        let mut wishes = Wishes::default();
        while let Some(field) = map.next_key::<String>()? {
            let world = WORLDS.iter().find(|served| served.key == field);
            match (field.as_str(), world) {
                (CREATED, _) => created = Some(map.next_value()?),
                (PREVIOUS, _) => wishes.previous = map.next_value()?,
                (_, Some(served)) => {
                    let name: Option<String> = map.next_value()?;
                    wishes.wanted.extend(name.map(|name| (served.key, name)));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        wishes.created = created.ok_or_else(|| A::Error::missing_field(CREATED))?;
        Ok(wishes)
    }
}

/// Where wishes are kept, and whose changes come one after another.
pub trait Keeper: Send + Sync {
    /// The wishes as of now.
    fn wishes(&self) -> Wishes;

    /// Stores changed wishes, then lets everyone see them.
    ///
    /// Errors: `Io`, `Unavailable` when nobody can know what was stored; `Closed`.
    fn keep(&self, wishes: Wishes) -> BoxFuture<'_, Result<()>>;

    /// Runs a change after those before it and to its end, also when the caller stops waiting.
    ///
    /// Errors: those of `change`; `Closed`.
    fn uninterrupted(
        &self,
        change: BoxFuture<'static, Result<()>>,
    ) -> BoxFuture<'static, Result<()>>;
}

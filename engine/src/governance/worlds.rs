//! The list of all worlds that the engine serves.

use std::rc::Rc;

use super::direct::{
    CacheAdmission, Compaction, IoPriority, LoadShedding, RateLimiter, ReadAdmission,
};
use super::eviction::Eviction;
use super::world::{Parts, Post, World};
use crate::plugin::{self, Instance};

/// Every world that the engine serves.
pub(super) static WORLDS: [Served; 7] = [
    Served::of::<Eviction>(),
    Served::of::<CacheAdmission>(),
    Served::of::<RateLimiter>(),
    Served::of::<ReadAdmission>(),
    Served::of::<LoadShedding>(),
    Served::of::<IoPriority>(),
    Served::of::<Compaction>(),
];

/// A world as the list has it.
pub(super) struct Served {
    pub(super) world: plugin::World,
    pub(super) key: &'static str,
    pub(super) charge: &'static str,
    pub(super) native: Option<&'static str>,
    pub(super) in_stages: bool,
    pub(super) post: fn(&Parts) -> Rc<dyn Post>,
}

impl Served {
    const fn of<W: World>() -> Self {
        Served {
            world: W::Policy::WORLD,
            key: W::KEY,
            charge: W::CHARGE,
            native: W::NATIVE,
            in_stages: W::IN_STAGES,
            post: W::post,
        }
    }

    /// What the list says of a world.
    pub(super) fn find(world: plugin::World) -> &'static Served {
        let found = WORLDS.iter().find(|served| served.world == world);
        found.expect("every world of the contract is in the list")
    }

    /// The world whose policies are rolled out in stages.
    pub(super) fn staged() -> &'static Served {
        WORLDS.iter().find(|served| served.in_stages).expect("one world has stages")
    }

    /// Whether a name stands for what decides without a component.
    pub(super) fn is_native(&self, name: &str) -> bool {
        self.native == Some(name)
    }
}

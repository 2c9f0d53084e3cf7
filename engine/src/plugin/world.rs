//! Which decision a component takes.

/// A world of the contract that this engine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    Eviction,
    CacheAdmission,
    RateLimiter,
    ReadAdmission,
    LoadShedding,
    IoPriority,
    Compaction,
}

impl World {
    pub const ALL: [World; 7] = [
        World::Eviction,
        World::CacheAdmission,
        World::RateLimiter,
        World::ReadAdmission,
        World::LoadShedding,
        World::IoPriority,
        World::Compaction,
    ];

    /// The decision, as `system.policies` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            World::Eviction => "eviction",
            World::CacheAdmission => "cache-admission",
            World::RateLimiter => "rate-limiter",
            World::ReadAdmission => "read-admission",
            World::LoadShedding => "load-shedding",
            World::IoPriority => "io-priority",
            World::Compaction => "compaction",
        }
    }

    /// The world of this decision.
    pub fn of(name: &str) -> Option<World> {
        World::ALL.into_iter().find(|world| world.as_str() == name)
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

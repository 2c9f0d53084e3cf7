//! Periodic work of a shard: unsynced records, queued cache events, plans of policies.

use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use crate::commitlog::Durability;
use crate::runtime;

/// Longest time between two looks at what time brings: unsynced records, waiting cache events.
const TICK: Duration = Duration::from_millis(50);
/// The same while nobody asks the shard for anything: waking a thread is most of what an idle
/// process costs.
const IDLE_TICK: Duration = Duration::from_millis(100);

impl Shard {
    pub(in crate::database) fn start_background(self: &Rc<Self>) {
        let shard = Rc::downgrade(self);
        let context = self.context.clone();
        let longest = match self.options.durability {
            Durability::Periodic { ms } => Duration::from_millis((ms / 2).max(1)),
            Durability::Sync | Durability::None => IDLE_TICK,
        };
        runtime::spawn_local("tick", async move {
            let mut is_idle = false;
            loop {
                let tick = if is_idle { IDLE_TICK } else { TICK };
                context.sleep(tick.min(longest)).await;
                let Some(shard) = shard.upgrade().filter(|shard| !shard.closing.get()) else {
                    return;
                };
                if let Ok(commitlog) = shard.commitlog() {
                    commitlog.tick();
                }
                shard.cache.tick(context.clock.monotonic_ns());
                shard.cache.trim();
                shard.retry_stuck();
                shard.watch_compactions();
                shard.policies.tick();
                context.io.tick();
                shard.watch_admission();
                shard.take_refused();
                shard.hot.borrow_mut().tick(context.clock.monotonic_ns());
                is_idle = shard.admission.is_idle();
            }
        });
    }

    /// Refuses what waited for too long, and follows the plans of policies.
    fn watch_admission(&self) {
        self.admission.tick(self.memtable_bytes() as u64, self.memtable_bytes_max() as u64);
        if self.admission.has_late_write() {
            self.wake_log_waiters();
            self.flushing.flushed.notify_waiters();
        }
    }
}

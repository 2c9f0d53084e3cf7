//! The macro that turns a policy into a component; natively it expands to nothing.

/// Exports an [`EvictionPolicy`](crate::EvictionPolicy) as a component of world `eviction-policy`.
#[macro_export]
macro_rules! export_eviction {
    ($policy:ident) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            use $crate::guest::{Place, eviction, lifecycle, with};

            type Policy = super::$policy;

            thread_local! {
                static PLACE: Place<Policy> = const { Place::new(None) };
            }

            struct Component;

            impl lifecycle::Guest for Component {
                fn init(
                    params: Vec<lifecycle::Param>,
                    max_slots: u32,
                    shard: u32,
                    seed: u64,
                ) -> Result<lifecycle::Caps, String> {
                    let params = params.into_iter().map(|p| (p.name, p.value)).collect();
                    let setup = $crate::Setup { params, max_slots, shard, seed };
                    PLACE.with(|place| $crate::guest::init(place, &setup))
                }

                fn tick(now_us: u64) {
                    PLACE.with(|p| with(p, |d| $crate::EvictionPolicy::tick(d.policy_mut(), now_us)))
                }

                fn snapshot() -> Vec<u8> {
                    PLACE.with(|p| with(p, |d| $crate::EvictionPolicy::snapshot(d.policy())))
                }

                fn restore(schema: u32, state: Vec<u8>) -> Result<(), String> {
                    PLACE.with(|p| {
                        with(p, |d| {
                            $crate::EvictionPolicy::restore(d.policy_mut(), schema, &state)
                        })
                    })
                }

                fn metrics() -> Vec<lifecycle::Metric> {
                    let figures =
                        PLACE.with(|p| with(p, |d| $crate::EvictionPolicy::metrics(d.policy())));
                    figures
                        .into_iter()
                        .map(|(name, value)| lifecycle::Metric { name: name.to_string(), value })
                        .collect()
                }

                fn fini() {
                    PLACE.with(|place| place.borrow_mut().take());
                }
            }

            impl eviction::Guest for Component {
                fn apply(
                    events: Vec<u64>,
                    attrs: Vec<u64>,
                    want_entries: u32,
                    want_bytes: u64,
                ) -> Vec<u32> {
                    let mut victims = Vec::new();
                    PLACE.with(|p| {
                        with(p, |d| {
                            d.apply(&events, &attrs, want_entries, want_bytes, &mut victims)
                        })
                    });
                    victims
                }

                fn drain_order(cursor: u32, max: u32) -> Vec<u32> {
                    PLACE.with(|p| with(p, |d| d.drain_order(cursor, max).to_vec()))
                }

                fn resize(capacity_bytes: u64, max_slots: u32) {
                    PLACE.with(|p| {
                        with(p, |d| {
                            $crate::EvictionPolicy::resize(d.policy_mut(), capacity_bytes, max_slots)
                        })
                    })
                }
            }

            $crate::guest::bindings::export!(Component with_types_in $crate::guest::bindings);
        }
    };
}

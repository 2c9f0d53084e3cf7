//! The macros that turn a policy into a component; natively they expand to nothing.
//!
//! A guest has one thread, so the policy stands in a thread-local. A panic is logged at error level
//! before the trap, because the host keeps the last error line for its failure record.

/// Exports an [`AdmissionPolicy`](crate::AdmissionPolicy) as a component of world
/// `cache-admission-policy`. The text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_admission {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "cache-admission-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::cache_admission;

            $crate::lifecycle!(super::$policy, CacheAdmission, {
                bytes_per_slot: <Policy as $crate::AdmissionPolicy>::BYTES_PER_SLOT,
                wants_miss_events: <Policy as $crate::AdmissionPolicy>::WANTS_FEEDBACK,
            }, [$crate::AdmissionPolicy]);

            impl cache_admission::Guest for Component {
                fn admit(fingerprint: u64, size_cost: u64, ctx: u64) -> u32 {
                    let candidate = $crate::Candidate { fingerprint, size_cost, ctx };
                    with(|p| u32::from(<Policy as World>::admit(p, &candidate)))
                }

                fn admit_batch(words: Vec<u64>) -> Vec<u8> {
                    let candidates = words.as_chunks::<3>().0.iter();
                    let admit = |p: &mut Policy, words: &[u64; 3]| {
                        let [fingerprint, size_cost, ctx] = *words;
                        let candidate = $crate::Candidate { fingerprint, size_cost, ctx };
                        u8::from(<Policy as World>::admit(p, &candidate))
                    };
                    with(|p| candidates.map(|words| admit(p, words)).collect())
                }

                fn feedback(words: Vec<u64>) {
                    with(|p| {
                        for fate in $crate::words_of_fates(&words) {
                            <Policy as World>::feedback(p, fate);
                        }
                    })
                }
            }

            export!(Component);
        }
    };
}

/// Exports a [`RatePolicy`](crate::RatePolicy) as a component of world `rate-limiter-policy`. The
/// text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_rate {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "rate-limiter-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::rate_limiter;

            $crate::lifecycle!(super::$policy, RateLimiter, {
                bytes_per_slot: 0,
                wants_miss_events: false,
            }, [$crate::RatePolicy]);

            impl rate_limiter::Guest for Component {
                fn plan(now_us: u64, stats: Vec<u64>) -> Vec<u64> {
                    let loads: Vec<$crate::KeyLoad> = $crate::KeyLoad::of_words(&stats).collect();
                    let plan = with(|p| <Policy as World>::plan(p, now_us, &loads));
                    plan.iter().flat_map(|rate| [rate.key, rate.rate_milli, rate.burst]).collect()
                }

                fn exceeded(key: u64, class_op: u64, deficit_milli: u64) -> u32 {
                    let excess = $crate::Excess { key, class_op, deficit_milli };
                    with(|p| {
                        let goes_through = <Policy as World>::exceeded(p, &excess);
                        let holds_for = <Policy as World>::holds_for(p, &excess, goes_through);
                        u32::from(goes_through) | u32::from(holds_for) << 8
                    })
                }
            }

            export!(Component);
        }
    };
}

/// Exports a [`ReadAdmissionPolicy`](crate::ReadAdmissionPolicy) as a component of world
/// `read-admission-policy`. The text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_read_admission {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "read-admission-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::read_admission;

            $crate::lifecycle!(super::$policy, ReadAdmission, {
                bytes_per_slot: 0,
                wants_miss_events: false,
            }, [$crate::ReadAdmissionPolicy]);

            impl read_admission::Guest for Component {
                fn plan(now_us: u64, memory_free: u64, stats: Vec<u64>) -> Vec<u64> {
                    let loads: Vec<$crate::ReadLoad> = $crate::ReadLoad::of_words(&stats).collect();
                    let plan = with(|p| <Policy as World>::plan(p, now_us, memory_free, &loads));
                    plan.iter()
                        .flat_map(|limits| {
                            let $crate::ReadLimits { running_max, memory_bytes_max, .. } = *limits;
                            let (queued_max, wait_us_max) = (limits.queued_max, limits.wait_us_max);
                            [running_max, memory_bytes_max, queued_max, wait_us_max]
                        })
                        .collect()
                }
            }

            export!(Component);
        }
    };
}

/// Exports a [`LoadSheddingPolicy`](crate::LoadSheddingPolicy) as a component of world
/// `load-shedding-policy`. The text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_load_shedding {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "load-shedding-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::load_shedding;

            $crate::lifecycle!(super::$policy, LoadShedding, {
                bytes_per_slot: 0,
                wants_miss_events: false,
            }, [$crate::LoadSheddingPolicy]);

            impl load_shedding::Guest for Component {
                fn plan(now_us: u64, signals: Vec<u64>) -> Vec<u32> {
                    let signals = $crate::Signals::of_words(&signals);
                    let plan = with(|p| <Policy as World>::plan(p, now_us, &signals));
                    plan.iter().flat_map(|shed| [shed.per_mille, shed.wait_ms_max]).collect()
                }
            }

            export!(Component);
        }
    };
}

/// Exports an [`IoPriorityPolicy`](crate::IoPriorityPolicy) as a component of world
/// `io-priority-policy`. The text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_io_priority {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "io-priority-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::io_priority;

            $crate::lifecycle!(super::$policy, IoPriority, {
                bytes_per_slot: 0,
                wants_miss_events: false,
            }, [$crate::IoPriorityPolicy]);

            impl io_priority::Guest for Component {
                fn plan(now_us: u64, disk: Vec<u64>, classes: Vec<u64>) -> Vec<u32> {
                    let disk = $crate::DiskLoad::of_words(&disk);
                    let classes: Vec<$crate::ClassLoad> =
                        $crate::ClassLoad::of_words(&classes).collect();
                    with(|p| <Policy as World>::plan(p, now_us, &disk, &classes))
                }
            }

            export!(Component);
        }
    };
}

/// Exports a [`CompactionPolicy`](crate::CompactionPolicy) as a component of world
/// `compaction-policy`. The text is the folder of the WIT package, from the policy's crate.
#[macro_export]
macro_rules! export_compaction {
    ($policy:ident, $wit:tt) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            $crate::wit_bindgen::generate!({
                path: $wit,
                world: "compaction-policy",
                runtime_path: "::tidegate_plugin_decision::wit_bindgen::rt",
            });

            use exports::tidegate::policy::compaction;

            $crate::lifecycle!(super::$policy, Compaction, {
                bytes_per_slot: 0,
                wants_miss_events: false,
            }, [$crate::CompactionPolicy]);

            impl compaction::Guest for Component {
                fn pick(
                    table: compaction::Table,
                    sstables: Vec<compaction::Sstable>,
                ) -> compaction::Choice {
                    let table = $crate::Table {
                        name: table.name,
                        now_seconds: table.now_seconds,
                        strategy: match table.strategy {
                            compaction::Strategy::SizeTiered => $crate::Strategy::SizeTiered,
                            compaction::Strategy::Leveled => $crate::Strategy::Leveled,
                            compaction::Strategy::TimeWindow => $crate::Strategy::TimeWindow,
                            compaction::Strategy::Incremental => $crate::Strategy::Incremental,
                        },
                        min_threshold: table.min_threshold,
                        max_threshold: table.max_threshold,
                        sstable_bytes: table.sstable_bytes,
                    };
                    let sstable = |file: compaction::Sstable| $crate::Sstable {
                        id: file.id,
                        run: file.run,
                        level: file.level,
                        bytes: file.bytes,
                        partitions: file.partitions,
                        rows: file.rows,
                        first_token: file.first_token,
                        last_token: file.last_token,
                        min_timestamp: file.min_timestamp,
                        max_timestamp: file.max_timestamp,
                        droppable_per_mille: file.droppable_per_mille,
                        age_seconds: file.age_seconds,
                    };
                    let sstables: Vec<$crate::Sstable> =
                        sstables.into_iter().map(sstable).collect();
                    match with(|p| <Policy as World>::pick(p, &table, &sstables)) {
                        $crate::Choice::Nothing => compaction::Choice::Nothing,
                        $crate::Choice::Strategy => compaction::Choice::Strategy,
                        $crate::Choice::Merge(job) => compaction::Choice::Merge(compaction::Job {
                            inputs: job.inputs,
                            level: job.level,
                            split_bytes: job.split_bytes,
                            incremental: job.incremental,
                        }),
                    }
                }
            }

            export!(Component);
        }
    };
}

/// The exports that all worlds have; used by the other macros.
#[doc(hidden)]
#[macro_export]
macro_rules! lifecycle {
    (
        $policy:path,
        $hook:ident,
        { bytes_per_slot: $bytes:expr, wants_miss_events: $wants:expr, },
        [$($world:tt)+]
    ) => {
        use std::cell::RefCell;

        use exports::tidegate::policy::lifecycle;
        use $($world)+ as World;

        type Policy = $policy;

        thread_local! {
            static PLACE: RefCell<Option<Policy>> = const { RefCell::new(None) };
        }

        /// Runs `work` on the policy. Panics, that is traps, when the host calls before `init`.
        fn with<R>(work: impl FnOnce(&mut Policy) -> R) -> R {
            PLACE.with(|place| work(place.borrow_mut().as_mut().expect("init is the first call")))
        }

        struct Component;

        impl lifecycle::Guest for Component {
            fn init(
                params: Vec<lifecycle::Param>,
                max_slots: u32,
                shard: u32,
                seed: u64,
            ) -> Result<lifecycle::Caps, String> {
                std::panic::set_hook(Box::new(|panic| {
                    tidegate::policy::host::log(4, &panic.to_string());
                }));
                let params = params.into_iter().map(|p| (p.name, p.value)).collect();
                let setup = $crate::Setup { params, max_slots, shard, seed };
                let policy = <Policy as World>::new(&setup)?;
                PLACE.with(|place| place.replace(Some(policy)));
                Ok(lifecycle::Caps {
                    hook: lifecycle::Hook::$hook,
                    name: <Policy as World>::NAME.to_string(),
                    version: <Policy as World>::VERSION.to_string(),
                    deterministic: true,
                    wants_miss_events: $wants,
                    wants_ticks_ms: 0,
                    state_schema: 0,
                    bytes_per_slot: $bytes,
                })
            }

            fn tick(_: u64) {}

            fn snapshot() -> Vec<u8> {
                Vec::new()
            }

            fn restore(schema: u32, _: Vec<u8>) -> Result<(), String> {
                Err(format!("it keeps no state, so it cannot restore schema {schema}"))
            }

            fn metrics() -> Vec<lifecycle::Metric> {
                let figures = with(|p| <Policy as World>::metrics(p));
                let figures = figures.into_iter();
                figures
                    .map(|(name, value)| lifecycle::Metric { name: name.to_string(), value })
                    .collect()
            }

            fn fini() {
                PLACE.with(|place| place.borrow_mut().take());
            }
        }
    };
}

//! What a thousand loads leave in memory: good policies and hostile ones, made, run and dropped.

use tidegate_engine::os::process_rss_bytes;
use tidegate_engine::plugin::{
    InstanceOptions, Loaded, PolicyHost, WasmEvictionPolicy, WasmReadAdmissionPolicy, World,
};
use tidegate_engine::policy::EvictionPolicy;
use tidegate_engine::policy::admission::{ReadAdmissionPolicy, ReadLimits, ReadLoad};
use tidegate_engine::policy::event::{EntryKind, Op, event};

use super::component;
use super::frame::{Arguments, Row, Target};
use super::guest::{FIFO, FIFO_APPLY, FOREVER, Guest, list_of, read_admission, saboteur};

const LOADS: usize = 1_000;
/// Before memory is looked at for the first time.
const LOADS_FIRST: usize = 300;
/// Bytes that the allocator may keep of any work.
const GROWTH_MIB_MAX: f64 = 4.0;

/// Components, and what is none.
fn kinds() -> Vec<Vec<u8>> {
    let fifo =
        || Guest { fields: FIFO.to_string(), apply: FIFO_APPLY.to_string(), ..Guest::default() };
    let apply = |body: &str| Guest { apply: body.to_owned(), ..fifo() }.component();
    let grow = "loop $more (drop (memory.grow (i32.const 64))) br $more end unreachable";
    let mut truncated = component("lru");
    truncated.truncate(truncated.len() / 2);
    vec![
        component("s3_fifo"),
        component("w_tinylfu"),
        component("latency"),
        fifo().component(),
        saboteur(2).component(),
        apply(&format!("{FOREVER} unreachable")),
        apply(grow),
        apply(&list_of(1000, 0)),
        Guest { init: "unreachable".into(), ..fifo() }.component(),
        Guest { bytes_per_slot: 1 << 20, ..fifo() }.component(),
        Guest { pages: 1025, ..fifo() }.component(),
        read_admission("unreachable"),
        fifo().module(),
        truncated,
    ]
}

/// Makes an instance and works with it until it fails.
fn work(loaded: &Loaded) {
    let options =
        || InstanceOptions { max_slots: 64, capacity_bytes: 1 << 18, ..InstanceOptions::default() };
    if loaded.compiled.world() == World::ReadAdmission {
        let made = WasmReadAdmissionPolicy::new(loaded.compiled.clone(), options());
        let start =
            ReadLimits { running_max: 1, memory_bytes_max: 1, queued_max: 1, wait_us_max: 1 };
        // Some of them fail; what they leave is what counts.
        let _ended = made
            .and_then(|mut policy| policy.plan(1, 1, &[ReadLoad::default(); 2], &mut [start; 2]));
        return;
    }
    let Ok(mut policy) = WasmEvictionPolicy::new(loaded.compiled.clone(), options()) else {
        return;
    };
    let words: Vec<u64> =
        (0..32).map(|slot| event(slot, Op::Insert, EntryKind::Row, 0, 0)).collect();
    for round in 0..4 {
        let events = if round == 0 { &words[..] } else { &[] };
        let attributes = vec![0; 3 * events.len()];
        if policy.apply(events, &attributes, 4, 0, &mut Vec::new()).is_err() {
            return;
        }
    }
}

/// Runs the row if it is wanted.
pub fn run(arguments: &Arguments, host: &PolicyHost) {
    let name = "memory after 1,000 loads, more";
    if !arguments.wants(name) {
        return;
    }
    let kinds = kinds();
    let mut kept: Vec<Option<Vec<u8>>> = vec![None; kinds.len()];
    let mut load = |count: usize| {
        let mut refused = 0;
        for at in 0..count {
            let kind = at % kinds.len();
            match host.load("p", &kinds[kind], kept[kind].as_deref()) {
                Ok(mut loaded) => {
                    kept[kind] = loaded.artifact.take().or(kept[kind].take());
                    work(&loaded);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0 && refused < count, "{refused} of {count} were refused");
    };
    load(LOADS_FIRST);
    let before = process_rss_bytes().unwrap();
    load(LOADS);
    let after = process_rss_bytes().unwrap();
    Row {
        name,
        unit: "MiB",
        figure: (after as f64 - before as f64) / f64::from(1 << 20),
        baseline: Some(("of the process before, MiB", before as f64 / f64::from(1 << 20))),
        target: Target::AtMost(GROWTH_MIB_MAX),
    }
    .print(arguments);
}

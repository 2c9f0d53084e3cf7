//! `cargo bench --bench policy`: what a policy as a component costs, and what its swap does.
//!
//! Calls are timed through the host as the engine makes them, fuel and epoch included. Page hits go
//! through the page cache, point reads through a shard. Figures are medians of repeats in which
//! component and native take turns.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "policy/acceptance.rs"]
mod acceptance;
#[allow(dead_code, reason = "the engine's tests use the rest of it")]
#[path = "../engine/src/plugin/tests/guest.rs"]
mod guest;
#[path = "policy/loads.rs"]
mod loads;
#[path = "policy/misses.rs"]
mod misses;
#[path = "policy/native.rs"]
mod native;
#[allow(dead_code, reason = "the tests of the policies use the rest of it")]
#[path = "../plugins/acceptance/src/published.rs"]
mod published;
#[path = "policy/scan.rs"]
mod scan;
#[path = "../tests/skip.rs"]
mod skip;

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use frame::table::{definition, partition_key, write};
use frame::{Arguments, Row, Target, cpu_timed, median, print_head, thread_cpu_timed, timed};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::LocalBoxFuture;
use tidegate_engine::cache::{
    EntryId, Governor, Owner, PageCache, PagedFile, PolicyIdentity, ShadowPurpose, SwapStep,
};
use tidegate_engine::clock::Random;
use tidegate_engine::config::PAGE_BYTES;
use tidegate_engine::database::Shard;
use tidegate_engine::disk::{AlignedBuffer, DiskFile};
use tidegate_engine::mutation::PartitionRange;
use tidegate_engine::plugin::{
    CompiledPolicy, HostOptions, InstanceOptions, PolicyHost, WasmEvictionPolicy,
};
use tidegate_engine::policy::event::{EntryAttributes, EntryKind, LOAD_COST_US, Op, event};
use tidegate_engine::policy::{EvictionPolicy, Lru, Slot};
use tidegate_engine::{
    Database, Direction, Durability, Options, PartitionKey, Result, SchemaRef, Slice,
};

const REPEATS: usize = 9;
const EVENTS: usize = 256;
const PAGES: u64 = 4096;

fn component(name: &str) -> Vec<u8> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/dist");
    std::fs::read(dist.join(format!("{name}.wasm"))).unwrap()
}

fn load(host: &PolicyHost, name: &str) -> Arc<CompiledPolicy> {
    host.compile(name, &component(name)).unwrap()
}

fn instance(compiled: &Arc<CompiledPolicy>, max_slots: u32) -> WasmEvictionPolicy {
    let capacity_bytes = u64::from(max_slots) * PAGE_BYTES as u64;
    let options = InstanceOptions { max_slots, capacity_bytes, ..InstanceOptions::default() };
    WasmEvictionPolicy::new(compiled.clone(), options).unwrap()
}

fn identity(name: &str) -> PolicyIdentity {
    PolicyIdentity { name: name.into(), ..PolicyIdentity::default() }
}

/// ns of one of `count` repetitions.
fn ns_each(count: usize, mut work: impl FnMut(u64)) -> f64 {
    let ((), time) = timed(|| (0..count as u64).for_each(&mut work));
    time.as_nanos() as f64 / count as f64
}

fn medians(mut measure: impl FnMut() -> (f64, f64)) -> (f64, f64) {
    let (first, second): (Vec<f64>, Vec<f64>) = (0..REPEATS).map(|_| measure()).unzip();
    (median(first), median(second))
}

// --- Calls -----------------------------------------------------------------------------------

fn calls(arguments: &Arguments, host: &PolicyHost) {
    let count = arguments.scale(20_000, 200_000);
    let fifo = load(host, "fifo");
    if arguments.wants("scalar call") {
        let mut policy = instance(&fifo, 1024);
        let figure =
            median((0..REPEATS).map(|_| ns_each(count, |now| policy.tick(now).unwrap())).collect());
        Row {
            name: "scalar call",
            unit: "ns",
            figure,
            baseline: None,
            target: Target::AtMost(250.0),
        }
        .print(arguments);
    }
    if arguments.wants("list of 256 events") {
        // FIFO makes nothing of reads, so this is the way there and back.
        let mut policy = instance(&fifo, 1024);
        let mut native = Lru::default();
        let words: Vec<u64> = (0..EVENTS)
            .map(|at| event(at as Slot, Op::Access, EntryKind::DataPage, 0, 0))
            .collect();
        let inserts: Vec<u64> = (0..EVENTS)
            .map(|at| event(at as Slot, Op::Insert, EntryKind::DataPage, 0, 0))
            .collect();
        let attributes = vec![0; 3 * EVENTS];
        let mut victims = Vec::new();
        policy.apply(&inserts, &attributes, 0, 0, &mut victims).unwrap();
        native.apply(&inserts, &attributes, 0, 0, &mut victims).unwrap();
        let count = count / 10;
        let (component, native) = medians(|| {
            let mut each = |policy: &mut dyn EvictionPolicy| {
                ns_each(count, |_| {
                    policy.apply(black_box(&words), &[], 0, 0, &mut victims).unwrap();
                }) / EVENTS as f64
            };
            (each(&mut policy), each(&mut native))
        });
        Row {
            name: "list of 256 events, each",
            unit: "ns",
            figure: component,
            baseline: Some(("native LRU", native)),
            target: Target::AtMost(3.0),
        }
        .print(arguments);
    }
}

// --- The page cache --------------------------------------------------------------------------

/// A file of which nothing is on a disk.
struct Blank {
    path: PathBuf,
}

impl DiskFile for Blank {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        async { Ok(u64::MAX / 2 / PAGE_BYTES as u64 * PAGE_BYTES as u64) }.boxed_local()
    }

    fn read_at(
        &self,
        _: u64,
        mut buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        async move {
            buffer.set_len(buffer.capacity());
            (Ok(()), buffer)
        }
        .boxed_local()
    }

    fn write_at(
        &self,
        _: u64,
        _: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        unreachable!("the cache only reads")
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }

    fn allocate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }

    fn truncate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }
}

/// A page cache under a policy, full, and a file that is read through it.
fn cached(policy: Box<dyn EvictionPolicy>) -> (Rc<PageCache>, PagedFile) {
    let cache = PageCache::new(PAGES as usize * PAGE_BYTES, 1);
    cache.begin_policy(policy, identity("policy")).unwrap();
    while cache.step_policy_swap(256) == SwapStep::Working {}
    cache.drop_standby_policy();
    let blank = Rc::new(Blank { path: PathBuf::from("blank") });
    let file = block_on(PagedFile::new(cache.clone(), blank)).unwrap();
    for page in 0..PAGES {
        block_on(file.page(page)).unwrap();
    }
    (cache, file)
}

/// Numbers of pages of which one in `miss_one_in` was never read before.
fn page_numbers(count: usize, miss_one_in: Option<u64>) -> Vec<u64> {
    let mut random = Random::new(3);
    let mut fresh = PAGES;
    let mut next = || match miss_one_in {
        Some(one_in) if random.one_in(one_in) => {
            fresh += 1;
            fresh
        }
        // A hot part, so that no order matters.
        Some(_) => random.below(PAGES / 4),
        None => random.below(PAGES),
    };
    (0..count).map(|_| next()).collect()
}

fn page_reads(arguments: &Arguments, host: &PolicyHost) {
    let lru = load(host, "lru");
    let rows = [
        ("page hit, component less native", None, 1_000_000),
        ("page read, 20 % misses, component less native", Some(5), 200_000),
    ];
    for (name, miss_one_in, count) in rows {
        if !arguments.wants(name) {
            continue;
        }
        let numbers = page_numbers(arguments.scale(count / 4, count), miss_one_in);
        let (component, native) = medians(|| {
            let each = |policy: Box<dyn EvictionPolicy>| {
                let (cache, file) = cached(policy);
                let before = cache.stats().total;
                let each = ns_each(numbers.len(), |at| {
                    let number = numbers[at as usize];
                    match file.cached_page(number) {
                        Some(page) => drop(black_box(page)),
                        None => drop(black_box(block_on(file.page(number)).unwrap())),
                    }
                });
                cache.deliver();
                let misses = cache.stats().total.misses - before.misses;
                let wanted = miss_one_in.map_or(0.0, |one_in| 1.0 / one_in as f64);
                let found = misses as f64 / numbers.len() as f64;
                assert!((found - wanted).abs() < 0.02, "{found} of the reads missed");
                each
            };
            let slots = PAGES as u32;
            (each(Box::new(instance(&lru, slots))), each(Box::<Lru>::default()))
        });
        // With misses, the rows below say what is to hold.
        let target = miss_one_in.map_or(Target::AtMost(25.0), |_| Target::None);
        Row {
            name,
            unit: "ns",
            figure: component - native,
            baseline: Some(("a read under native LRU", native)),
            target,
        }
        .print(arguments);
    }
}

// --- Point reads of a shard ------------------------------------------------------------------

/// CPU µs of a read of a whole small partition, on its shard; all pages are in memory.
async fn shard_reads(database: &Database, schema: &SchemaRef, keys: &[i64]) -> f64 {
    let keys: Vec<PartitionKey> = keys.iter().map(|pk| partition_key(schema, *pk)).collect();
    let (id, count) = (schema.id, keys.len());
    let route = keys[0].clone();
    let work = move |shard: Rc<Shard>| {
        async move {
            let table = shard.table(id).unwrap();
            let mut fragments = VecDeque::new();
            let slice = Slice::full(Direction::Forward);
            for key in keys {
                let mut source = table.read(&PartitionRange::Single(key), &slice, false);
                let mut found = 0;
                loop {
                    source.fill(&mut fragments).await.unwrap();
                    if fragments.is_empty() {
                        break;
                    }
                    found += fragments.drain(..).count();
                }
                assert!(found > 0, "a read found nothing");
            }
        }
        .boxed_local()
    };
    let (result, cpu) = cpu_timed(database.on_shard(&route, work)).await;
    result.unwrap();
    cpu.as_secs_f64() * 1e6 / count as f64
}

async fn point_reads(arguments: &Arguments, directory: &Path) {
    let name = "hot partition reads, component";
    if !arguments.wants(name) {
        return;
    }
    let open = || {
        let mut options = Options::new(directory);
        options.shards = Some(1);
        options.durability = Durability::None;
        options.cache_bytes = 256 << 20;
        Database::open(options)
    };
    let database = open().await.unwrap();
    let schema = database.create_table(definition("reads"), false).await.unwrap();
    let partitions = arguments.scale(2_000, 20_000) as i64;
    for pk in 0..partitions {
        database.apply_many((0..4).map(|ck| write(&schema, pk, ck, 1)).collect()).await.unwrap();
    }
    database.create_policy("component", component("lru"), vec![], None).await.unwrap();
    database.close().await.unwrap();
    let mut random = Random::new(1);
    let reads = arguments.scale(10_000, 100_000);
    let keys: Vec<i64> = (0..reads).map(|_| random.below(partitions as u64) as i64).collect();
    let (mut component, mut native) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        for (policy, figures) in [(Some("component"), &mut component), (None, &mut native)] {
            // Brought back by a start, it is alone: after a change the one before is told of
            // everything for a minute too.
            let database = open().await.unwrap();
            database.set_cache_policy(policy).await.unwrap();
            database.close().await.unwrap();
            let database = open().await.unwrap();
            // The first run fills the cache.
            shard_reads(&database, &schema, &keys).await;
            figures.push(shard_reads(&database, &schema, &keys).await);
            database.close().await.unwrap();
        }
    }
    Row {
        name,
        unit: "CPU us",
        figure: median(component),
        baseline: Some(("native LRU", median(native))),
        target: Target::RatioAtMost(1.03),
    }
    .print(arguments);
}

// --- Swaps and shadows: a governor over a cache of ids ---------------------------------------

const ENTRY_BYTES: u32 = 100;

struct Ids {
    governor: Governor,
    capacity_bytes: u64,
    slots: HashMap<u64, Slot>,
    ids: IdOfSlot,
    victims: Vec<Slot>,
    lookups: u64,
    hits: u64,
    /// Look-ups for which no room was to be had.
    failed: u64,
}

struct IdOfSlot(Vec<u64>);

impl Owner for IdOfSlot {
    fn is_in_use(&self, _: Slot) -> bool {
        false
    }

    fn id(&self, slot: Slot) -> EntryId {
        EntryId { fingerprint: self.0[slot as usize], table: 0 }
    }
}

impl Ids {
    fn new(entries: u32, policy: Box<dyn EvictionPolicy>) -> Self {
        let capacity_bytes = u64::from(entries) * u64::from(ENTRY_BYTES);
        let mut governor = Governor::new(capacity_bytes, entries);
        let ids = IdOfSlot(vec![0; entries as usize]);
        governor.begin_replace(policy, identity("first"), &ids).unwrap();
        while governor.step_replace(256, &ids) == SwapStep::Working {}
        governor.drop_standby();
        Ids {
            governor,
            capacity_bytes,
            slots: HashMap::new(),
            ids,
            victims: Vec::new(),
            lookups: 0,
            hits: 0,
            failed: 0,
        }
    }

    fn look_up(&mut self, id: u64) {
        self.lookups += 1;
        if let Some(slot) = self.slots.get(&id) {
            self.hits += 1;
            self.governor.hit(*slot, &self.ids);
            return;
        }
        if self.governor.bytes() + u64::from(ENTRY_BYTES) > self.capacity_bytes {
            self.governor.evict(u64::from(ENTRY_BYTES), &self.ids, &mut self.victims);
            for slot in self.victims.drain(..) {
                self.slots.remove(&self.ids.0[slot as usize]);
            }
        }
        let attributes = EntryAttributes {
            fingerprint: id,
            size_bytes: ENTRY_BYTES,
            cost_us: LOAD_COST_US,
            table: 0,
        };
        match self.governor.allocate(attributes, EntryKind::DataPage) {
            Some(slot) => {
                self.ids.0[slot as usize] = id;
                self.slots.insert(id, slot);
            }
            None => self.failed += 1,
        }
    }
}

/// What a swap did to those who look something up meanwhile.
struct Swapped {
    /// Longest single stretch of it, µs of CPU.
    longest_us: f64,
    /// Look-ups for which no room was to be had.
    failed: u64,
    /// Hit ratio before less the lowest of a stretch of look-ups while and after it, points.
    dip: f64,
    /// The way back, µs.
    rollback_us: f64,
}

/// A swap with look-ups in between.
fn swap(entries: u32, from: Box<dyn EvictionPolicy>, to: Box<dyn EvictionPolicy>) -> Swapped {
    let mut ids = Ids::new(entries, from);
    (0..u64::from(entries)).for_each(|id| ids.look_up(id));
    let mut random = Random::new(1);
    let look_up = |ids: &mut Ids, random: &mut Random, count: u64| {
        let (lookups, hits) = (ids.lookups, ids.hits);
        (0..count).for_each(|_| ids.look_up(random.below(u64::from(entries) * 5 / 4)));
        (ids.hits - hits) as f64 / (ids.lookups - lookups) as f64 * 100.0
    };
    // Long enough that a ratio is good to a tenth of a point.
    let measured = u64::from(entries);
    look_up(&mut ids, &mut random, 2 * measured);
    let before = look_up(&mut ids, &mut random, measured);
    let start = (ids.lookups, ids.hits);
    let mut longest = 0.0_f64;
    let mut stretch = |work: &mut dyn FnMut()| {
        let ((), time) = thread_cpu_timed(work);
        longest = longest.max(time.as_nanos() as f64 / 1000.0);
    };
    let mut next = Some(to);
    stretch(&mut || {
        let policy = next.take().expect("a swap begins once");
        ids.governor.begin_replace(policy, identity("next"), &ids.ids).unwrap();
    });
    loop {
        let mut step = SwapStep::Idle;
        stretch(&mut || step = ids.governor.step_replace(256, &ids.ids));
        match step {
            SwapStep::Working => {}
            SwapStep::Switched => break,
            other => panic!("the swap ended as {other:?}"),
        }
        stretch(&mut || {
            look_up(&mut ids, &mut random, 64);
        });
    }
    let meanwhile = (ids.hits - start.1) as f64 / (ids.lookups - start.0) as f64 * 100.0;
    let after = look_up(&mut ids, &mut random, measured);
    assert_eq!(ids.slots.len(), entries as usize, "the cache stays full");
    let (is_back, time) = timed(|| ids.governor.rollback());
    assert!(is_back, "the policy before stood by");
    stretch(&mut || ids.governor.drop_standby());
    Swapped {
        longest_us: longest,
        failed: ids.failed,
        dip: before - meanwhile.min(after),
        rollback_us: time.as_nanos() as f64 / 1000.0,
    }
}

fn swaps(arguments: &Arguments, host: &PolicyHost) {
    let entries = arguments.scale(1 << 18, 1 << 20) as u32;
    let (sieve, lru) = (load(host, "sieve"), load(host, "lru"));
    let rows = [
        ("swap, 1 M residents, native to component", false),
        ("swap, 1 M residents, component to component", true),
    ];
    for (name, is_component) in rows {
        if !arguments.wants(name) {
            continue;
        }
        let from: Box<dyn EvictionPolicy> = match is_component {
            true => Box::new(instance(&lru, entries)),
            false => Box::new(Lru::default()),
        };
        let swapped = swap(entries, from, Box::new(instance(&sieve, entries)));
        let rows = [
            (name, "us", swapped.longest_us, 1000.0),
            ("look-ups that failed meanwhile", "", swapped.failed as f64, 0.0),
            ("hit ratio lost meanwhile and after", "points", swapped.dip, 1.0),
            ("rollback", "us", swapped.rollback_us, 1000.0),
        ];
        for (name, unit, figure, most) in rows {
            Row { name, unit, figure, baseline: None, target: Target::AtMost(most) }
                .print(arguments);
        }
    }
}

/// A Zipf law (exponent 0.9) over ids, with scans of ids that never return.
fn trace(count: usize, ids: u32) -> Vec<u64> {
    let mut random = Random::new(9);
    let mut sum = 0.0;
    let weights: Vec<f64> = (1..=ids)
        .map(|rank| {
            sum += f64::from(rank).powf(-0.9);
            sum
        })
        .collect();
    let (mut scan_left, mut scanned) = (0, 1 << 40);
    (0..count)
        .map(|_| {
            if scan_left == 0 && random.one_in(20_000) {
                scan_left = 6_000;
            }
            if scan_left > 0 && random.one_in(2) {
                scan_left -= 1;
                scanned += 1;
                return scanned;
            }
            let at = random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
            Random::new(weights.partition_point(|weight| *weight < at) as u64).next_u64()
        })
        .collect()
}

fn shadows(arguments: &Arguments, host: &PolicyHost) {
    let entries = 16_384;
    let s3_fifo = load(host, "s3_fifo");
    let shadow = |ids: &mut Ids, sample: u32| {
        let limits = ids.governor.shadow_limits(sample);
        let policy = Box::new(instance(&s3_fifo, limits.slots_max));
        let purpose = ShadowPurpose::Candidate;
        ids.governor.begin_shadow(policy, identity("shadow"), purpose, limits).unwrap();
        while ids.governor.step_shadow(256, &ids.ids) {}
    };
    let count = arguments.scale(1_000_000, 6_000_000);
    let rows = [
        ("shadow at 1/64, error of the hit ratio", 64, 1.0),
        ("shadow in full, error of the hit ratio", 1, 1.0),
    ];
    for (name, sample, target) in rows {
        if !arguments.wants(name) {
            continue;
        }
        let trace = trace(count, 200_000);
        let (warm, measured) = trace.split_at(count / 4);
        let mut real = Ids::new(entries, Box::new(instance(&s3_fifo, entries)));
        warm.iter().for_each(|id| real.look_up(*id));
        let (lookups, hits) = (real.lookups, real.hits);
        measured.iter().for_each(|id| real.look_up(*id));
        let wanted = (real.hits - hits) as f64 / (real.lookups - lookups) as f64;

        let mut beside = Ids::new(entries, Box::new(Lru::default()));
        warm.iter().for_each(|id| beside.look_up(*id));
        shadow(&mut beside, sample);
        measured.iter().for_each(|id| beside.look_up(*id));
        beside.governor.deliver_shadow();
        let status = beside.governor.status().shadow.unwrap();
        let found = status.estimate.hit_ratio().unwrap();
        Row {
            name,
            unit: "points",
            figure: (found - wanted).abs() * 100.0,
            baseline: Some(("hit ratio of the policy itself, %", wanted * 100.0)),
            target: Target::AtMost(target),
        }
        .print(arguments);
    }
    if arguments.wants("look-up beside a shadow at 1/64") {
        let trace = trace(count / 2, 200_000);
        let (with, without) = medians(|| {
            let each = |sample: Option<u32>| {
                let mut ids = Ids::new(entries, Box::new(Lru::default()));
                if let Some(sample) = sample {
                    shadow(&mut ids, sample);
                }
                ns_each(trace.len(), |at| ids.look_up(trace[at as usize]))
            };
            (each(Some(64)), each(None))
        });
        Row {
            name: "look-up beside a shadow at 1/64, more",
            unit: "ns",
            figure: with - without,
            baseline: Some(("a look-up without one", without)),
            target: Target::None,
        }
        .print(arguments);
    }
}

fn main() {
    let arguments = Arguments::parse();
    print_head(&arguments);
    let host =
        PolicyHost::new(HostOptions { instances_max: 16, ..HostOptions::default() }).unwrap();
    calls(&arguments, &host);
    page_reads(&arguments, &host);
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(point_reads(&arguments, directory.path()));
    misses::run(&arguments, &host);
    swaps(&arguments, &host);
    shadows(&arguments, &host);
    runtime.block_on(scan::run(&arguments));
    loads::run(&arguments, &host);
    acceptance::run(&arguments, &host);
}

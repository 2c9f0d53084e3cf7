//! Reads of pages of which a fifth miss and come from a disk, under components and the same code
//! natively.

use std::hint::black_box;
use std::path::Path;

use tidegate_engine::Backend;
use tidegate_engine::cache::{PageCache, PagedFile, SwapStep};
use tidegate_engine::clock::{Clock, Random, SystemClock};
use tidegate_engine::config::PAGE_BYTES;
use tidegate_engine::disk::{self, OpenOptions};
use tidegate_engine::plugin::PolicyHost;
use tidegate_engine::policy::{EvictionPolicy, Lru};
use tidegate_policy_s3_fifo::S3Fifo;
use tidegate_policy_sieve::Sieve;

use super::frame::{Arguments, Row, Target};
use super::native::Native;
use super::{PAGES, identity, instance, load, medians};

/// Numbers of pages: four of five are of a part that fits, the others were never read before.
fn page_numbers(count: usize) -> Vec<u64> {
    let mut random = Random::new(3);
    let mut fresh = PAGES;
    let mut next = || match random.one_in(5) {
        true => {
            fresh += 1;
            fresh
        }
        false => random.below(PAGES / 4),
    };
    (0..count).map(|_| next()).collect()
}

/// ns of a read. The file is a hole, so what the disk itself takes is next to nothing.
fn each_read(path: &Path, numbers: &[u64], policy: Box<dyn EvictionPolicy>) -> f64 {
    let run = disk::run(Backend::Auto, |disk, _| async move {
        let cache = PageCache::new(PAGES as usize * PAGE_BYTES, 1);
        cache.begin_policy(policy, identity("policy")).unwrap();
        while cache.step_policy_swap(256) == SwapStep::Working {}
        cache.drop_standby_policy();
        let file = disk.open(path, OpenOptions::READ).await.unwrap();
        let file = PagedFile::new(cache.clone(), file).await.unwrap();
        for page in 0..PAGES {
            file.page(page).await.unwrap();
        }
        let before = cache.stats().total;
        let clock = SystemClock::new();
        for number in numbers {
            match file.cached_page(*number) {
                Some(page) => drop(black_box(page)),
                None => drop(black_box(file.page(*number).await.unwrap())),
            }
        }
        cache.deliver();
        let each = clock.monotonic_ns() as f64 / numbers.len() as f64;
        let misses = (cache.stats().total.misses - before.misses) as f64 / numbers.len() as f64;
        assert!((misses - 0.2).abs() < 0.02, "{misses} of the reads missed");
        each
    });
    run.unwrap()
}

/// Runs the rows if they are wanted.
pub fn run(arguments: &Arguments, host: &PolicyHost) {
    let slots = PAGES as u32;
    type Make = fn(u32) -> Box<dyn EvictionPolicy>;
    let rows: [(_, _, Make, _); 3] = [
        ("20 % misses from disk, LRU component", "lru", |_| Box::new(Lru::default()), 1.05),
        (
            "20 % misses from disk, SIEVE component",
            "sieve",
            |slots| Box::new(Native::<Sieve>::new(slots)),
            1.05,
        ),
        (
            "20 % misses from disk, S3-FIFO component",
            "s3_fifo",
            |slots| Box::new(Native::<S3Fifo>::new(slots)),
            1.10,
        ),
    ];
    let numbers = page_numbers(arguments.scale(50_000, 200_000));
    let last = numbers.iter().max().copied().unwrap_or_default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hole");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len((last + 1) * PAGE_BYTES as u64).unwrap();
    for (name, policy, native, ratio_max) in rows {
        if !arguments.wants(name) {
            continue;
        }
        let compiled = load(host, policy);
        let (component, native) = medians(|| {
            let component = each_read(&path, &numbers, Box::new(instance(&compiled, slots)));
            (component, each_read(&path, &numbers, native(slots)))
        });
        Row {
            name,
            unit: "ns",
            figure: component,
            baseline: Some(("the same code native", native)),
            target: Target::RatioAtMost(ratio_max),
        }
        .print(arguments);
    }
}

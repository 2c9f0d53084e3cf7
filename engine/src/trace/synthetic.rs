//! Made-up traces: a few words and a seed instead of a file.
//!
//! ```text
//! zipf:ids=10000,requests=1000000,skew=0.9,seed=1   popularity falls with the rank to the power of skew
//! scan:ids=10000,requests=1000000,every=10,length=1000   the same, and now and then a run of new ids
//! loop:ids=10000,requests=1000000                    one after the other, again and again
//! ```
//! Invariant: equal words give equal traces, on every machine up to the last bit of `powf`.

use super::request::{Request, Trace, TraceBuilder};
use crate::clock::Random;
use crate::config::TRACE_REQUESTS_MAX;
use crate::error::{Error, Result};

/// Most ids of a made-up trace.
const IDS_MAX: u64 = 10_000_000;
/// Ids of scans begin here.
const SCAN_ID_MIN: u64 = 1 << 40;

/// What kind of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Zipf,
    Scan,
    Loop,
}

/// A recipe of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    shape: Shape,
    ids: u64,
    requests: u64,
    skew: f64,
    size_bytes: u32,
    seed: u64,
    /// Requests between two scans.
    every: u64,
    /// Requests of a scan.
    length: u64,
}

impl Synthetic {
    /// Reads a recipe; `None` when `text` is none, but perhaps the name of a file.
    ///
    /// Errors: `Invalid` naming the word that is wrong.
    pub fn parse(text: &str) -> Result<Option<Synthetic>> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let shape = match name.trim() {
            "zipf" => Shape::Zipf,
            "scan" => Shape::Scan,
            "loop" => Shape::Loop,
            _ => return Ok(None),
        };
        let mut recipe = Synthetic {
            shape,
            ids: 10_000,
            requests: 1_000_000,
            skew: 0.9,
            size_bytes: 1,
            seed: 1,
            every: 10_000,
            length: 5_000,
        };
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            recipe.set(word)?;
        }
        Ok(Some(recipe))
    }

    fn set(&mut self, word: &str) -> Result<()> {
        let known = match self.shape {
            Shape::Zipf => "ids, requests, skew, size, seed",
            Shape::Scan => "ids, requests, skew, size, seed, every, length",
            Shape::Loop => "ids, requests, size",
        };
        let wrong = |what: &str| Error::invalid(format!("'{word}': {what}; known are {known}"));
        let (name, value) = word.split_once('=').ok_or_else(|| wrong("write name=value"))?;
        let name = name.trim();
        if !known.split(", ").any(|known| known == name) {
            return Err(wrong("no such word"));
        }
        let value = value.trim();
        if name == "skew" {
            let skew = value.parse().ok().filter(|skew| (0.0..=5.0).contains(skew));
            self.skew = skew.ok_or_else(|| wrong("a number from 0 to 5 is wanted"))?;
            return Ok(());
        }
        let number = |min: u64, max: u64| {
            let number = value.replace('_', "").parse().ok();
            let number = number.filter(|number| (min..=max).contains(number));
            number.ok_or_else(|| wrong(&format!("a whole number from {min} to {max} is wanted")))
        };
        let requests_max = TRACE_REQUESTS_MAX as u64;
        match name {
            "ids" => self.ids = number(1, IDS_MAX)?,
            "requests" => self.requests = number(1, requests_max)?,
            "seed" => self.seed = number(0, u64::MAX)?,
            "size" => self.size_bytes = number(1, u64::from(u32::MAX))? as u32,
            "every" => self.every = number(1, requests_max)?,
            _ => self.length = number(1, requests_max)?,
        }
        Ok(())
    }

    /// The trace of the recipe.
    pub fn make(&self) -> Trace {
        let mut random = Random::new(self.seed);
        let popularity = match self.shape {
            Shape::Loop => Vec::new(),
            Shape::Zipf | Shape::Scan => cumulative(self.ids, self.skew),
        };
        let mut builder = TraceBuilder::default();
        let (mut in_scan, mut until_scan, mut scanned) = (0, self.every, 0);
        for at in 0..self.requests {
            let id = match self.shape {
                Shape::Loop => at % self.ids,
                Shape::Zipf => draw(&popularity, &mut random),
                Shape::Scan if in_scan > 0 => {
                    in_scan -= 1;
                    scanned += 1;
                    SCAN_ID_MIN + scanned
                }
                Shape::Scan => {
                    until_scan -= 1;
                    if until_scan == 0 {
                        (until_scan, in_scan) = (self.every, self.length);
                    }
                    draw(&popularity, &mut random)
                }
            };
            let request =
                Request { id, size_bytes: self.size_bytes, kind: 4, is_hit: false, time_us: 0 };
            builder.push(request).expect("a recipe has no more requests than a trace may");
        }
        builder.finish()
    }
}

/// Sum of the weights of ranks up to each.
fn cumulative(ids: u64, skew: f64) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=ids)
        .map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        })
        .collect()
}

/// A rank by its weight.
fn draw(cumulative: &[f64], random: &mut Random) -> u64 {
    let all = cumulative.last().copied().unwrap_or(0.0);
    let point = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * all;
    (cumulative.partition_point(|sum| *sum <= point) as u64).min(cumulative.len() as u64 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(text: &str) -> Trace {
        Synthetic::parse(text).unwrap().expect("a recipe").make()
    }

    #[test]
    fn a_recipe_and_its_seed_decide_the_trace() {
        let trace = make("zipf:ids=1000,requests=20000,skew=1,seed=3");
        assert_eq!(trace, make("zipf:seed=3,skew=1.0,requests=20_000,ids=1000"));
        assert_ne!(trace, make("zipf:ids=1000,requests=20000,skew=1,seed=4"));
        let mut counts = vec![0_u64; 1000];
        for read in trace.reads() {
            counts[trace.id(read.entry) as usize] += 1;
        }
        // Of 1000 ranks with weight 1/rank, the first has 1/7.485 of the reads.
        assert!((2400..2950).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[9] && counts[9] > counts[99], "{:?}", &counts[..10]);
    }

    #[test]
    fn a_loop_comes_round_and_a_scan_is_new_each_time() {
        let trace = make("loop:ids=3,requests=7,size=10");
        let entries: Vec<u32> = trace.reads().iter().map(|read| read.entry).collect();
        assert_eq!((entries, trace.bytes()), (vec![0, 1, 2, 0, 1, 2, 0], 70));
        let trace = make("scan:ids=10,requests=40,every=10,length=5");
        let scanned: Vec<usize> =
            (0..40).filter(|at| trace.id(trace.reads()[*at].entry) >= SCAN_ID_MIN).collect();
        let wanted: Vec<usize> = (10..15).chain(25..30).collect();
        assert_eq!(scanned, wanted);
    }

    #[test]
    fn what_a_recipe_does_not_name_is_as_the_help_says() {
        for (short, whole) in [
            ("zipf", "zipf:ids=10_000,requests=1_000_000,skew=0.9,size=1,seed=1"),
            ("scan:ids=7", "scan:ids=7,every=10_000,length=5_000,skew=0.9,seed=1"),
            (" loop : size=3", "loop:ids=10000,requests=1000000,size=3"),
        ] {
            assert_eq!(Synthetic::parse(short).unwrap(), Synthetic::parse(whole).unwrap());
        }
    }

    #[test]
    fn numbers_of_a_recipe_end_where_they_say() {
        let parse = |word: &str| Synthetic::parse(&format!("scan:{word}"));
        let most = TRACE_REQUESTS_MAX as u64;
        for (name, min, max) in [
            ("ids", 1, IDS_MAX),
            ("requests", 1, most),
            ("size", 1, u64::from(u32::MAX)),
            ("every", 1, most),
            ("length", 1, most),
            ("seed", 0, u64::MAX),
        ] {
            for number in [min, max] {
                assert!(parse(&format!("{name}={number}")).is_ok(), "{name} {number}");
            }
            let beyond = [min.checked_sub(1), max.checked_add(1)];
            for number in beyond.into_iter().flatten() {
                let told = parse(&format!("{name}={number}")).unwrap_err().to_string();
                assert!(told.contains(&format!("from {min} to {max}")), "{told}");
            }
        }
        for (skew, is_possible) in [("0", true), ("5", true), ("5.01", false), ("-0.1", false)] {
            assert_eq!(parse(&format!("skew={skew}")).is_ok(), is_possible, "{skew}");
        }
    }

    #[test]
    fn a_wrong_recipe_names_the_word() {
        assert_eq!(Synthetic::parse("zipf.txt").unwrap(), None);
        for text in ["zipf:ids", "zipf:ids=0", "loop:skew=1", "scan:skew=9", "zipf:requests=x"] {
            let error = Synthetic::parse(text).unwrap_err().to_string();
            assert!(error.contains("known are"), "{error}");
        }
    }
}

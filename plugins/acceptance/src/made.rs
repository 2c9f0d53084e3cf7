//! Made-up traces: loops, scans, mixtures. Recorded ones are not everywhere, and none of them is a loop.
//!
//! Invariant: whole numbers alone decide, so a trace is the same on every machine.

/// Requests of each.
const REQUESTS: u32 = 200_000;
/// Ids of what is read once, or again and again, stand apart from those of what is popular.
const APART: u32 = 1 << 30;

/// Draws that depend on nothing but the seed.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// One of `ids`, the lower the more often.
    fn popular(&mut self, ids: u32) -> u32 {
        let most = 1 + self.next() % ids;
        let most = 1 + self.next() % most;
        self.next() % most
    }
}

/// A trace by its name.
///
/// Panics for a name that there is not.
pub fn made(name: &str) -> Vec<u32> {
    let mut draws = Draws(name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte)));
    let mut request = |at: u32| match name {
        "loop 1.05" => at % 1050,
        "loop 1.1" => at % 1100,
        "loop 1.5" => at % 1500,
        "loop 3" => at % 3000,
        "popular" => draws.popular(20_000),
        // A thousand of what is popular, then three thousand that nobody reads again.
        "scans" if at % 4000 >= 1000 => APART + at,
        "scans" => draws.popular(10_000),
        // Half is a loop, half is popular.
        "loop beside" if draws.next().is_multiple_of(2) => APART + at % 3000 / 2,
        "loop beside" => draws.popular(10_000),
        // One after the other.
        "phases" if at / 25_000 % 2 == 1 => APART + at % 1200,
        "phases" => draws.popular(10_000),
        // What is popular changes.
        "drift" => at / 50 + draws.popular(5_000),
        // Few ids, of an office whose people go home: bursts, and a look through everything.
        "office" if at % 5000 >= 4500 => at % 500,
        "office" => at / 5000 % 4 * 37 + draws.popular(700),
        other => panic!("there is no trace '{other}'"),
    };
    (0..REQUESTS).map(&mut request).collect()
}

/// Name, entries of the cache, miss ratios of libCacheSim 0.3.5 with the columns of `published.rs`; the
/// optimum is not asked for here.
#[rustfmt::skip]
pub const MADE: [(&str, u32, [f64; 12]); 14] = [
    //                       LRU    FIFO   CLOCK      2Q   SIEVE  S3-FIFO    ARC    LIRS     LHD   W 1 %  W 10 %  Belady
    ("loop 1.05",    1000, [1.0000, 1.0000, 1.0000, 0.1009, 1.0000, 0.1817, 1.0000, 0.0619, 0.0712, 0.1572, 0.1495, 0.0]),
    ("loop 1.1",     1000, [1.0000, 1.0000, 1.0000, 0.1759, 1.0000, 0.3384, 1.0000, 0.1045, 0.2238, 0.1070, 0.1879, 0.0]),
    ("loop 1.5",     1000, [1.0000, 1.0000, 1.0000, 0.5072, 1.0000, 0.6159, 1.0000, 0.3441, 0.9231, 0.3485, 0.4067, 0.0]),
    ("loop 3",       1000, [1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 0.7030, 1.0000, 0.6733, 1.0000, 0.6799, 0.7088, 0.0]),
    ("popular",      1000, [0.7543, 0.7742, 0.7419, 0.6747, 0.6507, 0.6433, 0.6625, 0.6610, 0.7466, 0.6200, 0.6301, 0.0]),
    ("scans",        1000, [0.9481, 0.9481, 0.9481, 0.9481, 0.8741, 0.8726, 0.8715, 0.8702, 0.9506, 0.8797, 0.8830, 0.0]),
    ("loop beside",  1000, [0.7446, 0.7607, 0.7485, 0.6416, 0.6311, 0.5929, 0.6547, 0.6053, 0.7420, 0.5635, 0.5791, 0.0]),
    ("phases",       1000, [0.7929, 0.8133, 0.7847, 0.7563, 0.7361, 0.7402, 0.7500, 0.7479, 0.5785, 0.5966, 0.6149, 0.0]),
    ("drift",        1000, [0.3586, 0.4172, 0.3457, 0.3405, 0.4291, 0.3349, 0.3301, 0.3101, 0.3520, 0.5873, 0.5924, 0.0]),
    ("scans",        4000, [0.8980, 0.9117, 0.8933, 0.8593, 0.8447, 0.8345, 0.8271, 0.8276, 0.8975, 0.8333, 0.8433, 0.0]),
    ("loop beside",  4000, [0.1495, 0.2427, 0.1406, 0.1672, 0.1186, 0.1265, 0.1376, 0.1237, 0.1495, 0.1136, 0.1211, 0.0]),
    ("phases",       4000, [0.1077, 0.1352, 0.1116, 0.1147, 0.5596, 0.1017, 0.1088, 0.1226, 0.1107, 0.1144, 0.1230, 0.0]),
    ("office",        120, [0.4608, 0.5132, 0.4451, 0.4161, 0.3883, 0.3916, 0.4069, 0.3849, 0.3965, 0.3953, 0.4031, 0.0]),
    ("office",        500, [0.0384, 0.0585, 0.0366, 0.0386, 0.0190, 0.0294, 0.0379, 0.0191, 0.0333, 0.0155, 0.0205, 0.0]),
];

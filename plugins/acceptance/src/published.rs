//! Miss ratios of libCacheSim 0.3.5, and how near to them each policy has to come.

// Columns of the table.
const LRU: usize = 0;
const FIFO: usize = 1;
const CLOCK: usize = 2;
const SIEVE: usize = 4;
const S3_FIFO: usize = 5;
const TWO_Q: usize = 3;
const ARC: usize = 6;
const W_1: usize = 9;
const W_10: usize = 10;
const LIRS: usize = 7;
const LHD: usize = 8;
pub const BELADY: usize = 11;

/// The window does not fit into so small a cache.
const NONE: f64 = f64::NAN;

/// Trace, entries of the cache, published miss ratios rounded to four digits.
#[rustfmt::skip]
pub const PUBLISHED: [(&str, u32, [f64; 12]); 11] = [
    //                      LRU    FIFO   CLOCK      2Q   SIEVE  S3-FIFO    ARC    LIRS     LHD   W 1 %  W 10 %  Belady
    ("OLTP",       187, [0.8623, 0.8707, 0.8602, 0.8223, 0.9090, 0.8223, 0.8239, 0.8534, 0.8466, 0.8098, 0.8060, 0.6499]),
    ("OLTP",      1869, [0.5836, 0.6341, 0.5782, 0.5411, 0.5970, 0.5353, 0.5461, 0.5837, 0.5737, 0.5968, 0.5476, 0.4024]),
    ("OLTP",     18688, [0.3348, 0.3666, 0.3314, 0.3233, 0.3334, 0.3234, 0.3273, 0.3434, 0.3328, 0.3619, 0.3529, 0.2379]),
    ("orm-busy",    76, [0.4981, 0.5023, 0.5025, 0.5735, 0.5981, 0.5975, 0.4989, 0.6468, 0.7088,   NONE, 0.6761, 0.4003]),
    ("orm-busy",   763, [0.2297, 0.2406, 0.2322, 0.2351, 0.2947, 0.2436, 0.2325, 0.2855, 0.2269, 0.4036, 0.2876, 0.1718]),
    ("orm-busy",  7635, [0.1199, 0.1321, 0.1226, 0.1090, 0.1189, 0.1111, 0.1196, 0.1224, 0.1193, 0.1180, 0.1038, 0.0669]),
    ("web12",      138, [0.6021, 0.6229, 0.5966, 0.5833, 0.5965, 0.5896, 0.5921, 0.6417, 0.6518, 0.6477, 0.6114, 0.4146]),
    ("web12",     1376, [0.3151, 0.3546, 0.3083, 0.2849, 0.2832, 0.2788, 0.2911, 0.2982, 0.3068, 0.2944, 0.2852, 0.1996]),
    ("web07",       20, [0.7868, 0.7928, 0.7849, 0.7717, 0.7787, 0.7766, 0.7748, 0.8139, 0.8577,   NONE, 0.7752, 0.6340]),
    ("web07",      205, [0.6083, 0.6368, 0.6016, 0.5657, 0.5780, 0.5622, 0.5807, 0.6131, 0.5959, 0.6089, 0.5756, 0.4659]),
    ("web07",     2048, [0.4434, 0.4688, 0.4376, 0.4302, 0.4207, 0.4178, 0.4194, 0.4261, 0.4362, 0.4402, 0.4357, 0.3191]),
];

/// Half a unit of the last published digit, and a little.
pub const EXACT: f64 = 0.0001;

/// What a policy has to reach, one victim at a time.
pub struct Goal {
    pub policy: &'static str,
    /// The miss ratio that is asked for, from a row of the table.
    pub expected: fn(&[f64; 12]) -> f64,
    pub tolerance: f64,
    /// Whether missing less often than expected is as wrong as missing more often.
    pub two_sided: bool,
}

impl Goal {
    const fn equal(policy: &'static str, expected: fn(&[f64; 12]) -> f64, tolerance: f64) -> Self {
        Goal { policy, expected, tolerance, two_sided: true }
    }
}

/// Every policy of this folder by its own name.
pub const GOALS: [Goal; 10] = [
    Goal::equal("lru", |row| row[LRU], EXACT),
    Goal::equal("fifo", |row| row[FIFO], EXACT),
    Goal::equal("clock", |row| row[CLOCK], EXACT),
    Goal::equal("sieve", |row| row[SIEVE], EXACT),
    Goal::equal("s3-fifo", |row| row[S3_FIFO], 0.003),
    Goal::equal("two-q", |row| row[TWO_Q], 0.003),
    Goal::equal("arc", |row| row[ARC], 0.003),
    Goal::equal("lirs", |row| row[LIRS], 0.005),
    Goal::equal("lhd", |row| row[LHD], 0.01),
    // The better of two fixed windows, at least. Which way the window is moved depends on details.
    Goal { two_sided: false, ..Goal::equal("w-tinylfu", |row| row[W_1].min(row[W_10]), 0.005) },
];

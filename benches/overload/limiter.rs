//! What the limit of a partition costs an operation that goes through.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use tidegate_engine::admission::rate::{Limiter, PublishedRates};
use tidegate_engine::plugin::{HostOptions, InstanceOptions, PolicyHost, WasmRatePolicy};
use tidegate_engine::policy::rate::Operation;
use tidegate_engine::schema::Token;
use tidegate_engine::schema::table_schema::RateLimit;

use crate::frame::table::definition;
use crate::frame::{Arguments, Row, Target, median, thread_cpu_timed};

const REPEATS: usize = 7;
/// Operations a second that nobody reaches.
const HIGH: u32 = 1 << 30;
const PARTITIONS: i64 = 1000;

/// Operations are refused only by a policy that is asked.
fn limits(reads: u32) -> RateLimit {
    RateLimit { max_reads_per_second: Some(reads), max_writes_per_second: None }
}

fn fresh() -> Limiter {
    Limiter::new(7, Arc::new(PublishedRates::new(7)))
}

/// CPU ns of an operation that goes through, and the part of them that did.
fn admitted(limiter: &mut Limiter, limits: &RateLimit, count: usize) -> (f64, f64) {
    let schema = definition("limited");
    let mut admitted = 0;
    let ((), cpu) = thread_cpu_timed(|| {
        for number in 0..count as i64 {
            let token = Token((number % PARTITIONS).wrapping_mul(0x5851_F42D_4C95_7F2D));
            let read = Operation::Read;
            let answer = limiter.admit(&schema, limits, black_box(token), read, 1_000_000);
            admitted += u64::from(answer.is_ok());
        }
    });
    (cpu.as_nanos() as f64 / count as f64, admitted as f64 / count as f64)
}

/// A policy that lets all through of which it is asked less than twice the limit.
fn decaying(host: &PolicyHost) -> WasmRatePolicy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/dist/decaying.wasm");
    let compiled = host.compile("decaying", &std::fs::read(path).unwrap()).unwrap();
    WasmRatePolicy::new(compiled, InstanceOptions::default()).unwrap()
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let count = arguments.scale(500_000, 3_000_000);
    let native = "rate limit, a read that goes through";
    let wasm = "the same, beyond its limit by a component";
    if arguments.wants(native) {
        let measured = |_| {
            let (ns, part) = admitted(&mut fresh(), &limits(HIGH), count);
            assert!(part > 0.999, "{part} went through");
            ns
        };
        let figure = median((0..REPEATS).map(measured).collect());
        let target = Target::AtMost(30.0);
        Row { name: native, unit: "ns CPU", figure, baseline: None, target }.print(arguments);
    }
    if arguments.wants(wasm) {
        let host = PolicyHost::new(HostOptions::default()).unwrap();
        // Between the limit and twice the limit the policy is asked, and says yes.
        let limit = (count as i64 / PARTITIONS) as u32 / 2;
        let of = |limiter: &mut Limiter| {
            admitted(limiter, &limits(limit), count * 2 / 3);
            let (ns, part) = admitted(limiter, &limits(limit), count / 3);
            assert!(part > 0.99, "{part} went through");
            ns
        };
        let (mut figures, mut natives) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let mut limiter = fresh();
            natives.push(of(&mut limiter));
            let mut limiter = fresh();
            limiter.set_policy(Some(("decaying".into(), Box::new(decaying(&host)))));
            figures.push(of(&mut limiter));
            assert!(limiter.failure().is_none() && limiter.stats().asked > 0);
        }
        let baseline = Some(("the native policy asked", median(natives)));
        let (figure, target) = (median(figures), Target::AtMost(200.0));
        Row { name: wasm, unit: "ns CPU", figure, baseline, target }.print(arguments);
    }
}

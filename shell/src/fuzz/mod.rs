//! What a fuzzer calls: everything that takes bytes of others, but for files of SSTables, which are
//! the engine's.

use crate::{cluster, flight, query};

/// Something that takes bytes of others.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Takes an input. It panics where something is wrong.
    pub run: fn(&[u8]),
    /// Right inputs, which a fuzzer begins with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// See the head of this file.
pub const TARGETS: [Target; 5] = [
    Target { name: "call", run: flight::fuzz::call, seeds: flight::fuzz::call_seeds },
    Target { name: "carried", run: flight::fuzz::carried, seeds: flight::fuzz::carried_seeds },
    Target { name: "node", run: flight::fuzz::node, seeds: flight::fuzz::node_seeds },
    Target { name: "ring_file", run: cluster::fuzz::ring_file, seeds: cluster::fuzz::seeds },
    Target { name: "statement", run: query::fuzz::statements, seeds: query::fuzz::seeds },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of each target that are made of its right ones.
    const MADE: u64 = 300;

    /// A number that follows from `state`: xorshift of 64 bits (Marsaglia, 2003).
    fn next(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as usize
    }

    /// An input with one to four changes: a bit, a byte, bytes that go, bytes of another input.
    fn changed(seeds: &[Vec<u8>], state: &mut u64) -> Vec<u8> {
        let mut input = seeds[next(state) % seeds.len()].clone();
        for _ in 0..=next(state) % 4 {
            let at = next(state) % (input.len() + 1);
            match next(state) % 5 {
                0 if at < input.len() => input[at] ^= 1 << (next(state) % 8),
                1 if at < input.len() => input[at] = next(state) as u8,
                2 => {
                    let end = (at + next(state) % 8).min(input.len());
                    input.drain(at..end);
                }
                3 => {
                    let other = &seeds[next(state) % seeds.len()];
                    let begin = next(state) % (other.len() + 1);
                    let end = (begin + next(state) % 32).min(other.len());
                    input.splice(at..at, other[begin..end].iter().copied());
                }
                _ => input.truncate(at),
            }
        }
        input
    }

    #[test]
    fn right_inputs_and_changed_ones_harm_nobody() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() >= 3, "{}", target.name);
            for seed in &seeds {
                (target.run)(seed);
            }
            let mut state = 0x9E37_79B9_7F4A_7C15;
            for _ in 0..MADE {
                let input = changed(&seeds, &mut state);
                println!("{}: {}", target.name, tidegate_engine::hex::Hex(&input));
                (target.run)(&input);
            }
        }
    }
}

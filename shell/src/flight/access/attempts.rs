//! How many wrong passwords a peer may send, for one user and for all together.
//!
//! Invariant: an attempt is counted before its password is looked at, and given back when it was
//! right. So those that are made at once count as well, and nobody is kept out who knows a password
//! and has not failed. At most [`TALLIES_MAX`] tallies are kept.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Tallies that are kept. One that is full again says nothing and may go.
const TALLIES_MAX: usize = 16_384;

/// How many attempts there are at once, and how long one takes to come back.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u64,
    each_ns: u64,
}

/// For one user, by one peer.
const OF_USER: Rate = Rate { burst: 5, each_ns: 5_000_000_000 };
/// For all users, by one peer.
const OF_PEER: Rate = Rate { burst: 20, each_ns: 1_000_000_000 };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    Peer(IpAddr),
    User(IpAddr, String),
}

impl Whose {
    fn rate(&self) -> Rate {
        match self {
            Whose::Peer(_) => OF_PEER,
            Whose::User(..) => OF_USER,
        }
    }
}

/// Attempts that are left, in nanoseconds that it takes to earn them, at a moment.
#[derive(Debug, Clone, Copy)]
struct Tally {
    left_ns: u64,
    at_ns: u64,
}

impl Tally {
    fn at(self, now_ns: u64, rate: Rate) -> Tally {
        let earned = now_ns.saturating_sub(self.at_ns);
        let left_ns = self.left_ns.saturating_add(earned).min(rate.burst * rate.each_ns);
        Tally { left_ns, at_ns: now_ns }
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<Whose, Tally>>);

/// One that was counted.
#[derive(Debug)]
pub(super) struct Attempt([Whose; 2]);

impl Attempts {
    /// Counts an attempt.
    ///
    /// Errors: how long to wait for the next one.
    pub(super) fn begin(&self, peer: IpAddr, user: &str, now_ns: u64) -> Result<Attempt, Duration> {
        let peer = network(peer);
        let both = [Whose::Peer(peer), Whose::User(peer, user.to_owned())];
        let mut tallies = self.lock();
        let now = |whose: &Whose, tallies: &HashMap<Whose, Tally>| {
            let rate = whose.rate();
            let full = Tally { left_ns: rate.burst * rate.each_ns, at_ns: now_ns };
            tallies.get(whose).map_or(full, |tally| tally.at(now_ns, rate))
        };
        let short =
            |whose: &Whose| whose.rate().each_ns.saturating_sub(now(whose, &tallies).left_ns);
        let wait_ns = both.iter().map(short).max().unwrap_or_default();
        if wait_ns > 0 {
            return Err(Duration::from_nanos(wait_ns));
        }
        for whose in &both {
            let tally = now(whose, &tallies);
            let left_ns = tally.left_ns - whose.rate().each_ns;
            tallies.insert(whose.clone(), Tally { left_ns, ..tally });
        }
        if tallies.len() > TALLIES_MAX {
            forget(&mut tallies, now_ns);
        }
        Ok(Attempt(both))
    }

    /// The password was right, or was not looked at.
    pub(super) fn give_back(&self, attempt: Attempt) {
        let mut tallies = self.lock();
        for whose in attempt.0 {
            let rate = whose.rate();
            if let Some(tally) = tallies.get_mut(&whose) {
                tally.left_ns = (tally.left_ns + rate.each_ns).min(rate.burst * rate.each_ns);
                if tally.left_ns == rate.burst * rate.each_ns {
                    tallies.remove(&whose);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Whose, Tally>> {
        self.0.lock().expect("no one panics while counting attempts")
    }
}

/// Takes out what says nothing any more, or else what comes first.
fn forget(tallies: &mut HashMap<Whose, Tally>, now_ns: u64) {
    tallies.retain(|whose, tally| {
        let rate = whose.rate();
        tally.at(now_ns, rate).left_ns < rate.burst * rate.each_ns
    });
    while tallies.len() > TALLIES_MAX {
        let Some(first) = tallies.keys().next().cloned() else { return };
        tallies.remove(&first);
    }
}

/// Whoever has one address of IPv6 has 64 bits of them.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn wrong_passwords_are_limited_by_user_and_by_peer() {
        let attempts = Attempts::default();
        let (one, other) = (peer("10.0.0.1"), peer("10.0.0.2"));
        for _ in 0..OF_USER.burst {
            attempts.begin(one, "ann", 0).unwrap();
        }
        assert_eq!(attempts.begin(one, "ann", 0).unwrap_err(), Duration::from_secs(5));
        assert_eq!(attempts.begin(one, "ann", 2 * S).unwrap_err(), Duration::from_secs(3));
        attempts.begin(other, "ann", 0).unwrap();
        attempts.begin(one, "bob", 0).unwrap();
        attempts.begin(one, "ann", 5 * S).unwrap();
        attempts.begin(one, "ann", 5 * S).unwrap_err();
        // Many users from one place.
        let mut late = 0;
        for n in 0..100 {
            late += u64::from(attempts.begin(one, &format!("u{n}"), 5 * S).is_err());
        }
        // Seven were used up before, and five came back since.
        assert_eq!(late, 100 - (OF_PEER.burst - 1 - 1));
        attempts.begin(one, "carl", 6 * S).unwrap();
    }

    #[test]
    fn right_passwords_cost_nothing() {
        let attempts = Attempts::default();
        for _ in 0..1000 {
            let attempt = attempts.begin(peer("10.0.0.1"), "ann", 0).unwrap();
            attempts.give_back(attempt);
        }
        assert!(attempts.lock().is_empty());
        // At once, before the first one is known to be right.
        let together: Vec<_> =
            (0..OF_USER.burst).map(|_| attempts.begin(peer("::1"), "ann", 0).unwrap()).collect();
        attempts.begin(peer("::1"), "ann", 0).unwrap_err();
        together.into_iter().for_each(|attempt| attempts.give_back(attempt));
        attempts.begin(peer("::1"), "ann", 0).unwrap();
    }

    #[test]
    fn addresses_of_one_network_are_one_peer_and_tallies_are_bounded() {
        let attempts = Attempts::default();
        for n in 0..OF_USER.burst {
            attempts.begin(peer(&format!("2001:db8::{n}")), "ann", 0).unwrap();
        }
        attempts.begin(peer("2001:db8::ffff"), "ann", 0).unwrap_err();
        attempts.begin(peer("2001:db8:0:1::"), "ann", 0).unwrap();
        attempts.begin(peer("::ffff:10.0.0.1"), "ann", 0).unwrap();
        for n in 0..u32::try_from(2 * TALLIES_MAX).unwrap() {
            let peer = IpAddr::V4(std::net::Ipv4Addr::from(0x0b00_0000 + n));
            attempts.begin(peer, "ann", S).unwrap();
        }
        assert!(attempts.lock().len() <= TALLIES_MAX);
    }

    /// A listener for both kinds of addresses tells those of IPv4 as ones of IPv6.
    #[test]
    fn a_peer_of_ipv4_is_itself_however_its_address_is_told() {
        let attempts = Attempts::default();
        for n in 0..OF_USER.burst {
            let told = if n % 2 == 0 { "10.0.0.1" } else { "::ffff:10.0.0.1" };
            attempts.begin(peer(told), "ann", 0).unwrap();
        }
        for same in ["10.0.0.1", "::ffff:10.0.0.1"] {
            attempts.begin(peer(same), "ann", 0).unwrap_err();
        }
        for other in ["10.0.0.2", "::ffff:10.0.0.3", "::1"] {
            attempts.begin(peer(other), "ann", 0).unwrap();
        }
    }

    #[test]
    fn however_long_nobody_tries_there_are_never_more_attempts_than_at_the_beginning() {
        let attempts = Attempts::default();
        let one = peer("10.0.0.1");
        for now_ns in [0, 3600 * S, 100_000 * S] {
            for _ in 0..OF_USER.burst {
                attempts.begin(one, "ann", now_ns).unwrap();
            }
            attempts.begin(one, "ann", now_ns).unwrap_err();
            for n in OF_USER.burst..OF_PEER.burst {
                attempts.begin(one, &format!("u{n}"), now_ns).unwrap();
            }
            let late = attempts.begin(one, "another", now_ns).unwrap_err();
            assert_eq!(late, Duration::from_secs(1));
        }
    }

    /// Nobody frees himself by filling the table with other names.
    #[test]
    fn tallies_that_say_nothing_any_more_go_before_those_that_do() {
        let attempts = Attempts::default();
        let other = |n: u32| IpAddr::V4(std::net::Ipv4Addr::from(0x0b00_0000 + n));
        // Each attempt has two tallies.
        let most = u32::try_from(TALLIES_MAX / 2).unwrap() - 1;
        for n in 0..most {
            attempts.begin(other(n), "ann", 0).unwrap();
        }
        let one = peer("10.0.0.1");
        for _ in 0..OF_USER.burst {
            attempts.begin(one, "ann", 10 * S).unwrap();
        }
        assert_eq!(attempts.lock().len(), TALLIES_MAX);
        attempts.begin(other(most), "ann", 10 * S).unwrap();
        assert_eq!(attempts.lock().len(), 4);
        attempts.begin(one, "ann", 10 * S).unwrap_err();
    }
}

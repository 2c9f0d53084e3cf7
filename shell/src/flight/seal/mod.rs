//! Seals on what clients carry between calls: tickets and handles of prepared statements.
//!
//! Invariant: what [`Seal::open`] gives was put in by [`Seal::close`] with the same key, for the
//! same purpose, and has not expired. Only the service and its file have the key ([`key`]), so that
//! nobody else can make a ticket. The content can be read by whoever holds it.
//!
//! ```text
//! version 1 | purpose 1 | expires 8 | place 1 | content, or its digest | keyed hash of all before 32
//! ```

pub(super) mod key;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prost::bytes::Bytes;
use tidegate_engine::clock::Clock;
use tonic::Status;

use super::error::invalid;

/// Bytes of a keyed hash, of its key, and of a digest.
const HASH_BYTES: usize = 32;
/// Bytes of what tells contents apart: who may choose contents finds no two that look alike.
const DIGEST_BYTES: usize = 16;
const VERSION: u8 = 1;
/// Bytes before the content.
const HEAD_BYTES: usize = 11;
/// Longest content that a client carries itself; longer ones are kept here, and it carries a
/// digest.
const CARRIED_BYTES_MAX: usize = 64 << 10;
/// Longest content.
const CONTENT_BYTES_MAX: usize = 64 << 20;

/// What a seal is for: one made for a ticket opens no prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Ticket = 1,
    Statement = 2,
}

impl Purpose {
    /// How errors name it.
    fn name(self) -> &'static str {
        match self {
            Purpose::Ticket => "ticket",
            Purpose::Statement => "prepared statement",
        }
    }

    /// How long a seal holds, seconds.
    pub(super) fn life_seconds(self) -> i64 {
        match self {
            Purpose::Ticket => 3600,
            Purpose::Statement => 24 * 3600,
        }
    }
}

/// Closes and opens seals with one key.
pub(super) struct Seal {
    key: [u8; HASH_BYTES],
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

impl Seal {
    /// Seals with `key`, which must be random and told to nobody. Long contents take
    /// `kept_bytes_max` together; what was used longest ago goes first.
    pub(super) fn new(key: [u8; HASH_BYTES], clock: Arc<dyn Clock>, kept_bytes_max: usize) -> Self {
        let kept = Kept { by_digest: HashMap::new(), bytes: 0, bytes_max: kept_bytes_max, uses: 0 };
        Seal { key, clock, kept: Mutex::new(kept) }
    }

    /// What stands for these texts while the service lives. Compared in constant time.
    pub(super) fn mark(&self, texts: &[&str]) -> Mark {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for text in texts {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
        Mark(hasher.finalize())
    }

    /// Seconds since the epoch at which a seal that is closed now stops to hold.
    pub(super) fn expires_at(&self, purpose: Purpose) -> i64 {
        self.clock.wall_seconds().saturating_add(purpose.life_seconds())
    }

    /// Seals `content`.
    ///
    /// Errors: INVALID_ARGUMENT for a content beyond [`CONTENT_BYTES_MAX`], or beyond all that is
    /// kept.
    pub(super) fn close(&self, purpose: Purpose, content: Vec<u8>) -> Result<Bytes, Status> {
        let (name, bytes) = (purpose.name(), content.len());
        let is_kept = bytes > CARRIED_BYTES_MAX;
        let bytes_max = CONTENT_BYTES_MAX.min(self.kept().bytes_max);
        if is_kept && bytes > bytes_max {
            let help = match bytes_max {
                CONTENT_BYTES_MAX => "",
                _ => "; give the service more memory (--memory)",
            };
            return Err(invalid(format!(
                "a {name} with its parameters takes {bytes} bytes, at most {bytes_max} are \
                 possible{help}"
            )));
        }
        let expires = self.expires_at(purpose);
        let mut sealed = Vec::with_capacity(HEAD_BYTES + HASH_BYTES + CARRIED_BYTES_MAX.min(bytes));
        sealed.extend_from_slice(&[VERSION, purpose as u8]);
        sealed.extend_from_slice(&expires.to_be_bytes());
        sealed.push(u8::from(is_kept));
        if is_kept {
            let digest = *blake3::hash(&content).as_bytes();
            self.kept().insert(digest, content.into(), self.clock.wall_seconds(), expires);
            sealed.extend_from_slice(&digest);
        } else {
            sealed.extend_from_slice(&content);
        }
        let hash = blake3::keyed_hash(&self.key, &sealed);
        sealed.extend_from_slice(hash.as_bytes());
        Ok(sealed.into())
    }

    /// The content of a seal.
    ///
    /// Errors: INVALID_ARGUMENT for bytes that are no seal; UNAUTHENTICATED for one that this
    /// service did not close, or that has expired; NOT_FOUND where a long content was dropped
    /// meanwhile.
    pub(super) fn open(&self, purpose: Purpose, sealed: &[u8]) -> Result<Bytes, Status> {
        let name = purpose.name();
        let split = sealed.len().checked_sub(HASH_BYTES).filter(|length| *length >= HEAD_BYTES);
        let Some((body, hash)) = split.map(|at| sealed.split_at(at)) else {
            return Err(invalid(format!("these bytes are no {name} of this service")));
        };
        // Compared in constant time by its type.
        let is_ours = <[u8; HASH_BYTES]>::try_from(hash)
            .is_ok_and(|hash| blake3::keyed_hash(&self.key, body) == blake3::Hash::from(hash));
        if !is_ours || body[0] != VERSION || body[1] != purpose as u8 {
            return Err(Status::unauthenticated(format!(
                "this {name} was not given out by this service: ask for a new one"
            )));
        }
        let expires: [u8; 8] = body[2..10].try_into().expect("eight bytes");
        if i64::from_be_bytes(expires) < self.clock.wall_seconds() {
            return Err(Status::unauthenticated(format!(
                "this {name} has expired: one holds for {} seconds; ask for a new one",
                purpose.life_seconds()
            )));
        }
        let content = &body[HEAD_BYTES..];
        if body[HEAD_BYTES - 1] == 0 {
            return Ok(Bytes::copy_from_slice(content));
        }
        let digest: [u8; HASH_BYTES] = content.try_into().expect("a digest was sealed");
        self.kept().get(&digest).ok_or_else(|| {
            Status::not_found(format!(
                "this {name} is too long to be kept any longer: send it again"
            ))
        })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().expect("no one panics while holding kept contents")
    }
}

/// Contents by their digest.
struct Kept {
    by_digest: HashMap<[u8; HASH_BYTES], KeptContent>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
}

struct KeptContent {
    /// Counts the uses of all: when this one was used last.
    used: u64,
    /// When the last of its seals stops to hold, seconds since the epoch.
    expires: i64,
    content: Bytes,
}

impl Kept {
    /// Keeps a content until `expires`, seconds since the epoch; `now` is the time.
    fn insert(&mut self, digest: [u8; HASH_BYTES], content: Bytes, now: i64, expires: i64) {
        self.uses += 1;
        self.by_digest.retain(|_, kept| kept.expires >= now);
        let last = self.by_digest.get(&digest).map_or(expires, |same| same.expires.max(expires));
        let kept = KeptContent { used: self.uses, expires: last, content };
        self.by_digest.insert(digest, kept);
        self.bytes = self.by_digest.values().map(|kept| kept.content.len()).sum();
        while self.bytes > self.bytes_max {
            let oldest = self.by_digest.iter().min_by_key(|(_, kept)| kept.used);
            let Some(digest) = oldest.map(|(digest, _)| *digest) else { break };
            if let Some(kept) = self.by_digest.remove(&digest) {
                self.bytes -= kept.content.len();
            }
        }
    }

    fn get(&mut self, digest: &[u8; HASH_BYTES]) -> Option<Bytes> {
        self.uses += 1;
        let kept = self.by_digest.get_mut(digest)?;
        kept.used = self.uses;
        Some(kept.content.clone())
    }
}

/// Stands for texts without giving them away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(blake3::Hash);

/// What tells contents apart that are sealed.
pub(super) fn digest(content: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&blake3::hash(content).as_bytes()[..DIGEST_BYTES])
}

/// Bytes that nobody can guess.
///
/// Errors: UNAVAILABLE when the operating system gives none.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Status::unavailable(format!("there is no randomness: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_engine::clock::{Random, SimulatedClock};
    use tonic::Code;

    use super::*;

    fn seal(key: u8) -> (Arc<SimulatedClock>, Seal) {
        let clock = SimulatedClock::new(1_000_000_000);
        (Arc::clone(&clock), Seal::new([key; HASH_BYTES], clock, 4 * CONTENT_BYTES_MAX))
    }

    #[test]
    fn what_was_sealed_comes_back_short_or_long() {
        let (_, seal) = seal(1);
        for length in [0, 1, CARRIED_BYTES_MAX, CARRIED_BYTES_MAX + 1, 1 << 20] {
            let sealed = seal.close(Purpose::Ticket, vec![7; length]).unwrap();
            assert!(sealed.len() <= HEAD_BYTES + CARRIED_BYTES_MAX + HASH_BYTES);
            assert_eq!(seal.open(Purpose::Ticket, &sealed).unwrap(), vec![7; length]);
        }
        let long = seal.close(Purpose::Ticket, vec![0; CONTENT_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(long.code(), Code::InvalidArgument);
    }

    #[test]
    fn a_changed_byte_another_purpose_or_another_key_is_refused() {
        let (_, own) = seal(1);
        let (_, other) = seal(2);
        let sealed = own.close(Purpose::Ticket, b"QSELECT 1".to_vec()).unwrap();
        for at in 0..sealed.len() {
            let mut forged = sealed.to_vec();
            forged[at] ^= 1;
            let error = own.open(Purpose::Ticket, &forged).unwrap_err();
            assert_eq!(error.code(), Code::Unauthenticated, "byte {at}");
        }
        assert_eq!(
            own.open(Purpose::Statement, &sealed).unwrap_err().code(),
            Code::Unauthenticated
        );
        assert_eq!(other.open(Purpose::Ticket, &sealed).unwrap_err().code(), Code::Unauthenticated);
        for garbage in [b"".as_slice(), b"QDROP TABLE t", &sealed[..HASH_BYTES]] {
            let error = own.open(Purpose::Ticket, garbage).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
        }
    }

    /// Changed, cut, lengthened, mixed of two, of another key, for another purpose, or too old.
    #[test]
    fn of_ten_thousand_false_seals_none_is_opened() {
        let (clock, own) = seal(1);
        let (_, foreign) = seal(2);
        let mut random = Random::new(5);
        let content = |random: &mut Random| {
            let bytes = [8, 200, CARRIED_BYTES_MAX + 1][random.below(3) as usize];
            (0..bytes).map(|_| random.below(256) as u8).collect::<Vec<u8>>()
        };
        let (mut n, mut refused) = (0, 0);
        while refused < 10_000 {
            n += 1;
            let honest = own.close(Purpose::Ticket, content(&mut random)).unwrap().to_vec();
            let at = random.below(honest.len() as u64) as usize;
            let mut forged = honest.clone();
            match n % 7 {
                0 => forged[at] ^= 1 << random.below(8),
                1 => forged.truncate(at),
                2 => forged.extend((0..=random.below(40)).map(|_| random.below(256) as u8)),
                3 => {
                    let other = own.close(Purpose::Ticket, content(&mut random)).unwrap();
                    forged.splice(at.., other[at.min(other.len() - 1)..].iter().copied());
                    // Their heads may be alike: then it is the other one.
                    if forged == other {
                        continue;
                    }
                }
                4 => {
                    forged = foreign.close(Purpose::Ticket, content(&mut random)).unwrap().to_vec()
                }
                5 => forged = own.close(Purpose::Statement, content(&mut random)).unwrap().to_vec(),
                _ => clock.advance(Duration::from_secs(3602)),
            }
            let code = own.open(Purpose::Ticket, &forged).unwrap_err().code();
            assert!(
                [Code::Unauthenticated, Code::InvalidArgument].contains(&code),
                "{n}: {code:?}"
            );
            refused += 1;
        }
    }

    #[test]
    fn a_seal_expires() {
        let (clock, seal) = seal(1);
        let sealed = seal.close(Purpose::Ticket, b"x".to_vec()).unwrap();
        clock.advance(Duration::from_secs(3600));
        assert!(seal.open(Purpose::Ticket, &sealed).is_ok());
        clock.advance(Duration::from_secs(2));
        let error = seal.open(Purpose::Ticket, &sealed).unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated);
        assert!(error.message().contains("expired"), "{error}");
    }

    #[test]
    fn long_contents_are_bounded_and_the_longest_unused_goes() {
        let (_, seal) = seal(1);
        let long = |byte: u8| vec![byte; CONTENT_BYTES_MAX];
        let sealed: Vec<Bytes> =
            (0..4).map(|n| seal.close(Purpose::Ticket, long(n)).unwrap()).collect();
        assert!(seal.open(Purpose::Ticket, &sealed[0]).is_ok());
        seal.close(Purpose::Ticket, long(4)).unwrap();
        assert!(seal.open(Purpose::Ticket, &sealed[0]).is_ok());
        let gone = seal.open(Purpose::Ticket, &sealed[1]).unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }

    #[test]
    fn long_contents_go_when_their_last_seal_expires() {
        let (clock, seal) = seal(1);
        let long = |byte: u8| vec![byte; CARRIED_BYTES_MAX + 1];
        for byte in 0..3 {
            seal.close(Purpose::Ticket, long(byte)).unwrap();
        }
        let statement = seal.close(Purpose::Statement, long(0)).unwrap();
        seal.close(Purpose::Ticket, long(0)).unwrap();
        assert_eq!(seal.kept().bytes, 3 * (CARRIED_BYTES_MAX + 1));
        clock.advance(Duration::from_secs(3602));
        seal.close(Purpose::Ticket, long(3)).unwrap();
        assert_eq!(seal.kept().bytes, 2 * (CARRIED_BYTES_MAX + 1));
        assert_eq!(seal.open(Purpose::Statement, &statement).unwrap(), long(0));
    }

    #[test]
    fn a_content_beyond_all_memory_of_long_ones_is_refused() {
        let seal = Seal::new([1; HASH_BYTES], SimulatedClock::new(0), 1 << 20);
        let sealed = seal.close(Purpose::Ticket, vec![0; 1 << 20]).unwrap();
        assert!(seal.open(Purpose::Ticket, &sealed).is_ok());
        let error = seal.close(Purpose::Ticket, vec![0; (1 << 20) + 1]).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("--memory"), "{error}");
        let little = Seal::new([1; HASH_BYTES], SimulatedClock::new(0), 0);
        assert!(little.close(Purpose::Ticket, vec![0; CARRIED_BYTES_MAX]).is_ok());
    }

    #[test]
    fn a_prepared_statement_holds_for_a_day_and_no_longer() {
        let (clock, seal) = seal(1);
        for length in [1, CARRIED_BYTES_MAX + 1] {
            let sealed = seal.close(Purpose::Statement, vec![7; length]).unwrap();
            clock.advance(Duration::from_secs(24 * 3600));
            assert!(seal.open(Purpose::Statement, &sealed).is_ok(), "{length} bytes");
            clock.advance(Duration::from_secs(1));
            let error = seal.open(Purpose::Statement, &sealed).unwrap_err();
            assert_eq!(error.code(), Code::Unauthenticated);
            assert!(error.message().contains("holds for 86400 seconds"), "{error}");
        }
    }

    #[test]
    fn a_mark_stands_for_its_texts_as_they_are_divided_and_is_of_one_service() {
        let ((_, own), (_, other)) = (seal(1), seal(2));
        let all: [&[&str]; 7] =
            [&["ab", "c"], &["a", "bc"], &["abc"], &["c", "ab"], &["ab", "c", ""], &[""], &[]];
        for (place, one) in all.iter().enumerate() {
            assert_ne!(own.mark(one), other.mark(one), "{one:?}");
            for (at, another) in all.iter().enumerate() {
                let is_same = own.mark(one) == own.mark(another);
                assert_eq!(is_same, place == at, "{one:?}, {another:?}");
            }
        }
    }
}

//! Passwords: their hashes, and whether one is right.
//!
//! Invariant: a hash takes time and memory on purpose, so it is computed on threads that run no
//! statements, [`AT_ONCE`] at a time. Beyond [`WAITING_MAX`] nobody waits. A name that nobody has
//! takes as long as a wrong password.

use std::sync::Arc;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

/// Passwords that are hashed at once. Each takes [`MEMORY_KIB`].
const AT_ONCE: usize = 2;
/// Passwords that wait to be hashed.
const WAITING_MAX: usize = 64;
/// Memory and passes of a hash: what OWASP recommends for argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// Longest password, bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// The hash of no password, with the cost of a real one.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
                       $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why a password was not looked at: too many others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// See the head of this file.
#[derive(Debug)]
pub struct Passwords {
    turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Passwords { turns: semaphore(AT_ONCE), waiting: semaphore(AT_ONCE + WAITING_MAX) }
    }
}

impl Passwords {
    /// The hash of a password, as a PHC string with a salt of its own.
    ///
    /// Errors: in words, for an empty or an endless password, and where too many others wait.
    pub async fn hash(&self, password: String) -> Result<String, String> {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(format!(
                "a password has 1 to {PASSWORD_BYTES_MAX} bytes; PASSWORD = NULL takes it away"
            ));
        }
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|error| format!("there is no randomness: {error}"))?;
        let hashed = self.in_turn(move || hash(&password, &salt)).await;
        hashed.map_err(|Busy| "too many passwords are being looked at: try again".to_owned())?
    }

    /// Whether a password is the one of a hash. Without a hash it takes as long, and none is right.
    ///
    /// Errors: [`Busy`].
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Busy> {
        self.in_turn(move || is_right(&password, hash.as_deref())).await
    }

    /// Does `work` when it is its turn. It goes on to its end, whether or not somebody waits for
    /// it.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let place = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Busy)?;
        let work = tokio::task::spawn_blocking(move || {
            let _held = (place, turn);
            work()
        });
        work.await.map_err(|_| Busy)
    }
}

fn argon2() -> Result<Argon2<'static>, argon2::Error> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &str, salt: &[u8]) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the password cannot be hashed: {error}");
    let salt = SaltString::encode_b64(salt).map_err(|error| failed(&error))?;
    let argon2 = argon2().map_err(|error| failed(&error))?;
    let hash = argon2.hash_password(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| failed(&error))
}

fn is_right(password: &str, hash: Option<&str>) -> bool {
    // The cost is the one that the hash names.
    let verify = |hash: &str| {
        let hash = PasswordHash::new(hash).ok();
        hash.is_some_and(|hash| {
            Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
        })
    };
    let matches = verify(hash.unwrap_or(NOBODYS));
    hash.is_some() && matches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_right_password_is_told_from_others() {
        let passwords = Passwords::default();
        let hash = passwords.hash("sesame".to_owned()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let again = passwords.hash("sesame".to_owned()).await.unwrap();
        assert_ne!(hash, again, "each has a salt of its own");
        for (password, hash, wanted) in [
            ("sesame", Some(hash.clone()), true),
            ("Sesame", Some(hash.clone()), false),
            ("", Some(hash.clone()), false),
            ("sesame", Some("no hash".to_owned()), false),
            ("sesame", None, false),
        ] {
            let verified = passwords.verify(password.to_owned(), hash).await;
            assert_eq!(verified, Ok(wanted), "{password}");
        }
        for wrong in [String::new(), "x".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(passwords.hash(wrong).await.is_err());
        }
    }

    #[tokio::test]
    async fn whoever_had_a_turn_leaves_it_to_the_next_also_where_nobody_waited_for_the_end() {
        let passwords = Passwords::default();
        for number in 0..3 * (AT_ONCE + WAITING_MAX) {
            assert_eq!(passwords.in_turn(move || number).await, Ok(number));
        }
        for _ in 0..3 * (AT_ONCE + WAITING_MAX) {
            let mut gone = Box::pin(passwords.in_turn(|| ()));
            let _ = futures::poll!(&mut gone);
            drop(gone);
            // Its work goes on to its end, so there may be no place at this moment.
            while passwords.in_turn(|| ()).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[test]
    fn a_name_that_nobody_has_costs_as_much_as_one_that_somebody_has() {
        let cost = |hash: &str| {
            let hash = PasswordHash::new(hash).unwrap();
            (hash.algorithm.to_string(), Params::try_from(&hash).unwrap(), hash.hash.unwrap().len())
        };
        assert_eq!(cost(NOBODYS), cost(&hash("x", &[1; 16]).unwrap()));
    }

    #[tokio::test]
    async fn few_are_hashed_at_once_and_nobody_waits_behind_too_many() {
        let passwords = Passwords::default();
        let turns = passwords.turns.acquire_many(AT_ONCE as u32).await.unwrap();
        let mut waiting: Vec<_> =
            (0..AT_ONCE + WAITING_MAX).map(|_| Box::pin(passwords.in_turn(|| ()))).collect();
        for work in &mut waiting {
            assert!(futures::poll!(work).is_pending());
        }
        assert_eq!(passwords.in_turn(|| ()).await, Err(Busy));
        waiting.pop();
        assert!(futures::poll!(Box::pin(passwords.in_turn(|| ()))).is_pending());
        drop(turns);
        for work in waiting {
            assert_eq!(work.await, Ok(()));
        }
    }

    #[tokio::test]
    async fn a_password_has_so_many_bytes_at_most_and_each_of_them_counts() {
        let passwords = Passwords::default();
        let longest = "é".repeat(PASSWORD_BYTES_MAX / 2);
        let hash = passwords.hash(longest.clone()).await.unwrap();
        let (shorter, longer) = (longest[..longest.len() - 2].to_owned(), format!("{longest}x"));
        for (password, wanted) in [(longest, true), (shorter, false), (longer.clone(), false)] {
            assert_eq!(passwords.verify(password, Some(hash.clone())).await, Ok(wanted));
        }
        // The last character begins within the limit.
        let across = format!("{}é", "x".repeat(PASSWORD_BYTES_MAX - 1));
        for wrong in [longer, across, String::new()] {
            let told = passwords.hash(wrong).await.unwrap_err();
            assert!(told.contains("a password has 1 to 1024 bytes"), "{told}");
        }
    }
}

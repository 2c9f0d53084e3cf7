//! Tokens of roles: texts that a program sends in place of a password, with every call.
//!
//! ```text
//! tgt.<role>.<name of the token>.<secret>      each in base 64 for URLs, without what fills it up
//! ```
//! Invariant: a secret has 32 random bytes, so its digest needs neither salt nor time, and nobody
//! finds one by trying. The text is told once and kept nowhere.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE_64;

/// What each token begins with: so a reader of a log or a scanner of secrets knows it.
const PREFIX: &str = "tgt";
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// What a text says that may be a token.
pub struct Said {
    pub role: String,
    /// Of the token among those of its role.
    pub name: String,
    digest: blake3::Hash,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Said({} of {}, ***)", self.name, self.role)
    }
}

impl Said {
    /// Whether it is the token with this digest. Compared in constant time.
    pub fn is_of(&self, digest: &str) -> bool {
        blake3::Hash::from_hex(digest).is_ok_and(|digest| digest == self.digest)
    }
}

/// A new token: its text, and the digest to be kept of it.
///
/// Errors: in words, without randomness.
pub fn new(role: &str, name: &str) -> Result<(String, String), String> {
    let secret = random_key()?;
    let [role, name] = [role, name].map(|text| BASE_64.encode(text));
    let text = format!("{PREFIX}.{role}.{name}.{}", BASE_64.encode(secret));
    let digest = digest_of(&secret).to_hex().to_string();
    Ok((text, digest))
}

/// Random bytes that nobody guesses.
///
/// Errors: in words, without randomness.
pub fn random_key() -> Result<[u8; SECRET_BYTES], String> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| format!("there is no randomness: {error}"))?;
    Ok(secret)
}

/// Whether a text is meant to be a token of a role: that of a session has no such beginning.
pub fn is_one(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('.'))
}

/// What a text says; `None` for one that is no token.
pub fn read(text: &str) -> Option<Said> {
    let mut parts = text.split('.');
    if parts.next()? != PREFIX {
        return None;
    }
    let mut part = || BASE_64.decode(parts.next()?).ok();
    let (role, name, secret) = (part()?, part()?, part()?);
    let is_whole = parts.next().is_none() && secret.len() == SECRET_BYTES;
    let text = |bytes| String::from_utf8(bytes).ok();
    is_whole.then_some(())?;
    Some(Said { role: text(role)?, name: text(name)?, digest: digest_of(&secret) })
}

fn digest_of(secret: &[u8]) -> blake3::Hash {
    blake3::hash(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_whose_it_is_and_only_it_has_its_digest() {
        for (role, name) in [("ann", "ci"), ("www.example.com", "a b"), ("ü", "…")] {
            let (text, digest) = new(role, name).unwrap();
            let said = read(&text).unwrap();
            assert_eq!((&*said.role, &*said.name), (role, name));
            assert!(is_one(&text) && said.is_of(&digest));
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "it fits a header: {text}");
            assert!(!format!("{said:?}").contains(&digest));
            let (other, other_digest) = new(role, name).unwrap();
            assert!(other != text && !said.is_of(&other_digest));
            for digest in ["", "zz", &digest[1..]] {
                assert!(!said.is_of(digest), "{digest}");
            }
        }
    }

    #[test]
    fn what_is_no_token_says_nothing() {
        let (text, digest) = new("ann", "ci").unwrap();
        let cut = &text[..text.len() - 1];
        let more = format!("{text}.x");
        for wrong in ["", "tgt", "tgt.", "tgt...", cut, &more, &text[1..], "tgt.!.!.!", "0123abcd"]
        {
            assert!(read(wrong).is_none(), "{wrong}");
        }
        // Another secret, of the same length.
        let end = text.len() - 10;
        let other = if text.as_bytes()[end] == b'A' { "B" } else { "A" };
        let forged = format!("{}{other}{}", &text[..end], &text[end + 1..]);
        assert!(!read(&forged).unwrap().is_of(&digest));
        assert!(!is_one("0123abcd") && !is_one("tgtx") && is_one("tgt.x"));
    }
}

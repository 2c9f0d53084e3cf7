//! A token of a role that was told on a connection: its next call there is not read again.
//!
//! Invariant: it holds as long as the catalog has it, with the digest that it had when it was read.

use std::sync::Arc;

use tidegate_engine::Roles;

use crate::token::Said;

/// See the head of this file.
pub(in crate::flight) struct KnownToken {
    role: Arc<str>,
    /// Its name among the tokens of the role.
    name: String,
    digest: String,
}

impl KnownToken {
    /// The token that somebody said, if there is one and it holds at this moment.
    pub(super) fn of(said: &Said, roles: &Roles, now_us: i64) -> Option<Self> {
        let token = roles.get(&said.role)?.tokens.get(&said.name)?;
        if !said.is_of(&token.digest) || !token.holds_at(now_us) {
            return None;
        }
        let (role, name) = (said.role.as_str().into(), said.name.clone());
        Some(KnownToken { role, name, digest: token.digest.clone() })
    }

    /// Whether it still is a token of its role, and holds at this moment.
    pub(super) fn holds(&self, roles: &Roles, now_us: i64) -> bool {
        let token = roles.get(&self.role).and_then(|role| role.tokens.get(&self.name));
        token.is_some_and(|token| token.digest == self.digest && token.holds_at(now_us))
    }

    pub(super) fn role(&self) -> &Arc<str> {
        &self.role
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    /// A role with a token of this digest that expires at this moment.
    fn roles(digest: &str, expires_us: i64) -> Roles {
        let token =
            format!(r#"{{"digest": "{digest}", "created_us": 0, "expires_us": {expires_us}}}"#);
        let role = format!(r#"{{"login": true, "superuser": false, "tokens": {{"ci": {token}}}}}"#);
        serde_json::from_str(&format!(r#"{{"ann": {role}}}"#)).unwrap()
    }

    #[test]
    fn a_token_that_was_told_once_holds_as_long_as_the_catalog_says_so() {
        let (text, digest) = token::new("ann", "ci").unwrap();
        let said = token::read(&text).unwrap();
        let (_, other) = token::new("ann", "ci").unwrap();
        assert!(KnownToken::of(&said, &roles(&digest, 100), 100).is_none(), "it has expired");
        assert!(KnownToken::of(&said, &roles(&other, 100), 0).is_none(), "it is another");
        let known = KnownToken::of(&said, &roles(&digest, 100), 99).expect("it holds");
        assert_eq!((&**known.role(), known.name()), ("ann", "ci"));
        assert!(known.holds(&roles(&digest, 100), 99));
        assert!(!known.holds(&roles(&digest, 100), 100), "it expires while it is known");
        assert!(!known.holds(&roles(&digest, 50), 60), "it expires sooner than it was to");
        assert!(!known.holds(&roles(&other, 100), 0), "another of its name is there");
        assert!(!known.holds(&Roles::default(), 0), "its role is gone");
    }
}

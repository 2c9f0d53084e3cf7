//! Passwords in the text of statements, and the text without them.
//!
//! Invariant: what is kept of a text, in a history, a log or a table of `system`, went through
//! [`masked`]. A password is what stands behind PASSWORD in CREATE or ALTER ROLE or USER, whether
//! or not the rest of the statement is right.

use std::borrow::Cow;
use std::ops::Range;

use super::lexer::{Token, TokenKind, lex};

/// What stands in the place of a password.
const MASK: &str = "'***'";

/// A text in which each password is `'***'`.
pub fn masked(text: &str) -> Cow<'_, str> {
    replaced(text, |_| MASK.to_owned())
}

/// As [`masked`], with as many characters as before: places in the text stay what they are.
pub fn masked_in_place(text: &str) -> Cow<'_, str> {
    replaced(text, |secret| {
        let star = |c: char| if c == '\n' { c } else { '*' };
        secret.chars().map(star).collect()
    })
}

fn replaced(text: &str, with: impl Fn(&str) -> String) -> Cow<'_, str> {
    let secrets = secrets(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for secret in secrets {
        out.push_str(&text[at..secret.start]);
        out.push_str(&with(&text[secret.clone()]));
        at = secret.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// How far a statement has come towards a password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Elsewhere,
    /// Behind CREATE or ALTER.
    Verb,
    /// Within a statement about a role.
    Role,
    /// Behind PASSWORD, and `=` or other signs perhaps.
    Password,
    /// Behind the password itself, or behind what stands for it in a statement that is wrong.
    Behind,
}

/// Where the passwords stand, with their quotes.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Most texts have none, and looking for a word is fast.
    if !text.as_bytes().windows(8).any(|word| word.eq_ignore_ascii_case(b"password")) {
        return found;
    }
    let mut at = At::Elsewhere;
    for Token { kind, range, .. } in lex(text) {
        let token = &text[range.clone()];
        let is = |word: &str| kind == TokenKind::Word && token.eq_ignore_ascii_case(word);
        at = match (at, kind) {
            (_, TokenKind::Space | TokenKind::Comment) => at,
            (_, TokenKind::Semicolon) => At::Elsewhere,
            (At::Elsewhere | At::Verb, _) if is("create") || is("alter") => At::Verb,
            (At::Verb, _) if is("role") || is("user") => At::Role,
            (At::Elsewhere | At::Verb, _) => At::Elsewhere,
            (At::Role | At::Password | At::Behind, _) if is("password") => At::Password,
            (At::Role, _) => At::Role,
            (At::Password | At::Behind, TokenKind::Symbol) => at,
            (At::Behind, TokenKind::Word | TokenKind::Number) => At::Role,
            (At::Password | At::Behind, _) => {
                found.push(range);
                At::Behind
            }
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_password_of_a_role_is_masked_and_nothing_else() {
        for (text, wanted) in [
            (
                "CREATE ROLE r WITH PASSWORD = 'se''cret' AND LOGIN = true",
                "CREATE ROLE r WITH PASSWORD = '***' AND LOGIN = true",
            ),
            ("alter user r with password 'x'", "alter user r with password '***'"),
            ("Create Role r With PassWord = 'x'", "Create Role r With PassWord = '***'"),
            (
                "ALTER ROLE r WITH LOGIN = true AND HASHED PASSWORD='$argon2'",
                "ALTER ROLE r WITH LOGIN = true AND HASHED PASSWORD='***'",
            ),
            (
                "CREATE ROLE r WITH PASSWORD = /* new */ 'x'; SELECT 'x'",
                "CREATE ROLE r WITH PASSWORD = /* new */ '***'; SELECT 'x'",
            ),
            // Wrong, and kept all the same.
            ("CREATE ROLE r WITH PASSWORD = \"x\"", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("CREATE ROLE r WITH PASSWORD = secret", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("CREATE ROLE r WITH PASSWORD = 'open", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("CREATE ROLE r WITH PASSWORD => 'x'", "CREATE ROLE r WITH PASSWORD => '***'"),
            ("CREATE ROLE r WITH PASSWORD: 'x'", "CREATE ROLE r WITH PASSWORD: '***'"),
            ("CREATE ROLE r WITH PASSWORD = N'x'", "CREATE ROLE r WITH PASSWORD = '***''***'"),
            (
                "ALTER ROLE r WITH PASSWORD = x AND a = 'b'",
                "ALTER ROLE r WITH PASSWORD = '***' AND a = 'b'",
            ),
            ("SELECT * FROM t WHERE password = 'x'", "SELECT * FROM t WHERE password = 'x'"),
            ("CREATE TABLE role (password text)", "CREATE TABLE role (password text)"),
            ("CREATE ROLE password", "CREATE ROLE password"),
        ] {
            assert_eq!(masked(text), wanted);
        }
        let text = "CREATE ROLE é WITH PASSWORD = 'pässword'\nAND x";
        let kept = masked_in_place(text);
        assert_eq!(kept, "CREATE ROLE é WITH PASSWORD = **********\nAND x");
        assert_eq!(kept.chars().count(), text.chars().count());
    }

    #[test]
    fn each_password_of_a_text_is_masked_and_every_statement_begins_anew() {
        for (text, wanted) in [
            (
                "CREATE ROLE a WITH PASSWORD = 'x'; ALTER ROLE b WITH PASSWORD = 'y'",
                "CREATE ROLE a WITH PASSWORD = '***'; ALTER ROLE b WITH PASSWORD = '***'",
            ),
            (
                "CREATE TABLE t (a int); create user u with password 'x'",
                "CREATE TABLE t (a int); create user u with password '***'",
            ),
            (
                "CREATE ROLE IF NOT EXISTS a WITH LOGIN = true AND PASSWORD = 'x'",
                "CREATE ROLE IF NOT EXISTS a WITH LOGIN = true AND PASSWORD = '***'",
            ),
            (
                r"ALTER ROLE a WITH PASSWORD = E'x\'y' AND LOGIN = true",
                "ALTER ROLE a WITH PASSWORD = '***' AND LOGIN = true",
            ),
            ("ALTER ROLE a WITH PASSWORD = $$x;y$$", "ALTER ROLE a WITH PASSWORD = '***'"),
            (
                "ALTER ROLE a WITH PASSWORD\n-- new\n= 'x'",
                "ALTER ROLE a WITH PASSWORD\n-- new\n= '***'",
            ),
            (
                "ALTER ROLE a WITH LOGIN = true; SELECT password FROM t",
                "ALTER ROLE a WITH LOGIN = true; SELECT password FROM t",
            ),
        ] {
            assert_eq!(masked(text), wanted);
        }
        let kept = masked_in_place("ALTER ROLE a WITH PASSWORD = 'x\ny'; SELECT 1");
        assert_eq!(kept, "ALTER ROLE a WITH PASSWORD = **\n**; SELECT 1");
    }

    /// Whatever a password is written as, and whatever stands before it.
    #[test]
    fn a_password_of_any_form_is_masked_wherever_its_statement_stands() {
        for (text, wanted) in [
            ("CREATE ROLE r WITH PASSWORD = 12345", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("CREATE ROLE r WITH PASSWORD = `x`", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("CREATE ROLE r WITH PASSWORD = $t$x$t$", "CREATE ROLE r WITH PASSWORD = '***'"),
            ("ALTER USER r WITH PASSWORD\t'x'", "ALTER USER r WITH PASSWORD\t'***'"),
            (
                "/* new */ create /* a */ role r with password='x'",
                "/* new */ create /* a */ role r with password='***'",
            ),
            (
                "ALTER ROLE r WITH PASSWORD = 'x' AND PASSWORD = 'y'",
                "ALTER ROLE r WITH PASSWORD = '***' AND PASSWORD = '***'",
            ),
            (
                "EXPLAIN CREATE ROLE create WITH PASSWORD = 'x'",
                "EXPLAIN CREATE ROLE create WITH PASSWORD = '***'",
            ),
            (
                "CREATE USER IF NOT EXISTS u WITH PASSWORD 'x' SUPERUSER; SELECT 'password'",
                "CREATE USER IF NOT EXISTS u WITH PASSWORD '***' SUPERUSER; SELECT 'password'",
            ),
        ] {
            assert_eq!(masked(text), wanted);
            let kept = masked_in_place(text);
            assert_eq!(kept.chars().count(), text.chars().count(), "{text}");
            assert!(!kept.contains("'x'") && !kept.contains("'y'"), "{kept}");
        }
        // A role of that name hides nothing.
        let odd = masked("ALTER ROLE password WITH PASSWORD = 'hush'");
        assert!(!odd.contains("hush"), "{odd}");
        for plain in ["SELECT 'password'", "", "passwor", "GRANT SELECT ON password TO r"] {
            assert!(matches!(masked(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }
}

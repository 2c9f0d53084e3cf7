//! CREATE, ALTER and DROP ROLE.
//!
//! Invariant: a password leaves this file as its hash alone.

use std::fmt;

use sqlparser::tokenizer::Token;
use tidegate_engine::{PasswordHash, RoleOptions};

use super::{role_name, unless_own};
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// A password as it was typed. Nobody is shown it.
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What a statement says of a role; an option that it does not name stays as it is.
#[derive(Debug, Default)]
struct Changes {
    /// `None` takes it away.
    password: Option<Option<Secret>>,
    login: Option<bool>,
    superuser: Option<bool>,
}

impl Changes {
    /// `PASSWORD = '…' AND LOGIN = true AND SUPERUSER = false`; `=`, `AND` and `true` may be left
    /// out, as in Cassandra's statements about users.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut changes = Changes::default();
        while cursor.peek().is_some() {
            let span = cursor.span();
            let repeated = if cursor.take_word("password") {
                cursor.take(&Token::Eq);
                let password = match cursor.take_word("null") {
                    true => None,
                    false => Some(Secret(cursor.string("a password in quotes, or NULL")?.0)),
                };
                changes.password.replace(password).is_some()
            } else if cursor.take_word("login") {
                changes.login.replace(switch(cursor)?).is_some()
            } else if cursor.take_word("superuser") {
                changes.superuser.replace(switch(cursor)?).is_some()
            } else if cursor.take_word("nosuperuser") {
                changes.superuser.replace(false).is_some()
            } else {
                return Err(cursor.expected("PASSWORD, LOGIN or SUPERUSER"));
            };
            if repeated {
                return Err(QueryError::invalid("an option is said twice").at(span));
            }
            if cursor.take_word("and") && cursor.peek().is_none() {
                return Err(cursor.expected("PASSWORD, LOGIN or SUPERUSER"));
            }
        }
        Ok(changes)
    }

    /// Whether it changes a password and nothing else.
    fn is_of_password(&self) -> bool {
        self.password.is_some() && self.login.is_none() && self.superuser.is_none()
    }

    /// The change of what is set of a role, with the hash of the password.
    async fn hashed(
        &self,
        session: &Session,
    ) -> Result<impl FnOnce(&mut RoleOptions) + Send + use<>> {
        let password = match &self.password {
            Some(Some(Secret(password))) => {
                let hash = session.options.passwords.hash(password.clone()).await;
                Some(Some(PasswordHash::new(hash.map_err(QueryError::invalid)?)))
            }
            Some(None) => Some(None),
            None => None,
        };
        let Changes { login, superuser, .. } = *self;
        Ok(move |options: &mut RoleOptions| {
            options.login = login.unwrap_or(options.login);
            options.superuser = superuser.unwrap_or(options.superuser);
            if let Some(password) = password {
                options.password = password;
            }
        })
    }
}

/// `[= true | false]`
fn switch(cursor: &mut Cursor<'_>) -> Result<bool> {
    if !cursor.take(&Token::Eq) {
        return Ok(true);
    }
    match (cursor.take_word("true"), cursor.take_word("false")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(cursor.expected("true or false")),
    }
}

#[derive(Debug)]
pub struct CreateRole {
    name: Name,
    changes: Changes,
    if_not_exists: bool,
}

impl Read for CreateRole {
    /// `[IF NOT EXISTS] role [WITH option [AND …]]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = role_name(cursor)?;
        if cursor.peek().is_some() {
            cursor.expect_word("with")?;
            if cursor.peek().is_none() {
                return Err(cursor.expected("PASSWORD, LOGIN or SUPERUSER"));
            }
        }
        Ok(CreateRole { name, changes: Changes::read(cursor)?, if_not_exists })
    }
}

impl OwnStatement for CreateRole {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::Superuser]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let CreateRole { name, changes, if_not_exists } = self;
        let mut options = RoleOptions::default();
        changes.hashed(session).await?(&mut options);
        let created = session.database.create_role(&name.value, options, *if_not_exists).await;
        created.map_err(|error| QueryError::from(error).at(name.span))?;
        Ok(Outcome::message(format!("Role {} is there.", name.value)))
    }
}

/// CREATE USER: a role that may log in.
#[derive(Debug)]
pub struct CreateUser(CreateRole);

impl Read for CreateUser {
    /// `[IF NOT EXISTS] role [WITH PASSWORD '…'] [SUPERUSER | NOSUPERUSER]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = role_name(cursor)?;
        cursor.take_word("with");
        let mut changes = Changes::read(cursor)?;
        changes.login.get_or_insert(true);
        Ok(CreateUser(CreateRole { name, changes, if_not_exists }))
    }
}

impl OwnStatement for CreateUser {
    fn needs(&self, session: &Session) -> Vec<Need> {
        self.0.needs(session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        self.0.run(session).await
    }
}

#[derive(Debug)]
pub struct AlterRole {
    name: Name,
    changes: Changes,
}

impl Read for AlterRole {
    /// `role WITH option [AND …]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = role_name(cursor)?;
        cursor.expect_word("with")?;
        if cursor.peek().is_none() {
            return Err(cursor.expected("PASSWORD, LOGIN or SUPERUSER"));
        }
        Ok(AlterRole { name, changes: Changes::read(cursor)? })
    }
}

impl OwnStatement for AlterRole {
    /// Everyone may change the own password.
    fn needs(&self, session: &Session) -> Vec<Need> {
        match self.changes.is_of_password() {
            true => unless_own(&self.name, session, Need::Superuser),
            false => vec![Need::Superuser],
        }
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let AlterRole { name, changes } = self;
        session.role(name)?;
        let altered = session.database.alter_role(&name.value, changes.hashed(session).await?);
        altered.await.map_err(|error| QueryError::from(error).at(name.span))?;
        Ok(Outcome::message(format!("Role {} is changed.", name.value)))
    }
}

#[derive(Debug)]
pub struct DropRole {
    name: Name,
    if_exists: bool,
}

impl Read for DropRole {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropRole { name: role_name(cursor)?, if_exists })
    }
}

impl OwnStatement for DropRole {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::Superuser]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DropRole { name, if_exists } = self;
        if !if_exists {
            session.role(name)?;
        }
        let dropped = session.database.drop_role(&name.value, *if_exists).await;
        dropped.map_err(|error| QueryError::from(error).at(name.span))?;
        Ok(Outcome::message(format!("Role {} is gone.", name.value)))
    }
}

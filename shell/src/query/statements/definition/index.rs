//! CREATE INDEX of a schema that was written for Cassandra or ScyllaDB. There are no indexes, and
//! no statement needs one: a condition on any column is checked row by row. So it is read, its
//! table and columns are looked up, and a note says that it is left out.

use sqlparser::tokenizer::Token;
use tidegate_engine::Permission;

use super::foreign::{Ignored, skip_value};
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name, TableName};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::write::find_column;

const WHY: &str = "a condition on any column is checked row by row, and for speed a second table \
                   has that column first in its key";

/// `CREATE [CUSTOM] INDEX`.
#[derive(Debug)]
pub struct CreateIndex {
    /// Most schemas name it.
    pub name: Option<Name>,
    pub table: TableName,
    pub columns: Vec<Name>,
}

impl Read for CreateIndex {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.take_words(&["if", "not", "exists"]);
        let name = match cursor.take_word("on") {
            true => None,
            false => {
                let name = cursor.name("the name of an index, or ON")?;
                cursor.expect_word("on")?;
                Some(name)
            }
        };
        let table = cursor.table_name()?;
        let columns = cursor.parenthesised(columns)?.into_iter().flatten().collect();
        if cursor.take_word("using") {
            cursor.option_value()?;
        }
        if cursor.take_words(&["with", "options"]) {
            cursor.expect(&Token::Eq)?;
            skip_value(cursor)?;
        }
        Ok(CreateIndex { name, table, columns })
    }
}

/// `one`, `keys(one)` and the like, or the `(one, two)` of an index within partitions.
fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<Name>> {
    if cursor.peek() == Some(&Token::LParen) {
        return cursor.parenthesised(|cursor| cursor.name("a column name"));
    }
    let name = cursor.name("a column name")?;
    match cursor.peek() == Some(&Token::LParen) {
        true => cursor.parenthesised(|cursor| cursor.name("a column name")),
        false => Ok(vec![name]),
    }
}

impl OwnStatement for CreateIndex {
    fn needs(&self, session: &Session) -> Vec<Need> {
        vec![Need::on_table(Permission::Alter, session, &self.table)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = session.table(&self.table)?;
        for name in &self.columns {
            find_column(&table, name)?;
        }
        let mut ignored = Ignored::default();
        ignored.add(match &self.name {
            Some(name) => format!("index {}", name.value),
            None => "the index".to_owned(),
        });
        let message = format!("Table {} is as it was.", table.full_name());
        Ok(ignored.noted(Outcome::message(message), WHY))
    }
}

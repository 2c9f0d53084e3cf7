//! ALTER TABLE: columns that are added, dropped and renamed, and options.

use sqlparser::tokenizer::Token;
use tidegate_engine::{
    Catalog, Column, ColumnChange, ColumnKind, NewColumn, Permission, TableOptions, TableSchema,
};

use super::counter;
use super::foreign::Ignored;
use super::table_option::{TableOption, table_option};
use super::user_type::find_type;
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name, TableName, TypeName, type_name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::write::find_column;

#[derive(Debug)]
pub struct AlterTable {
    pub name: TableName,
    pub change: Change,
    ignored: Ignored,
}

/// What an ALTER TABLE changes.
#[derive(Debug)]
pub enum Change {
    Options(Vec<TableOption>),
    Add { columns: Vec<AddedColumn>, if_not_exists: bool },
    Drop { columns: Vec<Name>, if_exists: bool, timestamp: Option<i64> },
    Rename { columns: Vec<(Name, Name)>, if_exists: bool },
}

#[derive(Debug)]
pub struct AddedColumn {
    name: Name,
    ty: TypeName,
    is_static: bool,
}

impl Read for AlterTable {
    /// `[keyspace.]name` and one of
    /// `ADD [COLUMN] [IF NOT EXISTS] column type [STATIC] [, …]`,
    /// `DROP [COLUMN] [IF EXISTS] column [, …] [USING TIMESTAMP µs]`,
    /// `RENAME [COLUMN] [IF EXISTS] column TO name [AND …]`,
    /// `WITH option = value [AND …]`. Lists may stand in parentheses.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = cursor.table_name()?;
        let mut ignored = Ignored::default();
        let change = if cursor.take_word("add") {
            cursor.take_word("column");
            let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
            Change::Add { columns: list(cursor, "add", added)?, if_not_exists }
        } else if cursor.take_word("drop") {
            cursor.take_word("column");
            let if_exists = cursor.take_words(&["if", "exists"]);
            let column = |cursor: &mut Cursor<'_>| cursor.name("a column name");
            let columns = list(cursor, "drop", column)?;
            let has_timestamp = cursor.take_words(&["using", "timestamp"]);
            let timestamp = has_timestamp.then(|| cursor.number("microseconds")).transpose()?;
            Change::Drop { columns, if_exists, timestamp }
        } else if cursor.take_word("rename") {
            cursor.take_word("column");
            let if_exists = cursor.take_words(&["if", "exists"]);
            let mut columns = vec![renamed(cursor)?];
            while cursor.take_word("and") || cursor.take(&Token::Comma) {
                columns.push(renamed(cursor)?);
            }
            Change::Rename { columns, if_exists }
        } else if cursor.take_word("with") {
            let mut options = Vec::from_iter(table_option(cursor, &mut ignored)?);
            while cursor.take_word("and") {
                options.extend(table_option(cursor, &mut ignored)?);
            }
            Change::Options(options)
        } else {
            let error = cursor.expected("ADD, DROP, RENAME or WITH");
            let help = "the type of a column stays: add another column and copy the values";
            return Err(match cursor.take_word("alter") {
                true => error.with_help(help),
                false => error,
            });
        };
        Ok(AlterTable { name, change, ignored })
    }
}

/// `one, two`, `(one, two)` or `one, ADD COLUMN two`.
fn list<T>(
    cursor: &mut Cursor<'_>,
    word: &str,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    if cursor.peek() == Some(&Token::LParen) {
        return cursor.parenthesised(one);
    }
    let mut is_first = true;
    cursor.comma_separated(|cursor| {
        if !std::mem::take(&mut is_first) && cursor.take_word(word) {
            cursor.take_word("column");
        }
        one(cursor)
    })
}

fn added(cursor: &mut Cursor<'_>) -> Result<AddedColumn> {
    let (name, ty) = (cursor.name("a column name")?, type_name(cursor)?);
    Ok(AddedColumn { name, ty, is_static: cursor.take_word("static") })
}

fn renamed(cursor: &mut Cursor<'_>) -> Result<(Name, Name)> {
    let from = cursor.name("a column of the primary key")?;
    cursor.expect_word("to")?;
    Ok((from, cursor.name("its new name")?))
}

impl Change {
    /// The columns that the statement says, as they are in `keyspace`; none where it is about
    /// options.
    ///
    /// Errors: `NotFound` at a type that is not there.
    fn of_columns(&self, catalog: &Catalog, keyspace: &str) -> Result<Option<ColumnChange>> {
        let text = |name: &Name| name.value.clone();
        Ok(Some(match self {
            Change::Options(_) => return Ok(None),
            Change::Add { columns, if_not_exists } => {
                let find = |name: &TableName| find_type(catalog, keyspace, name);
                let column = |column: &AddedColumn| {
                    let ty = column.ty.resolve(&find)?;
                    Ok(NewColumn { name: text(&column.name), ty, is_static: column.is_static })
                };
                let columns: Result<Vec<_>> = columns.iter().map(column).collect();
                ColumnChange::Add { columns: columns?, if_not_exists: *if_not_exists }
            }
            Change::Drop { columns, if_exists, timestamp } => {
                let columns = columns.iter().map(text).collect();
                let timestamp = *timestamp;
                ColumnChange::Drop { columns, if_exists: *if_exists, timestamp }
            }
            Change::Rename { columns, if_exists } => {
                let columns = columns.iter().map(|(from, to)| (text(from), text(to))).collect();
                ColumnChange::Rename { columns, if_exists: *if_exists }
            }
        }))
    }

    /// Errors: `Invalid` where counters would stand beside other columns, or expire.
    fn check_counters(&self, table: &TableSchema, columns: Option<&ColumnChange>) -> Result<()> {
        let mut options = table.options.clone();
        let mut all = table.columns.clone();
        match (self, columns) {
            (Change::Options(changes), _) => {
                changes.iter().cloned().for_each(|option| option.apply(&mut options));
            }
            (_, Some(ColumnChange::Add { columns, .. })) => {
                all.extend(columns.iter().map(|column| Column {
                    name: column.name.clone(),
                    ty: column.ty.clone(),
                    kind: ColumnKind::Regular,
                }));
            }
            _ => return Ok(()),
        }
        counter::check(&all, options.default_time_to_live)
    }

    /// The columns that must be there.
    fn wanted(&self) -> Vec<&Name> {
        match self {
            Change::Drop { columns, if_exists: false, .. } => columns.iter().collect(),
            Change::Rename { columns, if_exists: false } => {
                // The second may be the first of another.
                columns.iter().take(1).map(|(from, _)| from).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl OwnStatement for AlterTable {
    fn needs(&self, session: &Session) -> Vec<Need> {
        vec![Need::on_table(Permission::Alter, session, &self.name)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = session.table(&self.name)?;
        for name in self.change.wanted() {
            find_column(&table, name)?;
        }
        let (keyspace, name) = (&table.keyspace, &table.name);
        let database = &session.database;
        let columns = self.change.of_columns(&database.catalog(), keyspace)?;
        self.change.check_counters(&table, columns.as_ref())?;
        let altered = match columns {
            Some(change) => database.alter_columns(keyspace, name, change).await,
            None => {
                let Change::Options(options) = &self.change else {
                    unreachable!("it changes columns or options")
                };
                let options = options.clone();
                let change = move |present: &mut TableOptions| {
                    options.into_iter().for_each(|option| option.apply(present));
                };
                database.alter_table(keyspace, name, change).await
            }
        };
        let altered = altered.map_err(|error| QueryError::from(error).at(self.name.table.span))?;
        let name = table.full_name();
        let altered = Outcome::message(match altered.shards_closed {
            0 => format!("Table {name} altered."),
            _ => format!(
                "Table {name} altered. Shards that could not open it do with the next start."
            ),
        });
        Ok(self.ignored.noted(altered, "Tidegate has no such options"))
    }
}

//! A row of the table of statements: what parser, help and Tab know of one.

use std::sync::Arc;

use super::{AnyStatement, Read};
use crate::query::error::Result;
use crate::query::parse::Cursor;

/// One statement.
#[derive(Debug)]
pub struct StatementRow {
    /// The first words. Of several rows that fit a text, the one with most words reads it.
    pub words: &'static str,
    /// Other first words for the same; nobody offers them.
    pub aliases: &'static [&'static str],
    /// Who reads the rest.
    pub(super) reader: Reader,
    pub help: &'static [Help],
    /// What Tab offers where the text ends in these words, behind the first ones. The first entry
    /// that fits decides; empty words fit where nothing else stands.
    pub tabs: &'static [(&'static str, &'static [Tab])],
    /// What Tab offers where no entry fits.
    pub continues: Continues,
    pub(super) offered: Offered,
    pub(super) changes_session: bool,
    /// Whether all nodes of a cluster run it, or none.
    pub(super) on_all_nodes: bool,
}

/// Who reads a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reader {
    /// A type of this folder.
    Own(fn(&mut Cursor<'_>) -> Result<Arc<dyn AnyStatement>>),
    /// The words are all, and the statement stands for this query.
    Show(&'static str),
    /// INSERT, UPDATE and DELETE.
    Write,
    Batch,
    Explain,
    /// DataFusion.
    Sql,
    /// Nobody; what helps instead.
    Refused(Option<&'static str>),
}

/// Where a statement is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// With Tab, and by an error that knows what was meant.
    Everywhere,
    ByErrors,
    Nowhere,
}

/// An entry of the help.
#[derive(Debug, Clone, Copy)]
pub enum Help {
    /// A name in the list of its topic.
    Name(Topic, &'static str),
    /// A form, and what it does.
    Form(Topic, &'static str, &'static str),
}

/// What entries of the help have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    Tables,
    Rows,
    ForeignFiles,
    EvictionPolicies,
    ShownPolicies,
    OtherPolicies,
    Traces,
    Levels,
    Roles,
    Engine,
}

/// What Tab offers.
#[derive(Debug, Clone, Copy)]
pub enum Tab {
    /// Keywords, in the letter case that the person uses.
    Words(&'static [&'static str]),
    /// Names, as they are.
    Names(&'static [&'static str]),
    Tables,
    Keyspaces,
    Policies,
}

/// What may follow where the text does not decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continues {
    Nothing,
    /// Keywords of statements about tables, policies and files.
    Definition,
    /// Keywords of queries and writes.
    Query,
}

impl StatementRow {
    /// What most rows have in common.
    pub(super) const PLAIN: StatementRow = StatementRow {
        words: "",
        aliases: &[],
        reader: Reader::Sql,
        help: &[],
        tabs: &[],
        continues: Continues::Definition,
        offered: Offered::Everywhere,
        changes_session: false,
        on_all_nodes: false,
    };
    pub(super) const SHOW: StatementRow =
        StatementRow { continues: Continues::Nothing, ..StatementRow::PLAIN };
    pub(super) const QUERY: StatementRow =
        StatementRow { continues: Continues::Query, ..StatementRow::PLAIN };
    pub(super) const REFUSED: StatementRow = StatementRow {
        reader: Reader::Refused(None),
        offered: Offered::Nowhere,
        ..StatementRow::PLAIN
    };

    /// Whether Tab offers it.
    pub fn is_offered(&self) -> bool {
        self.offered == Offered::Everywhere
    }

    /// Whether it is one of our own.
    pub fn is_own(&self) -> bool {
        matches!(self.reader, Reader::Own(_) | Reader::Show(_))
    }

    /// Its first words, in every spelling.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.words).chain(self.aliases.iter().copied())
    }
}

/// The reader of a type of this folder.
pub(super) fn own<T: Read>(cursor: &mut Cursor<'_>) -> Result<Arc<dyn AnyStatement>> {
    Ok(Arc::new(T::read(cursor)?))
}

//! Names of Cassandra's type classes with their parameters, as a tree of text.
//!
//! Both readers of SSTables start here; each decides what a name means.

use crate::hex::unhex;
use crate::schema::types::TYPE_DEPTH_MAX;

pub(super) const PACKAGE: &str = "org.apache.cassandra.db.marshal.";
/// Most levels of types within types that are looked at; wrappers double those of the type itself.
const DEPTH_MAX: usize = 2 * TYPE_DEPTH_MAX;

/// The name of a class and its parameters.
#[derive(Debug)]
pub(crate) struct ClassName<'a> {
    /// What stands before a colon: the name of a user type's field.
    pub(crate) label: Option<&'a str>,
    /// Without its package.
    pub(crate) class: &'a str,
    pub(crate) parameters: Vec<ClassName<'a>>,
    /// All of it as it was written.
    pub(crate) text: &'a str,
}

impl<'a> ClassName<'a> {
    /// Reads a whole name; `None` when it is none.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let mut rest = name.trim();
        let parsed = ClassName::parse_front(&mut rest, 0)?;
        rest.trim().is_empty().then_some(parsed)
    }

    fn parse_front(text: &mut &'a str, depth: usize) -> Option<Self> {
        let whole = *text;
        let end = text.find(['(', ')', ',', ' ']).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let (label, name) = match name.split_once(':') {
            Some((label, name)) => (Some(label), name),
            None => (None, name),
        };
        if name.is_empty() || depth > DEPTH_MAX {
            return None;
        }
        let mut parameters = Vec::new();
        if let Some(inner) = rest.strip_prefix('(') {
            rest = inner;
            loop {
                rest = rest.trim_start_matches([',', ' ']);
                if let Some(after) = rest.strip_prefix(')') {
                    rest = after;
                    break;
                }
                parameters.push(ClassName::parse_front(&mut rest, depth + 1)?);
            }
        }
        *text = rest;
        let text = &whole[..whole.len() - rest.len()];
        let class = name.strip_prefix(PACKAGE).unwrap_or(name);
        Some(ClassName { label, class, parameters, text })
    }
}

/// Text from hex digits of its bytes: how names of user types and their fields are written.
pub(crate) fn text_of_hex(digits: &str) -> Option<String> {
    String::from_utf8(unhex(digits)?).ok()
}

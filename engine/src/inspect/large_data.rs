//! Keys in the records of `Scylla.db` as text.

use super::dump::key_texts;
use super::types::StoredType;
use super::value::text;
use crate::hex::Hex;
use crate::schema::TableSchema;
use crate::sstable::format::type_name::marshal_name;

/// The columns of a record's partition key as text; the bytes as hex when they are no key of
/// `schema`.
pub fn partition_key_text(schema: &TableSchema, key: &[u8]) -> String {
    let types: Vec<StoredType> =
        schema.partition_key().map(|column| StoredType::parse(&marshal_name(column))).collect();
    match key_texts(&types, key) {
        Ok(texts) => texts.join(", "),
        Err(_) => format!("0x{}", Hex(key)),
    }
}

/// As [`partition_key_text`], for a record's clustering key; `None` when it has none.
pub fn clustering_key_text(schema: &TableSchema, key: &[u8]) -> Option<String> {
    if key.is_empty() {
        return None;
    }
    let mut rest = key;
    let mut texts = Vec::new();
    for column in schema.clustering_key() {
        let Some((length, tail)) = rest.split_first_chunk::<2>() else { break };
        let value = tail.split_at_checked(usize::from(u16::from_be_bytes(*length)));
        let text = value.and_then(|(value, tail)| {
            rest = tail;
            // The order of a column does not matter to its text.
            let ascending = crate::schema::Column {
                kind: crate::schema::ColumnKind::Regular,
                ..column.clone()
            };
            text(&StoredType::parse(&marshal_name(&ascending)), value).ok()
        });
        match text {
            Some(text) => texts.push(text),
            None => return Some(format!("0x{}", Hex(key))),
        }
    }
    Some(if rest.is_empty() { texts.join(", ") } else { format!("0x{}", Hex(key)) })
}

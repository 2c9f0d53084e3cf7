//! Binary form of a mutation, as the commitlog stores it.
//!
//! ```text
//! mutation := u128 table, bytes key, flags, [tombstone], [row], vint n, n x (bytes key, row),
//!             vint n, n x (position start, position end, tombstone)
//! row      := flags, [liveness], [tombstone], vint n, n x (vint column, cell),
//!             [vint n, n x (vint column, flags, [tombstone], vint n, n x (bytes path, cell))]
//! bytes    := vint length, bytes            integers: LEB128, signed ones zigzagged
//! ```
//! The reader never trusts a length: it is checked against what is left before anything is taken.

use super::cell::{Cell, CellState};
use super::multi_cell::{CellPath, MultiCell};
use super::position::ClusteringRange;
use super::position::{Position, Weight};
use super::range_tombstone::RangeTombstone;
use super::row::{Liveness, Row};
use super::tombstone::Tombstone;
use super::write::Mutation;
use crate::error::{Error, Result};
use crate::schema::{ClusteringKey, ColumnId, PartitionKey, TableId};

const HAS_DELETION: u8 = 1;
const HAS_STATIC_ROW: u8 = 2;
const HAS_LIVENESS: u8 = 2;
const HAS_MULTI: u8 = 4;

/// Appends the binary form of `mutation` to `out`.
///
/// Cells and elements must be as [`Mutation::check`] wants them: what is out of order is not read
/// back.
pub fn encode(mutation: &Mutation, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&mutation.table.0.to_be_bytes());
    put_bytes(out, mutation.key.as_bytes());
    let mut flags = 0;
    if mutation.deletion.is_some() {
        flags |= HAS_DELETION;
    }
    if mutation.static_row.is_some() {
        flags |= HAS_STATIC_ROW;
    }
    out.push(flags);
    if let Some(deletion) = mutation.deletion {
        put_tombstone(out, deletion);
    }
    if let Some(row) = &mutation.static_row {
        put_row(out, row);
    }
    put_unsigned(out, mutation.rows.len() as u64);
    for (key, row) in &mutation.rows {
        put_bytes(out, key.as_ordered());
        put_row(out, row);
    }
    put_unsigned(out, mutation.range_tombstones.len() as u64);
    for deleted in &mutation.range_tombstones {
        put_position(out, &deleted.range.start);
        put_position(out, &deleted.range.end);
        put_tombstone(out, deleted.tombstone);
    }
    debug_assert!(
        decode(&out[from..]).map_or(true, |read| read == *mutation),
        "{mutation:?} is read back as {:?}",
        decode(&out[from..])
    );
}

/// Reads a mutation that takes up all of `bytes`.
///
/// Errors: `Invalid` saying at which byte the form is broken.
pub fn decode(bytes: &[u8]) -> Result<Mutation> {
    let mut input = Input { bytes, at: 0 };
    let table = TableId(u128::from_be_bytes(input.array()?));
    let key = PartitionKey::from_bytes(input.bytes()?);
    let flags = input.byte()?;
    let deletion = (flags & HAS_DELETION != 0).then(|| input.tombstone()).transpose()?;
    let static_row = (flags & HAS_STATIC_ROW != 0).then(|| input.row()).transpose()?;
    let count = input.count()?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push((ClusteringKey::from_ordered(input.bytes()?), input.row()?));
    }
    let count = input.count()?;
    let mut range_tombstones = Vec::with_capacity(count);
    for _ in 0..count {
        let range = ClusteringRange { start: input.position()?, end: input.position()? };
        range_tombstones.push(RangeTombstone { range, tombstone: input.tombstone()? });
    }
    if input.at != bytes.len() {
        return Err(input.broken("bytes left over"));
    }
    Ok(Mutation { table, key, deletion, static_row, rows, range_tombstones })
}

fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_tombstone(out: &mut Vec<u8>, tombstone: Tombstone) {
    put_signed(out, tombstone.timestamp);
    put_signed(out, i64::from(tombstone.deletion_time));
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    out.push(match position.weight {
        Weight::Before => 0,
        Weight::At => 1,
        Weight::After => 2,
    });
    put_bytes(out, position.prefix.as_ordered());
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    let mut flags = 0;
    if row.deletion.is_some() {
        flags |= HAS_DELETION;
    }
    if row.liveness.is_some() {
        flags |= HAS_LIVENESS;
    }
    if !row.multi.is_empty() {
        flags |= HAS_MULTI;
    }
    out.push(flags);
    if let Some(live) = row.liveness {
        put_signed(out, live.timestamp);
        put_signed(out, i64::from(live.ttl));
        put_signed(out, i64::from(live.expiry));
    }
    if let Some(deletion) = row.deletion {
        put_tombstone(out, deletion);
    }
    put_unsigned(out, row.cells.len() as u64);
    for (column, cell) in &row.cells {
        put_unsigned(out, u64::from(column.0));
        put_cell(out, cell);
    }
    if row.multi.is_empty() {
        return;
    }
    put_unsigned(out, row.multi.len() as u64);
    for (column, multi) in &row.multi {
        put_unsigned(out, u64::from(column.0));
        out.push(if multi.deletion.is_some() { HAS_DELETION } else { 0 });
        if let Some(deletion) = multi.deletion {
            put_tombstone(out, deletion);
        }
        put_unsigned(out, multi.cells.len() as u64);
        for (path, cell) in &multi.cells {
            put_bytes(out, path.as_ordered());
            put_cell(out, cell);
        }
    }
}

fn put_cell(out: &mut Vec<u8>, cell: &Cell) {
    put_signed(out, cell.timestamp);
    match &cell.state {
        CellState::Live { value } => {
            out.push(0);
            put_bytes(out, value);
        }
        CellState::Expiring { value, ttl, expiry } => {
            out.push(1);
            put_bytes(out, value);
            put_signed(out, i64::from(*ttl));
            put_signed(out, i64::from(*expiry));
        }
        CellState::Deleted { deletion_time } => {
            out.push(2);
            put_signed(out, i64::from(*deletion_time));
        }
        CellState::Counter { context } => {
            out.push(3);
            put_bytes(out, context);
        }
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn broken(&self, what: &str) -> Error {
        Error::invalid(format!("no mutation: {what} at byte {} of {}", self.at, self.bytes.len()))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else { return Err(self.broken("truncated")) };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take gives the length asked for"))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.broken("number without end"))
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn seconds(&mut self) -> Result<i32> {
        i32::try_from(self.signed()?).map_err(|_| self.broken("seconds out of range"))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.unsigned()?;
        let length = usize::try_from(length).map_err(|_| self.broken("length too large"))?;
        self.take(length)
    }

    /// A count of things that take at least one byte each.
    fn count(&mut self) -> Result<usize> {
        let count = self.unsigned()?;
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(self.broken("count beyond the end"));
        }
        Ok(count as usize)
    }

    fn tombstone(&mut self) -> Result<Tombstone> {
        Ok(Tombstone { timestamp: self.signed()?, deletion_time: self.seconds()? })
    }

    fn position(&mut self) -> Result<Position> {
        let weight = match self.byte()? {
            0 => Weight::Before,
            1 => Weight::At,
            2 => Weight::After,
            _ => return Err(self.broken("unknown weight")),
        };
        Ok(Position { prefix: ClusteringKey::from_ordered(self.bytes()?), weight })
    }

    fn row(&mut self) -> Result<Row> {
        let flags = self.byte()?;
        let liveness = if flags & HAS_LIVENESS != 0 {
            Some(Liveness {
                timestamp: self.signed()?,
                ttl: self.seconds()?,
                expiry: self.seconds()?,
            })
        } else {
            None
        };
        let deletion = (flags & HAS_DELETION != 0).then(|| self.tombstone()).transpose()?;
        let count = self.count()?;
        let mut cells = Vec::with_capacity(count);
        for _ in 0..count {
            cells.push((self.column()?, self.cell()?));
        }
        if !cells.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(self.broken("cells out of order"));
        }
        let count = if flags & HAS_MULTI != 0 { self.count()? } else { 0 };
        let mut multi = Vec::with_capacity(count);
        for _ in 0..count {
            multi.push((self.column()?, self.multi_cell()?));
        }
        if !multi.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(self.broken("multi-cell columns out of order"));
        }
        Ok(Row { liveness, deletion, cells, multi })
    }

    fn column(&mut self) -> Result<ColumnId> {
        let column = self.unsigned()?;
        u16::try_from(column).map(ColumnId).map_err(|_| self.broken("column out of range"))
    }

    fn multi_cell(&mut self) -> Result<MultiCell> {
        let flags = self.byte()?;
        let deletion = (flags & HAS_DELETION != 0).then(|| self.tombstone()).transpose()?;
        let count = self.count()?;
        let mut cells = Vec::with_capacity(count);
        for _ in 0..count {
            cells.push((CellPath::from_ordered(self.bytes()?), self.cell()?));
        }
        if !cells.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(self.broken("elements out of order"));
        }
        Ok(MultiCell { deletion, cells })
    }

    fn cell(&mut self) -> Result<Cell> {
        let timestamp = self.signed()?;
        let state = match self.byte()? {
            0 => CellState::Live { value: self.bytes()?.into() },
            1 => CellState::Expiring {
                value: self.bytes()?.into(),
                ttl: self.seconds()?,
                expiry: self.seconds()?,
            },
            2 => CellState::Deleted { deletion_time: self.seconds()? },
            3 => CellState::Counter { context: self.bytes()?.into() },
            _ => return Err(self.broken("unknown cell state")),
        };
        Ok(Cell { timestamp, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Mutation {
        let tombstone = Tombstone { timestamp: -5, deletion_time: 77 };
        let key = |bytes: &[u8]| ClusteringKey::from_ordered(bytes);
        let mut mutation = Mutation::new(TableId(7), PartitionKey::from_bytes(*b"pk"));
        mutation.deletion = Some(tombstone);
        mutation.static_row =
            Some(Row { cells: vec![(ColumnId(1), Cell::live(3, *b"s"))], ..Row::default() });
        mutation.rows = vec![(
            key(b"ck"),
            Row {
                liveness: Some(Liveness::expiring(9, 60, 1000)),
                deletion: Some(tombstone),
                cells: vec![
                    (ColumnId(2), Cell::expiring(i64::MAX, *b"value", 60, 1000)),
                    (ColumnId(3), Cell::counter(4, *b"context")),
                    (ColumnId(300), Cell::deleted(i64::MIN, 5)),
                ],
                multi: vec![
                    (ColumnId(5), MultiCell::deleted(tombstone)),
                    (
                        ColumnId(9),
                        MultiCell {
                            deletion: None,
                            cells: vec![
                                (CellPath::from_ordered(*b"a"), Cell::live(1, *b"")),
                                (CellPath::from_ordered(*b"b"), Cell::deleted(2, 3)),
                            ],
                        },
                    ),
                ],
            },
        )];
        mutation.range_tombstones = vec![RangeTombstone {
            range: ClusteringRange { start: Position::before(key(b"a")), end: Position::end() },
            tombstone,
        }];
        mutation
    }

    #[test]
    fn a_mutation_survives_a_round_trip() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        assert_eq!(decode(&bytes).unwrap(), sample());
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_handled() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            for flip in [1u8, 0x80, 0xff] {
                bytes[at] ^= flip;
                // An error or another mutation, never a panic or a huge allocation.
                let _ = decode(&bytes);
                bytes[at] ^= flip;
            }
        }
    }

    /// Of each count in a record: whoever trusted it would ask for more memory than there is.
    #[test]
    fn a_count_or_a_length_beyond_the_end_is_refused_before_memory_is_taken() {
        let mut most = Vec::new();
        put_unsigned(&mut most, u64::MAX);
        let table: &[u8] = &[0; 16];
        let key: &[u8] = &[1, b'k'];
        let row: &[u8] = &[1, b'k', 0, 1, 0];
        let cases: [(&[u8], &[u8], &str); 6] = [
            (&[], &[], "truncated"),
            // Rows, and deleted ranges behind none of them.
            (key, &[0], "count beyond the end"),
            (key, &[0, 0], "count beyond the end"),
            // Cells, multi-cell columns behind none of them, and elements of the first of these.
            (row, &[0], "count beyond the end"),
            (row, &[HAS_MULTI, 0], "count beyond the end"),
            (row, &[HAS_MULTI, 0, 1, 5, 0], "count beyond the end"),
        ];
        for (front, before, wanted) in cases {
            let bytes = [table, front, before, most.as_slice()].concat();
            let error = decode(&bytes).unwrap_err().to_string();
            assert!(error.contains(wanted), "{before:?}: {error}, and not: {wanted}");
        }
    }

    #[test]
    fn extremes_survive_a_round_trip() {
        let key = |bytes: &[u8]| ClusteringKey::from_ordered(bytes);
        let ends = [
            (i64::MIN, i32::MIN),
            (-65, -65),
            (-64, -64),
            (-1, -1),
            (0, 0),
            (63, 63),
            (64, 64),
            (i64::MAX, i32::MAX),
        ];
        for (timestamp, seconds) in ends {
            let tombstone = Tombstone { timestamp, deletion_time: seconds };
            for length in [0, 127, 128, 16_383, 16_384] {
                let value = vec![7_u8; length];
                let table = TableId(u128::MAX - 1);
                let mut mutation = Mutation::new(table, PartitionKey::from_bytes(&value));
                let expiring = Cell::expiring(timestamp, value.clone(), seconds, seconds);
                let cells = vec![
                    (ColumnId(0), Cell::live(timestamp, value.clone())),
                    (ColumnId(127), Cell::counter(timestamp, value.clone())),
                    (ColumnId(128), Cell::deleted(timestamp, seconds)),
                    (ColumnId(u16::MAX), expiring),
                ];
                let path = CellPath::from_ordered(value.clone());
                let elements = vec![(path, Cell::live(timestamp, value.clone()))];
                let multi = MultiCell { deletion: Some(tombstone), cells: elements };
                let liveness = Some(Liveness::expiring(timestamp, seconds, seconds));
                let multi = vec![(ColumnId(u16::MAX), multi)];
                mutation.rows.push((key(&value), Row { liveness, cells, multi, deletion: None }));
                for weight in [Weight::Before, Weight::At, Weight::After] {
                    let start = Position { prefix: key(&value), weight };
                    let range = ClusteringRange { start, end: Position::end() };
                    mutation.range_tombstones.push(RangeTombstone { range, tombstone });
                }
                let mut bytes = Vec::new();
                encode(&mutation, &mut bytes);
                assert_eq!(decode(&bytes).unwrap(), mutation, "{timestamp} {seconds} {length}");
            }
        }
    }

    fn bytes_of_number(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_unsigned(&mut out, number);
        out
    }

    /// What follows the key of a mutation that has a deletion in this second, and nothing else.
    fn deletion_at(second: i64) -> Vec<u8> {
        let mut out = vec![HAS_DELETION, 0];
        put_signed(&mut out, second);
        out.extend([0, 0]);
        out
    }

    /// What no writer writes is no mutation: it would break what readers rely on.
    #[test]
    fn what_is_out_of_order_or_of_no_kind_is_refused_and_told() {
        let told = |parts: &[&[u8]]| {
            let (table, key): (&[u8], &[u8]) = (&[0; 16], &[1, b'k']);
            let rest = parts.concat();
            decode(&[table, key, rest.as_slice()].concat()).err().map(|error| error.to_string())
        };
        // One row with the key `c`, a deleted cell, and no deleted ranges behind the row.
        let (row, cell, end): (&[u8], &[u8], &[u8]) = (&[0, 1, 1, b'c'], &[0, 2, 0], &[0]);
        // Two elements: a path and a deleted cell.
        let (a, b): (&[u8], &[u8]) = (&[1, b'a', 0, 2, 0], &[1, b'b', 0, 2, 0]);
        let [last, beyond] = [0_u64, 1].map(|more| bytes_of_number(0xffff + more));
        let (most, least) = (i64::from(i32::MAX), i64::from(i32::MIN));
        let [at_most, at_least] = [most, least].map(deletion_at);
        let [too_late, too_early] = [most + 1, least - 1].map(deletion_at);
        let good: [&[&[u8]]; 7] = [
            &[&[0, 0, 0]],
            &[&at_most],
            &[&at_least],
            &[row, &[0, 2, 1], cell, &[2], cell, end],
            &[row, &[0, 1], &last, cell, end],
            &[row, &[HAS_MULTI, 0, 2, 1, 0, 0, 2, 0, 0], end],
            &[row, &[HAS_MULTI, 0, 1, 1, 0, 2], a, b, end],
        ];
        for parts in good {
            assert_eq!(told(parts), None, "{parts:?}");
        }
        let wrong: [(&[&[u8]], &str); 14] = [
            (&[&[0, 0, 0, 0]], "bytes left over at byte 21 of 22"),
            (&[&[0], &[0xff; 10], &[0; 200]], "number without end"),
            (&[&too_late], "seconds out of range"),
            (&[&too_early], "seconds out of range"),
            (&[&[0, 0, 1, 3, 0, 0]], "unknown weight"),
            (&[row, &[0, 2, 2], cell, &[1], cell, end], "cells out of order"),
            (&[row, &[0, 2, 2], cell, &[2], cell, end], "cells out of order"),
            (&[row, &[0, 1], &beyond, cell, end], "column out of range"),
            (&[row, &[0, 1, 1, 0, 4, 0], end], "unknown cell state"),
            (&[row, &[HAS_MULTI, 0, 2, 2, 0, 0, 1, 0, 0], end], "multi-cell columns out of"),
            (&[row, &[HAS_MULTI, 0, 2, 2, 0, 0, 2, 0, 0], end], "multi-cell columns out of"),
            (&[row, &[HAS_MULTI, 0, 1, 1, 0, 2], b, a, end], "elements out of order"),
            (&[row, &[HAS_MULTI, 0, 1, 1, 0, 2], b, b, end], "elements out of order"),
            (&[row, &[HAS_MULTI, 0, 1], &beyond, &[0, 0], end], "column out of range"),
        ];
        for (parts, wanted) in wrong {
            let told = told(parts).unwrap_or_else(|| panic!("{parts:?} is taken"));
            assert!(told.contains(&format!("no mutation: {wanted}")), "{told}, and not: {wanted}");
        }
    }
}

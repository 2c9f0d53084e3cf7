//! Continues a read of one partition behind damage.
//!
//! Forward it goes on at the next block of the promoted index, with the range tombstone that is in
//! force there. Reversed it goes forward from the start of a block, the one with the damage first
//! and then those before it, to the last row or marker that can be read, and back from there. If
//! the promoted index itself is damaged, the reader searches rows in order.
//!
//! Invariant: each step moves on in reading order, so that a read ends whatever the bytes say.

use std::collections::VecDeque;

use super::clip::Place;
use super::cursor::{NOWHERE, Span, Spot, Walked};
use super::item::Item;
use super::partition_reader::{Front, PartitionReader};
use crate::error::{Error, Result};
use crate::mutation::{Direction, Fragment, Position, Tombstone, Weight};
use crate::sstable::data::window::Window;
use crate::sstable::index::index_page::{Entry, PartitionPlace};
use crate::sstable::index::promoted_index::PromotedIndex;

impl Front {
    pub(crate) fn new(entry: Entry, salvages: bool) -> Self {
        Front { entry, by_index: false, salvages }
    }

    /// Every way to begin the partition, for a reader that goes on behind damage.
    pub(crate) fn ways(entry: &Entry) -> Vec<Front> {
        let mut ways = vec![Front::new(entry.clone(), true)];
        if entry.place.promoted.is_some() {
            ways.push(Front { by_index: true, ..ways[0].clone() });
            let place = PartitionPlace { promoted: None, ..entry.place };
            ways.push(Front::new(Entry { place, ..entry.clone() }, true));
        }
        ways
    }
}

impl PartitionReader {
    /// Moves past what could not be read, to where the index says that something readable begins;
    /// what was in force there is in force from then on. Without such a place the partition is at
    /// its end.
    ///
    /// Errors: `Io`.
    pub(crate) async fn salvage(
        &mut self,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<()> {
        let at = self.cursor.failed_at.replace(NOWHERE);
        if at == NOWHERE {
            // The promoted index itself: rows are looked for in order from here on.
            if self.promoted.is_none() && !self.may_have_index() {
                self.give_up();
            }
            self.distrust_index();
            return Ok(());
        }
        loop {
            let moved = match self.cursor.direction {
                Direction::Forward => self.skip_forward(at, out).await,
                Direction::Reversed => self.skip_backward(data, at, out).await,
            };
            match moved {
                Err(Error::Corrupt(_)) if self.promoted.is_some() || self.may_have_index() => {
                    self.distrust_index();
                }
                Err(Error::Corrupt(_)) => {
                    self.stop();
                    return Ok(());
                }
                moved => return moved,
            }
        }
    }

    /// Nothing more of the range can be read.
    fn stop(&mut self) {
        (self.cursor.spot, self.cursor.open) = (Spot::Exhausted, None);
    }

    /// Nothing more of the partition can be read.
    fn give_up(&mut self) {
        self.stop();
        self.leave_out_the_rest();
    }

    fn may_have_index(&self) -> bool {
        matches!(self.salvage, Some((_, Some(_))))
    }

    fn distrust_index(&mut self) {
        self.promoted = None;
        if let Some((_, place)) = &mut self.salvage {
            *place = None;
        }
    }

    /// The promoted index, which a whole read had no use for so far.
    async fn index(&mut self) -> Result<Option<&mut PromotedIndex>> {
        if self.promoted.is_none()
            && let Some((file, Some((at, size)))) = &self.salvage
        {
            let opened = PromotedIndex::open(file.clone(), self.cursor.layout.clone(), *at, *size);
            self.promoted = Some(opened.await?);
        }
        Ok(self.promoted.as_mut())
    }

    /// Goes on at the first block behind `at`.
    async fn skip_forward(&mut self, at: u64, out: &mut VecDeque<Fragment>) -> Result<()> {
        let start = self.cursor.span.start;
        let mut resumed = None;
        if let Some(promoted) = self.index().await? {
            let number = promoted.first_behind(at.saturating_sub(start)).await?;
            if number > 0 && number < promoted.count() {
                let open = promoted.open_before(number).await?;
                let last = promoted.block(number - 1).await?.last.clone();
                let offset = promoted.block(number).await?.offset;
                resumed = Some((start.saturating_add(offset), open, last));
            }
        }
        let Some((target, open, last)) = resumed else {
            self.stop();
            return Ok(());
        };
        self.cursor.spot = Spot::Next { at: target };
        let position = match last.weight {
            Weight::At => Position::after(last.prefix),
            _ => last,
        };
        self.change_open(position, open, out);
        Ok(())
    }

    /// Goes on at the last row or marker that can be read before `at`, block after block.
    async fn skip_backward(
        &mut self,
        data: &mut Window,
        at: u64,
        out: &mut VecDeque<Fragment>,
    ) -> Result<()> {
        let Span { start, body, .. } = self.cursor.span;
        let mut before = match self.index().await? {
            Some(promoted) => promoted.first_behind(at.saturating_sub(start)).await?,
            None => 1,
        };
        let mut until = at;
        while let Some(number) = before.checked_sub(1) {
            let (from, open) = match self.index().await? {
                Some(promoted) => {
                    let open = promoted.open_before(number).await?;
                    (start.saturating_add(promoted.block(number).await?.offset), open)
                }
                None => (body, None),
            };
            // As far as it can be read, the last row or marker.
            let is_whole = |item: &Item| item.extent().1 <= until;
            let walk = self.cursor.walk(data, ((from, open), until), is_whole);
            let Walked { last, behind_row, open } = match walk.await {
                (walked, Ok(()) | Err(Error::Corrupt(_))) => walked,
                (_, Err(error)) => return Err(error),
            };
            if let Some((at, end)) = last {
                self.cursor.spot = Spot::Previous { at, end };
                match behind_row {
                    Some(position) => self.change_open(position, open, out),
                    // A marker says itself what is in force before it.
                    None => self.cursor.open = open,
                }
                return Ok(());
            }
            // An index without checksums may say anything.
            debug_assert!(number < before, "block {number} is tried behind block {before}");
            (before, until) = (number, until.min(from));
        }
        self.stop();
        Ok(())
    }

    /// From `position` on, in reading order, `open` is in force.
    fn change_open(
        &mut self,
        position: Position,
        open: Option<Tombstone>,
        out: &mut VecDeque<Fragment>,
    ) {
        let before = std::mem::replace(&mut self.cursor.open, open);
        if before == open {
            return;
        }
        let Some(mut clip) = self.clip.take() else { return };
        match clip.place_of_change(&position) {
            Place::Beyond => return clip.leave(before, out),
            Place::Inside => clip.change(position, (before, open), out),
            Place::Before => {}
        }
        self.clip = Some(clip);
    }
}

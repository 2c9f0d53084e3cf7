//! A read whose batches are sent as they are taken.

use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::command::{Sent, Told};
use super::forming::{Formed, Forming};
use super::reading::{Reading, Step};
use super::tombstones::TombstonePage;
use crate::admission::Permit;
use crate::error::Result;
use crate::probe::{Count, timer};
use crate::runtime;

/// Where the batches of a read go.
type Batches = mpsc::Sender<Result<Sent>>;

impl Reading {
    /// Runs a read and sends its batches; stops early when the receiver is gone. While the receiver
    /// takes nothing, others have the turn of the permit.
    pub async fn stream(self, (batches, told): (&Batches, &Told), permit: &mut Permit) {
        let table = Rc::clone(&self.table);
        let ended = Sending { batches, told, permit: &mut *permit }.run(self).await;
        permit.answer(0);
        if let Err(error) = table.noting_damage(ended) {
            permit.step_aside();
            // The receiver may be gone already; then nobody wants the error.
            let _ = batches.send(Err(error)).await;
        }
    }
}

/// See the head of this file.
struct Sending<'a> {
    batches: &'a Batches,
    told: &'a Told,
    permit: &'a mut Permit,
}

impl Sending<'_> {
    async fn run(mut self, mut reading: Reading) -> Result<()> {
        loop {
            match reading.step()? {
                Step::End => break,
                Step::Room => {
                    if !self.make_room(&mut reading.forming).await? {
                        return Ok(());
                    }
                }
                Step::Full => {
                    if !self.send_and_go_on(&mut reading.forming).await? {
                        return Ok(());
                    }
                }
                step @ (Step::Pause | Step::Wait) => {
                    runtime::maybe_yield().await;
                    if self.batches.is_closed() {
                        return Ok(());
                    }
                    if step == Step::Wait {
                        reading.refill().await?;
                    }
                }
            }
        }
        let (last, behind) = reading.forming.end()?;
        if let Some(last) = last {
            self.send(last).await;
        }
        self.note(behind);
        Ok(())
    }

    fn note(&self, page: Option<TombstonePage>) {
        if let Some(page) = page {
            self.told.tombstones.note(page);
        }
    }

    /// Sees to it that there is memory for another row; false when the receiver is gone.
    ///
    /// Errors: `Overloaded` when it takes too long.
    async fn make_room(&mut self, forming: &mut Forming) -> Result<bool> {
        if forming.take_was_long() && !self.wait_until_taken().await {
            return Ok(false);
        }
        let Some(next) = forming.uncharged_bytes() else { return Ok(true) };
        let bytes = self.permit.batch_bytes().max(next);
        let _waiting = timer(Count::TimeAdmission);
        let charge = tokio::select! {
            biased;
            charge = self.permit.charge_batch(bytes) => charge?,
            () = self.batches.closed() => return Ok(false),
        };
        forming.charged(charge, bytes);
        Ok(true)
    }

    /// Hands over a batch; false when the receiver is gone.
    async fn send(&mut self, formed: Formed) -> bool {
        let Formed { batch, charge, page, bytes } = formed;
        self.note(page);
        self.permit.answer(bytes);
        let sent = match self.batches.try_send(Ok(Sent { batch, charge })) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(sent)) => sent,
        };
        self.permit.step_aside();
        self.batches.send(sent).await.is_ok()
    }

    /// Hands over the batch that is full, when more comes; false when the receiver is gone.
    async fn send_and_go_on(&mut self, forming: &mut Forming) -> Result<bool> {
        let full = forming.finish()?;
        let is_sent = self.send(full).await;
        // Nobody waits for the rest of a read whose receiver is gone.
        if is_sent {
            self.step_in().await;
        }
        Ok(is_sent)
    }

    /// Waits until the receiver has taken all that was sent; false when it is gone.
    async fn wait_until_taken(&mut self) -> bool {
        let all = self.batches.max_capacity();
        match self.batches.try_reserve_many(all) {
            Ok(_) => return true,
            Err(TrySendError::Closed(())) => return false,
            Err(TrySendError::Full(())) => {}
        }
        self.permit.step_aside();
        let is_there = self.batches.reserve_many(all).await.is_ok();
        if is_there {
            self.step_in().await;
        }
        is_there
    }

    async fn step_in(&mut self) {
        let _waiting = timer(Count::TimeAdmission);
        self.permit.step_in().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::super::tombstones::{Page, TombstoneLimits, TombstoneWatch};
    use super::*;
    use crate::admission::{Admission, FailFast, LevelId, ReadMemory};
    use crate::batch::BatchBuilder;
    use crate::clock::SimulatedClock;
    use crate::mutation::{Cell, Liveness, Row};
    use crate::policy::admission::ReadClass;
    use crate::reader::{LiveContent, LiveRows};
    use crate::schema::{ClusteringKey, ColumnId, PartitionKey};

    #[test]
    fn the_next_batch_of_long_rows_is_charged_before_a_row_of_it_is_read() {
        const LONG: usize = 3 << 20;
        let memory = ReadMemory::new(64 << 20);
        let admission = Admission::new(SimulatedClock::new(1), memory.clone(), FailFast::new(1));
        let mut permit = block_on(admission.turn(ReadClass::Keys, LevelId::DEFAULT, None)).unwrap();
        let (sender, mut receiver) = mpsc::channel(2);
        let schema = crate::table::tests::schema(false);
        let builder = BatchBuilder::new(schema.clone(), &[ColumnId(1)], 0);
        let watch = Rc::new(TombstoneWatch::from(TombstoneLimits::default()));
        let mut forming = Forming::new(builder, Page::new(&watch, &schema, 0));
        let told = Told::default();
        let mut sending = Sending { batches: &sender, told: &told, permit: &mut permit };
        let partition = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
        let row = Row {
            liveness: Some(Liveness::at(1)),
            cells: vec![(ColumnId(1), Cell::live(1, vec![b'v'; LONG]))],
            ..Row::default()
        };
        for round in 0..3 {
            assert!(block_on(sending.make_room(&mut forming)).unwrap());
            // How long rows are, the first batch shows.
            if round > 0 {
                let charged = memory.status().used;
                assert!(charged >= LONG as u64, "batch {round} is charged with {charged} bytes");
            }
            let content = LiveContent::Row { key: &ClusteringKey::empty(), row: &row };
            forming.push(LiveRows { partition: &partition, content, static_row: None }).unwrap();
            assert!(block_on(sending.make_room(&mut forming)).unwrap());
            assert!(memory.status().used >= LONG as u64, "a batch that is there is charged");
            assert!(block_on(sending.send_and_go_on(&mut forming)).unwrap());
            drop(receiver.try_recv().unwrap());
            assert_eq!(memory.status().used, 0, "its receiver has let go of it");
        }
    }
}

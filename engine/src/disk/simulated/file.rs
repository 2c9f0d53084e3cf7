//! Handles of simulated files: reads, writes and syncs, with their faults.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::inode::Page;
use super::names::InodeNumber;
use super::{EBADF, EINVAL, EIO, ENOSPC, SimulatedDisk, failed};
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::disk::{Access, AlignedBuffer, DiskFile, OpenOptions, transfer};
use crate::error::{Error, Result};

/// A handle of a simulated file.
#[derive(Debug)]
pub(super) struct SimulatedFile {
    pub disk: SimulatedDisk,
    pub number: InodeNumber,
    pub path: PathBuf,
    pub options: OpenOptions,
}

impl SimulatedFile {
    fn check_writable(&self, operation: &'static str) -> Result<()> {
        match self.options.access {
            Access::Read => Err(failed(operation, &self.path, EBADF)),
            Access::ReadWrite | Access::Create => Ok(()),
        }
    }

    async fn read(&self, offset: u64, buffer: &mut AlignedBuffer) -> Result<()> {
        buffer.set_len(0);
        if !offset.is_multiple_of(PAGE_BYTES as u64) {
            return Err(failed("read", &self.path, EINVAL));
        }
        self.disk.state.borrow_mut().counters.reads += 1;
        let wanted = buffer.capacity();
        let mut done = 0;
        loop {
            self.disk.turn("read", &self.path).await?;
            let mut state = self.disk.state.borrow_mut();
            let one_in = state.faults.read_error_one_in;
            if state.one_in(one_in) {
                return Err(failed("read", &self.path, EIO));
            }
            let end = state.piece_end(done, wanted);
            buffer.set_len(wanted);
            let inode = state.inode(self.number);
            let read = inode.live.read(offset + done as u64, &mut buffer[done..end]);
            buffer.set_len(0);
            let after = transfer::after_read(done, wanted, Ok(read));
            match after.map_err(|error| Error::io("read", &self.path, &error))? {
                ControlFlow::Continue(reached) => done = reached,
                ControlFlow::Break(length) => {
                    buffer.set_len(length);
                    state.counters.bytes_read += length as u64;
                    return Ok(());
                }
            }
        }
    }

    async fn write(&self, offset: u64, buffer: &[u8]) -> Result<()> {
        self.check_writable("write")?;
        let page = PAGE_BYTES as u64;
        if !offset.is_multiple_of(page) || !buffer.len().is_multiple_of(PAGE_BYTES) {
            return Err(failed("write", &self.path, EINVAL));
        }
        if buffer.is_empty() {
            return self.disk.turn("write", &self.path).await;
        }
        self.disk.state.borrow_mut().counters.writes += 1;
        let mut done = 0;
        while done < buffer.len() {
            let end = self.disk.state.borrow_mut().piece_end(done, buffer.len());
            self.write_piece(offset + done as u64, &buffer[done..end]).await?;
            let after = transfer::after_write(done, buffer.len(), Ok(end - done));
            done = after.map_err(|error| Error::io("write", &self.path, &error))?;
        }
        self.disk.state.borrow_mut().counters.bytes_written += buffer.len() as u64;
        Ok(())
    }

    /// What one call to the kernel writes.
    async fn write_piece(&self, offset: u64, buffer: &[u8]) -> Result<()> {
        let page = PAGE_BYTES as u64;
        let mut write = WriteInFlight { file: self, operation: None };
        {
            let mut state = self.disk.state.borrow_mut();
            if state.dead {
                return Err(failed("write", &self.path, EIO));
            }
            let pages: Vec<Page> = pages_of(buffer);
            let growth = state.inode(self.number).growth_bytes(offset / page, pages.len() as u64);
            if !state.has_room(growth) {
                return Err(failed("write", &self.path, ENOSPC));
            }
            let operation = state.number();
            state.inode(self.number).begin_write(operation, offset / page, pages);
            write.operation = Some(operation);
        }
        self.disk.turn("write", &self.path).await?;
        let (failing, is_lost, is_misdirected) = {
            let mut state = self.disk.state.borrow_mut();
            let faults = state.faults;
            let failing = state.one_in(faults.write_error_one_in);
            let is_lost = state.one_in(faults.lost_write_one_in);
            (failing, is_lost, state.one_in(faults.misdirected_write_one_in))
        };
        if failing {
            write.finish(Outcome::Torn);
            return Err(failed("write", &self.path, EIO));
        }
        if !is_lost && !is_misdirected {
            write.finish(Outcome::Done);
            return Ok(());
        }
        write.finish(Outcome::Undone);
        if is_misdirected {
            self.write_elsewhere(buffer);
        }
        Ok(())
    }

    /// Writes over some pages of the file.
    fn write_elsewhere(&self, buffer: &[u8]) {
        let mut state = self.disk.state.borrow_mut();
        let pages = state.inode(self.number).live.size / PAGE_BYTES as u64;
        let last = pages.saturating_sub((buffer.len() / PAGE_BYTES) as u64);
        let (page, operation) = (state.random.below(last + 1), state.number());
        let inode = state.inode(self.number);
        inode.begin_write(operation, page, pages_of(buffer));
        inode.finish_write(operation, self.options.data_sync);
    }

    async fn commit(&self) -> Result<()> {
        let until = self.disk.state.borrow_mut().inode(self.number).next_change();
        self.disk.turn("sync", &self.path).await?;
        let mut state = self.disk.state.borrow_mut();
        state.counters.syncs += 1;
        let one_in = state.faults.sync_error_one_in;
        if state.one_in(one_in) {
            let mut random = Random::new(state.random.next_u64());
            state.inode(self.number).drop_some(&mut random);
            return Err(failed("sync", &self.path, EIO));
        }
        state.inode(self.number).commit(until);
        Ok(())
    }

    async fn reserve(&self, bytes: u64) -> Result<()> {
        self.check_writable("allocate")?;
        self.disk.turn("allocate", &self.path).await?;
        let mut state = self.disk.state.borrow_mut();
        let whole = bytes.next_multiple_of(PAGE_BYTES as u64);
        let more = whole.saturating_sub(state.inode(self.number).disk_bytes());
        if !state.has_room(more) {
            return Err(failed("allocate", &self.path, ENOSPC));
        }
        let inode = state.inode(self.number);
        if bytes > inode.live.size {
            inode.resize(bytes);
        }
        inode.allocated_bytes = inode.allocated_bytes.max(whole);
        Ok(())
    }

    async fn set_size(&self, bytes: u64) -> Result<()> {
        self.check_writable("truncate")?;
        self.disk.turn("truncate", &self.path).await?;
        self.disk.state.borrow_mut().inode(self.number).resize(bytes);
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        async move {
            self.disk.turn("size", &self.path).await?;
            Ok(self.disk.state.borrow_mut().inode(self.number).live.size)
        }
        .boxed_local()
    }

    fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        async move { (self.read(offset, &mut buffer).await, buffer) }.boxed_local()
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        async move { (self.write(offset, &buffer).await, buffer) }.boxed_local()
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        self.commit().boxed_local()
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.reserve(bytes).boxed_local()
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.set_size(bytes).boxed_local()
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.disk.state.borrow_mut();
        state.inode(self.number).handles -= 1;
        state.open_files -= 1;
    }
}

fn pages_of(buffer: &[u8]) -> Vec<Page> {
    let pages = buffer.chunks(PAGE_BYTES);
    pages.filter_map(|page| Some(Rc::new(page.try_into().ok()?))).collect()
}

/// How a write ends.
enum Outcome {
    Done,
    /// Some sectors are written: an error.
    Torn,
    /// As if it never was: it was given up before it reached the device.
    Undone,
}

/// A call that writes and has begun. Given up before its end, it happens as a whole or not at all.
struct WriteInFlight<'a> {
    file: &'a SimulatedFile,
    operation: Option<u64>,
}

impl WriteInFlight<'_> {
    fn finish(&mut self, outcome: Outcome) {
        let Some(operation) = self.operation.take() else { return };
        let mut state = self.file.disk.state.borrow_mut();
        if state.dead {
            return;
        }
        let mut random = Random::new(state.random.next_u64());
        let inode = state.inode(self.file.number);
        match outcome {
            Outcome::Done => inode.finish_write(operation, self.file.options.data_sync),
            Outcome::Torn => inode.fail_write(operation, &mut random),
            Outcome::Undone => inode.undo_write(operation),
        }
    }
}

impl Drop for WriteInFlight<'_> {
    fn drop(&mut self) {
        let done = self.operation.is_some() && self.file.disk.state.borrow_mut().one_in(2);
        self.finish(if done { Outcome::Done } else { Outcome::Undone });
    }
}

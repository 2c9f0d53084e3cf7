//! Handles of simulated files: reads, writes and syncs, with their faults.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::inode::Page;
use super::names::InodeNumber;
use super::{EBADF, EINVAL, EIO, ENOSPC, SimulatedDisk, failed};
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::disk::{Access, AlignedBuffer, DiskFile, OpenOptions};
use crate::error::Result;

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
        self.disk.turn("read", &self.path).await?;
        let mut state = self.disk.state.borrow_mut();
        state.counters.reads += 1;
        let one_in = state.faults.read_error_one_in;
        if state.one_in(one_in) {
            return Err(failed("read", &self.path, EIO));
        }
        buffer.set_len(buffer.capacity());
        let length = state.inode(self.number).live.read(offset, buffer);
        buffer.set_len(length);
        state.counters.bytes_read += length as u64;
        Ok(())
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
        let mut write = WriteInFlight { file: self, operation: None };
        {
            let mut state = self.disk.state.borrow_mut();
            if state.dead {
                return Err(failed("write", &self.path, EIO));
            }
            state.counters.writes += 1;
            let pages: Vec<Page> = buffer
                .chunks(PAGE_BYTES)
                .filter_map(|page| Some(Rc::new(page.try_into().ok()?)))
                .collect();
            let growth = state.inode(self.number).growth_bytes(offset / page, pages.len() as u64);
            if !state.has_room(growth) {
                return Err(failed("write", &self.path, ENOSPC));
            }
            let operation = state.number();
            state.inode(self.number).begin_write(operation, offset / page, pages);
            write.operation = Some(operation);
        }
        self.disk.turn("write", &self.path).await?;
        let failing = {
            let mut state = self.disk.state.borrow_mut();
            let one_in = state.faults.write_error_one_in;
            state.one_in(one_in)
        };
        write.finish(if failing { Outcome::Torn } else { Outcome::Done });
        if failing {
            return Err(failed("write", &self.path, EIO));
        }
        self.disk.state.borrow_mut().counters.bytes_written += buffer.len() as u64;
        Ok(())
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

/// How a write ends.
enum Outcome {
    Done,
    /// Some sectors are written: an error.
    Torn,
    /// As if it never was: it was given up before it reached the device.
    Undone,
}

/// A write that has begun. Given up before its end, it happens as a whole or not at all.
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

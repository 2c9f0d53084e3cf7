//! Whole small files: read in one piece, replaced in one step.

use std::path::Path;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Access, AlignedBuffer, Disk, OpenOptions};
use crate::error::{Error, Result};

/// Reads a whole file.
///
/// Errors: `Io`.
pub async fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenOptions::READ).await?;
    let size = usize::try_from(file.size().await?)
        .map_err(|_| Error::invalid(format!("{} is too large to read whole", path.display())))?;
    let mut content = Vec::with_capacity(size);
    while content.len() < size {
        let wanted = (size - content.len()).min(1 << 20);
        let buffer = AlignedBuffer::for_reading(wanted);
        let (result, buffer) = file.read_at(content.len() as u64, buffer).await;
        result?;
        if buffer.is_empty() {
            return Err(Error::corrupt(path, content.len() as u64, "more bytes", "end of file"));
        }
        content.extend_from_slice(&buffer[..buffer.len().min(size - content.len())]);
    }
    Ok(content)
}

/// Removes a folder with all that is in it.
///
/// Errors: `Io`.
pub fn remove_tree<'a>(disk: &'a dyn Disk, directory: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        for entry in disk.list(directory).await? {
            let path = directory.join(&entry.name);
            match entry.is_directory {
                true => remove_tree(disk, &path).await?,
                false => disk.remove(&path).await?,
            }
        }
        disk.remove_directory(directory).await
    }
    .boxed_local()
}

/// Removes a file; one that is gone already is no error.
///
/// Errors: `Io`.
pub async fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path).await {
        Err(error) if error.is_missing_file() => Ok(()),
        result => result,
    }
}

/// Replaces the content of `path` so that after a crash either the old or the new content is
/// there, whole: write beside it, sync, rename, sync the directory.
///
/// Errors: `Io`; the old content is untouched then.
pub async fn write_file_atomically(disk: &dyn Disk, path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().ok_or_else(|| Error::invalid("a file needs a directory"))?;
    let name = path.file_name().ok_or_else(|| Error::invalid("a file needs a name"))?;
    let mut beside = name.to_owned();
    beside.push(".tmp");
    let beside = directory.join(beside);
    remove_if_there(disk, &beside).await?;
    let file = disk.open(&beside, OpenOptions::CREATE).await?;
    if !content.is_empty() {
        let (result, _) = file.write_at(0, AlignedBuffer::padded(content)).await;
        result?;
    }
    file.truncate(content.len() as u64).await?;
    file.sync().await?;
    disk.rename(&beside, path).await?;
    disk.sync_directory(directory).await
}

/// Makes durable what a reader sees of a file, its content and its name. An earlier run may have
/// failed to: then the kernel shows what it has in memory, and a power cut takes that away. What
/// was read is written where it stands, for a sync alone does not write again what once failed.
///
/// Errors: `Io`.
pub async fn make_durable(disk: &dyn Disk, path: &Path) -> Result<()> {
    let content = read_file(disk, path).await?;
    let directory = path.parent().ok_or_else(|| Error::invalid("a file needs a directory"))?;
    let options = OpenOptions { access: Access::ReadWrite, data_sync: false };
    let file = disk.open(path, options).await?;
    if !content.is_empty() {
        let (result, _) = file.write_at(0, AlignedBuffer::padded(&content)).await;
        result?;
        file.truncate(content.len() as u64).await?;
    }
    file.sync().await?;
    disk.sync_directory(directory).await
}

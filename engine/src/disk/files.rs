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

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::config::PAGE_BYTES;
    use crate::disk::{Faults, SimulatedDisk};

    /// A disk with a durable directory `/data`.
    async fn disk(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        disk.create_directories(Path::new("/data")).await.unwrap();
        disk.sync_directory(Path::new("/")).await.unwrap();
        disk
    }

    async fn names(disk: &SimulatedDisk, directory: &str) -> Vec<String> {
        let entries = disk.list(Path::new(directory)).await.unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn a_file_is_replaced_and_read_whole_whatever_its_length() {
        block_on(async {
            let (disk, path) = (disk(1).await, Path::new("/data/a"));
            for bytes in [0, 1, PAGE_BYTES, (1 << 20) + 1, 1 << 20, (2 << 20) + 4097, 3, 0] {
                let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
                write_file_atomically(&disk, path, &content).await.unwrap();
                assert!(read_file(&disk, path).await.unwrap() == content, "{bytes} bytes");
            }
        });
    }

    #[test]
    fn what_an_earlier_attempt_left_beside_a_file_is_no_hindrance() {
        block_on(async {
            let (disk, path) = (disk(2).await, Path::new("/data/a"));
            let left = disk.open(Path::new("/data/a.tmp"), OpenOptions::CREATE).await.unwrap();
            left.write_at(0, AlignedBuffer::padded(&[7; 3 * PAGE_BYTES])).await.0.unwrap();
            drop(left);
            write_file_atomically(&disk, path, b"new").await.unwrap();
            let disk = disk.power_cut();
            assert_eq!(read_file(&disk, path).await.unwrap(), b"new");
            assert_eq!(names(&disk, "/data").await, ["a"]);
        });
    }

    #[test]
    fn a_tree_goes_with_all_that_is_in_it_and_nothing_beside_it() {
        block_on(async {
            let disk = disk(3).await;
            for folder in ["/data/t/x/y", "/data/u"] {
                disk.create_directories(Path::new(folder)).await.unwrap();
            }
            for file in ["/data/t/1", "/data/t/x/2", "/data/t/x/y/3", "/data/u/4", "/data/t2"] {
                write_file_atomically(&disk, Path::new(file), b"content").await.unwrap();
            }
            remove_tree(&disk, Path::new("/data/t")).await.unwrap();
            assert_eq!(names(&disk, "/data").await, ["t2", "u"]);
            assert_eq!(names(&disk, "/data/u").await, ["4"]);
        });
    }

    /// A sync that fails may leave the kernel with content that no later sync writes. What of it
    /// was forgotten at once nobody brings back.
    #[test]
    fn what_a_reader_sees_of_a_file_is_made_durable_though_a_sync_had_failed() {
        for seed in 0..20 {
            block_on(async {
                let (disk, path) = (disk(seed).await, Path::new("/data/a"));
                let content = vec![5_u8; 3 * PAGE_BYTES + 10];
                let file = disk.open(path, OpenOptions::CREATE).await.unwrap();
                file.write_at(0, AlignedBuffer::padded(&content)).await.0.unwrap();
                file.truncate(content.len() as u64).await.unwrap();
                disk.set_faults(Faults { sync_error_one_in: 1, ..Faults::default() });
                file.sync().await.unwrap_err();
                make_durable(&disk, path).await.unwrap_err();
                disk.set_faults(Faults::default());
                let seen = read_file(&disk, path).await.unwrap();
                assert_eq!(seen.len(), content.len());
                make_durable(&disk, path).await.unwrap();
                drop(file);
                let found = read_file(&disk.power_cut(), path).await;
                assert!(found.is_ok_and(|found| found == seen), "seed {seed}");
            });
        }
    }
}

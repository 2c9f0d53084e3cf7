//! A snapshot to a place in object storage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blake3::Hasher;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::buffered::BufWriter;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::list::{List, Listed};
use super::{AT_ONCE, Meter, Moved, PIECE_BYTES, Place, Tell, on_disk};

/// A longer file is sent in parts of so many bytes.
const PART_BYTES: usize = 16 << 20;
/// Parts of a file that are on their way at once.
const PARTS_AT_ONCE: usize = 2;

/// A file to be sent.
struct Found {
    path: PathBuf,
    /// From the snapshot on, with `/`.
    name: String,
}

impl Place {
    /// Sends all files of a folder, which do not change meanwhile.
    ///
    /// Errors: in words; what was sent before stays, without the list of it.
    pub(crate) async fn send(&self, folder: &Path, tell: Tell<'_>) -> Result<Moved, String> {
        self.check_empty().await?;
        let from = folder.to_owned();
        let found = tokio::task::spawn_blocking(move || found(&from)).await;
        let (files, bytes_max) = found.map_err(|error| error.to_string())??;
        let meter = Meter::new(bytes_max, tell);
        // Boxed: what each holds is then proven `Send` once.
        let sending: Vec<_> =
            files.iter().map(|file| self.send_file(file, &meter).boxed()).collect();
        let listed = stream::iter(sending).buffered(AT_ONCE).try_collect().await;
        let list = List::new(listed.map_err(|error| {
            format!("{error}; what was sent so far is no snapshot, and stays at {self}: remove it")
        })?);
        self.put_list(&list).await?;
        Ok(Moved { files: files.len() as u64, bytes: list.bytes(), bytes_max })
    }

    async fn send_file(&self, file: &Found, meter: &Meter<'_>) -> Result<Listed, String> {
        let of_file = |error| on_disk(&file.path, error);
        let mut content = File::open(&file.path).await.map_err(of_file)?;
        let mut object =
            BufWriter::with_capacity(Arc::clone(&self.store), self.at(&file.name), PART_BYTES)
                .with_max_concurrency(PARTS_AT_ONCE);
        let (mut hasher, mut bytes) = (Hasher::new(), 0);
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = (&mut content).take(PIECE_BYTES as u64).read_to_end(&mut piece).await;
            let read = read.map_err(of_file)? as u64;
            if read == 0 {
                break;
            }
            hasher.update(&piece);
            bytes += read;
            if let Err(error) = object.put(piece.into()).await {
                // Parts that nothing names would be paid for.
                let _ = object.abort().await;
                return Err(self.told(&file.name, error));
            }
            meter.add(read);
        }
        object.shutdown().await.map_err(|error| self.told(&file.name, error))?;
        meter.end_file();
        let blake3 = hasher.finalize().to_hex().to_string();
        Ok(Listed { path: file.name.clone(), bytes, blake3 })
    }
}

/// All files below a folder by name, and their bytes.
fn found(folder: &Path) -> Result<(Vec<Found>, u64), String> {
    let (mut files, mut bytes, mut open) =
        (Vec::new(), 0, vec![(folder.to_owned(), String::new())]);
    while let Some((folder, prefix)) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| on_disk(&folder, error))? {
            let path = entry.map_err(|error| on_disk(&folder, error))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(format!("{}: a name that is no text", path.display()));
            };
            let name = format!("{prefix}{name}");
            let about = fs::metadata(&path).map_err(|error| on_disk(&path, error))?;
            match about.is_dir() {
                true => open.push((path, format!("{name}/"))),
                false => {
                    bytes += about.len();
                    files.push(Found { path, name });
                }
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((files, bytes))
}

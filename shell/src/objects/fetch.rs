//! A data directory from a place in object storage.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use blake3::Hasher;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use tidegate_engine::os;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;

use super::list::Listed;
use super::{AT_ONCE, Meter, Moved, Place, Tell, on_disk};

impl Place {
    /// Restores the snapshot that is there into a folder that is empty or not there. The file
    /// `last` comes behind all others, and has its name when it is whole.
    ///
    /// Errors: in words; the folder is without that file then.
    pub(crate) async fn fetch(
        &self,
        folder: &Path,
        last: &str,
        tell: Tell<'_>,
    ) -> Result<Moved, String> {
        let list = self.list().await?;
        let (last, others): (Vec<_>, Vec<_>) =
            list.files.iter().partition(|file| file.path == last);
        let [last] = last[..] else {
            return Err(format!("{self} holds no snapshot of a database: its list has no catalog"));
        };
        let bytes_max = list.bytes();
        let meter = Meter::new(bytes_max, tell);
        let mut folders = BTreeSet::from([folder.to_owned()]);
        for file in &list.files {
            let below = Path::new(&file.path).ancestors().skip(1);
            folders.extend(below.map(|at| folder.join(at)));
        }
        for folder in &folders {
            fs::create_dir_all(folder).await.map_err(|error| on_disk(folder, error))?;
        }
        // Boxed: what each holds is then proven `Send` once.
        let mut fetching = Vec::new();
        for file in others {
            fetching.push(self.fetch_file(file, folder.join(&file.path), &meter).boxed());
        }
        stream::iter(fetching).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        sync(folders.iter().cloned().collect()).await?;
        let (name, part) = (folder.join(&last.path), part_of(&folder.join(&last.path)));
        self.fetch_file(last, part.clone(), &meter).await?;
        fs::rename(&part, &name).await.map_err(|error| on_disk(&name, error))?;
        sync(vec![folder.to_owned()]).await?;
        Ok(Moved { files: list.files.len() as u64, bytes: bytes_max, bytes_max })
    }

    async fn fetch_file(
        &self,
        file: &Listed,
        target: PathBuf,
        meter: &Meter<'_>,
    ) -> Result<(), String> {
        let of_store = |error| self.told(&file.path, error);
        let object = self.store.get(&self.at(&file.path)).await.map_err(of_store)?;
        let mut pieces = object.into_stream();
        let mut content = File::create(&target).await.map_err(|error| on_disk(&target, error))?;
        let (mut hasher, mut bytes) = (Hasher::new(), 0);
        while let Some(piece) = pieces.try_next().await.map_err(of_store)? {
            hasher.update(&piece);
            bytes += piece.len() as u64;
            if bytes > file.bytes {
                break;
            }
            content.write_all(&piece).await.map_err(|error| on_disk(&target, error))?;
            meter.add(piece.len() as u64);
        }
        let found = hasher.finalize().to_hex();
        if bytes != file.bytes || *found != *file.blake3 {
            let Listed { path, bytes: wanted_bytes, blake3: wanted } = file;
            return Err(self.told(
                path,
                format!(
                    "the object is damaged or another one: wanted {wanted_bytes} bytes with BLAKE3 \
                     {wanted}, found {bytes} bytes with {found}"
                ),
            ));
        }
        content.sync_all().await.map_err(|error| on_disk(&target, error))?;
        meter.end_file();
        Ok(())
    }
}

/// Where a file is written that gets its name when it is whole.
pub(crate) fn part_of(file: &Path) -> PathBuf {
    file.with_added_extension("part")
}

/// Makes the names in folders durable.
async fn sync(folders: Vec<PathBuf>) -> Result<(), String> {
    let work = move || {
        folders.iter().try_for_each(|folder| {
            os::sync_directory(folder).map_err(|error| on_disk(folder, error))
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

//! What the engine asks of a simulated disk: files and folders by their names.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::file::SimulatedFile;
use super::inode::Inode;
use super::names::{self, Entry};
use super::{
    EACCES, EEXIST, EINVAL, EIO, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, SimulatedDisk, State, failed,
};
use crate::disk::{Access, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::Result;

impl SimulatedDisk {
    async fn open_file(&self, path: &Path, options: OpenOptions) -> Result<Rc<dyn DiskFile>> {
        self.turn("open", path).await?;
        let mut state = self.state.borrow_mut();
        state.take_descriptor("open", path)?;
        let number = match (state.names.get(path), options.access) {
            (Some(Entry::Directory), _) => return Err(failed("open", path, EISDIR)),
            (Some(Entry::File(_)), Access::Create) => return Err(failed("open", path, EEXIST)),
            (Some(Entry::File(number)), _) => number,
            (None, Access::Create) => {
                parent_of(&state, "open", path)?;
                state.check_folder("open", path)?;
                state.take_name("open", path)?;
                let number = state.number();
                state.inodes.insert(number, Inode::default());
                state.names.add(path, Entry::File(number));
                number
            }
            (None, _) => return Err(failed("open", path, ENOENT)),
        };
        state.inode(number).handles += 1;
        state.open_files += 1;
        let disk = self.clone();
        Ok(Rc::new(SimulatedFile { disk, number, path: path.to_path_buf(), options }))
    }

    async fn make_directories(&self, path: &Path) -> Result<()> {
        self.turn("create directory", path).await?;
        let mut state = self.state.borrow_mut();
        let above: Vec<PathBuf> = path.ancestors().map(Path::to_path_buf).collect();
        for directory in above.iter().rev() {
            match state.names.get(directory) {
                Some(Entry::Directory) => {}
                Some(Entry::File(_)) => return Err(failed("create directory", path, ENOTDIR)),
                None => {
                    state.check_folder("create directory", directory)?;
                    state.take_name("create directory", path)?;
                    state.names.add(directory, Entry::Directory);
                }
            }
        }
        Ok(())
    }

    async fn move_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.turn("rename", from).await?;
        let mut state = self.state.borrow_mut();
        let number = match state.names.get(from) {
            Some(Entry::File(number)) => number,
            // Directories are never renamed by the engine; the simulation does not model it.
            Some(Entry::Directory) => return Err(failed("rename", from, EISDIR)),
            None => return Err(failed("rename", from, ENOENT)),
        };
        parent_of(&state, "rename", to)?;
        state.check_folder("rename", from)?;
        state.check_folder("rename", to)?;
        if state.names.get(to) == Some(Entry::Directory) {
            return Err(failed("rename", to, EISDIR));
        }
        state.take_name("rename", from)?;
        if from != to {
            state.names.rename(from, to, number);
        }
        Ok(())
    }

    async fn link_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.turn("link", from).await?;
        let mut state = self.state.borrow_mut();
        let entry = match state.names.get(from) {
            Some(entry @ Entry::File(_)) => entry,
            Some(Entry::Directory) => return Err(failed("link", from, EISDIR)),
            None => return Err(failed("link", from, ENOENT)),
        };
        parent_of(&state, "link", to)?;
        state.check_folder("link", to)?;
        if state.names.get(to).is_some() {
            return Err(failed("link", to, EEXIST));
        }
        state.take_name("link", to)?;
        state.names.add(to, entry);
        Ok(())
    }

    async fn unlink(&self, path: &Path) -> Result<()> {
        self.turn("remove", path).await?;
        let mut state = self.state.borrow_mut();
        state.check_folder("remove", path)?;
        match state.names.get(path) {
            Some(entry @ Entry::File(_)) => state.names.remove(path, entry),
            Some(Entry::Directory) => return Err(failed("remove", path, EISDIR)),
            None => return Err(failed("remove", path, ENOENT)),
        }
        Ok(())
    }

    async fn unlink_directory(&self, path: &Path) -> Result<()> {
        self.turn("remove directory", path).await?;
        let mut state = self.state.borrow_mut();
        let refused = match state.names.get(path) {
            Some(Entry::Directory) if names::is_root(path) => Some(EINVAL),
            Some(Entry::Directory) if state.check_folder("", path).is_err() => Some(EACCES),
            Some(Entry::Directory) if state.names.children(path).next().is_some() => {
                Some(ENOTEMPTY)
            }
            Some(Entry::Directory) => None,
            Some(Entry::File(_)) => Some(ENOTDIR),
            None => Some(ENOENT),
        };
        if let Some(code) = refused {
            return Err(failed("remove directory", path, code));
        }
        state.names.remove(path, Entry::Directory);
        Ok(())
    }

    async fn commit_directory(&self, path: &Path) -> Result<()> {
        let until = self.state.borrow().names.next_change();
        self.turn("sync directory", path).await?;
        let mut state = self.state.borrow_mut();
        state.take_descriptor("sync directory", path)?;
        match state.names.get(path) {
            Some(Entry::Directory) => {}
            Some(Entry::File(_)) => return Err(failed("sync directory", path, ENOTDIR)),
            None => return Err(failed("sync directory", path, ENOENT)),
        }
        state.counters.syncs += 1;
        let one_in = state.faults.sync_error_one_in;
        if state.one_in(one_in) {
            return Err(failed("sync directory", path, EIO));
        }
        state.names.commit(path, until);
        state.drop_unreachable();
        Ok(())
    }

    async fn names_in(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.turn("list", path).await?;
        let state = self.state.borrow();
        state.take_descriptor("list", path)?;
        if let Some(Entry::File(_)) = state.names.get(path) {
            return Err(failed("list", path, ENOTDIR));
        }
        let entries = state.names.children(path).filter_map(|(child, entry)| {
            let name = child.file_name()?.to_string_lossy().into_owned();
            Some(DirectoryEntry { name, is_directory: entry == Entry::Directory })
        });
        let mut entries: Vec<DirectoryEntry> = entries.collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

impl Disk for SimulatedDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        self.open_file(path, options).boxed_local()
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.make_directories(path).boxed_local()
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.move_file(from, to).boxed_local()
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.link_file(from, to).boxed_local()
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.unlink(path).boxed_local()
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.unlink_directory(path).boxed_local()
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.commit_directory(path).boxed_local()
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        self.names_in(path).boxed_local()
    }
}

/// Checks that the directory a new name goes into exists.
fn parent_of(state: &State, operation: &'static str, path: &Path) -> Result<()> {
    let parent = path.parent().ok_or_else(|| failed(operation, path, EINVAL))?;
    match state.names.get(parent) {
        Some(Entry::Directory) => Ok(()),
        Some(Entry::File(_)) => Err(failed(operation, path, ENOTDIR)),
        None => Err(failed(operation, path, ENOENT)),
    }
}

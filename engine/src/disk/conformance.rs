//! What every disk backend must do, as one body that each backend's tests run.
//!
//! Invariant: a behaviour named in the comments of [`Disk`] and [`DiskFile`] has a function here,
//! so that code tested on one backend means the same on another. Not here: faults, crashes and
//! loss of unsynced data, which only the simulated disk can show.

use std::path::Path;
use std::rc::Rc;

use futures::future::join_all;

use super::{Access, AlignedBuffer, Disk, DiskFile, OpenOptions};
use super::{read_file, write_file_atomically};
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};

const PAGE: u64 = PAGE_BYTES as u64;
const READ_WRITE: OpenOptions = OpenOptions { access: Access::ReadWrite, data_sync: false };

/// Runs every check on `disk` below `root`, a path that need not exist yet.
pub(crate) async fn run(disk: Rc<dyn Disk>, root: &Path) {
    disk.create_directories(root).await.expect("the root can be made");
    let disk = &*disk;
    opening(disk, &root.join("opening")).await;
    reading_and_writing(disk, &root.join("pages")).await;
    end_of_file(disk, &root.join("end")).await;
    sizes(disk, &root.join("sizes")).await;
    data_sync(disk, &root.join("data-sync")).await;
    operations_at_once(disk, &root.join("at-once")).await;
    dropped_operations(disk, &root.join("dropped")).await;
    directories(disk, &root.join("directories")).await;
    renaming_and_removing(disk, &root.join("names")).await;
    second_names(disk, &root.join("second-names")).await;
    open_files_outlive_their_names(disk, &root.join("nameless")).await;
    whole_files(disk, &root.join("whole")).await;
}

/// For disks of the operating system: procfs refuses O_DIRECT, and is read all the same.
pub(crate) async fn reads_without_direct_io(disk: Rc<dyn Disk>) {
    let path = Path::new("/proc/self/status");
    let file = disk.open(path, OpenOptions::READ).await.expect("opened without direct I/O");
    let content = read(&*file, 0, PAGE_BYTES).await;
    assert!(content.starts_with(b"Name:"), "{}", String::from_utf8_lossy(&content));
}

/// A page whose every byte is `byte`.
fn page_of(byte: u8) -> AlignedBuffer {
    AlignedBuffer::padded(&[byte; PAGE_BYTES])
}

async fn write(file: &dyn DiskFile, offset: u64, buffer: AlignedBuffer) {
    let expected = buffer.to_vec();
    let (result, buffer) = file.write_at(offset, buffer).await;
    result.expect("the write succeeds");
    assert_eq!(&buffer[..], &expected[..], "a write hands back its buffer unchanged");
}

async fn read(file: &dyn DiskFile, offset: u64, bytes: usize) -> AlignedBuffer {
    let (result, buffer) = file.read_at(offset, AlignedBuffer::with_capacity(bytes)).await;
    result.expect("the read succeeds");
    buffer
}

async fn create(disk: &dyn Disk, path: &Path) -> Rc<dyn DiskFile> {
    disk.open(path, OpenOptions::CREATE).await.expect("a new file can be created")
}

fn assert_code<T>(result: Result<T>, code: i32, what: &str) {
    match result {
        Ok(_) => panic!("{what}: succeeded, wanted errno {code}"),
        Err(Error::Io { code: Some(found), .. }) => assert_eq!(found, code, "{what}"),
        Err(error) => panic!("{what}: {error}, wanted errno {code}"),
    }
}

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

async fn opening(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let path = root.join("file");
    assert_code(disk.open(&path, OpenOptions::READ).await, ENOENT, "reading a missing file");
    assert_code(disk.open(&path, READ_WRITE).await, ENOENT, "writing a missing file");
    let nowhere = root.join("missing/file");
    assert_code(disk.open(&nowhere, OpenOptions::CREATE).await, ENOENT, "no such directory");

    let file = create(disk, &path).await;
    assert_eq!(file.path(), path);
    assert_eq!(file.size().await.unwrap(), 0);
    write(&*file, 0, page_of(1)).await;
    drop(file);

    assert_code(disk.open(&path, OpenOptions::CREATE).await, EEXIST, "creating it again");
    let file = disk.open(&path, READ_WRITE).await.unwrap();
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[1; PAGE_BYTES], "opening keeps content");
    let read_only = disk.open(&path, OpenOptions::READ).await.unwrap();
    let (result, buffer) = read_only.write_at(0, page_of(2)).await;
    assert!(result.is_err(), "a file opened for reading takes no writes");
    assert_eq!(buffer.len(), PAGE_BYTES, "a failed write hands its buffer back too");
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[1; PAGE_BYTES]);
}

async fn reading_and_writing(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let file = create(disk, &root.join("file")).await;
    let mut three = AlignedBuffer::with_capacity(3 * PAGE_BYTES);
    for byte in [10, 11, 12] {
        three.extend(&[byte; PAGE_BYTES]);
    }
    write(&*file, 0, three).await;
    write(&*file, PAGE, page_of(99)).await;
    assert_eq!(file.size().await.unwrap(), 3 * PAGE, "overwriting does not grow a file");

    let whole = read(&*file, 0, 3 * PAGE_BYTES).await;
    assert_eq!(whole.len(), 3 * PAGE_BYTES);
    for (index, byte) in [10, 99, 12].into_iter().enumerate() {
        let page = &whole[index * PAGE_BYTES..][..PAGE_BYTES];
        assert!(page.iter().all(|found| *found == byte), "page {index} holds {byte}");
    }
    assert_eq!(&read(&*file, 2 * PAGE, PAGE_BYTES).await[..], &[12; PAGE_BYTES]);

    // The length a buffer comes with does not matter to a read: its capacity does.
    let (result, buffer) = file.read_at(0, AlignedBuffer::padded(&[7; 2 * PAGE_BYTES])).await;
    result.unwrap();
    assert_eq!(buffer.len(), 2 * PAGE_BYTES);
    assert_eq!((buffer[0], buffer[PAGE_BYTES]), (10, 99));

    write(&*file, 5 * PAGE, page_of(55)).await;
    assert_eq!(file.size().await.unwrap(), 6 * PAGE, "a write past the end grows the file");
    let gap = read(&*file, 3 * PAGE, 2 * PAGE_BYTES).await;
    assert!(gap.iter().all(|byte| *byte == 0), "the gap reads as zero");

    let empty = AlignedBuffer::with_capacity(PAGE_BYTES);
    write(&*file, 9 * PAGE, empty).await;
    assert_eq!(file.size().await.unwrap(), 6 * PAGE, "writing nothing changes nothing");
    file.sync().await.expect("sync succeeds");
}

async fn end_of_file(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let file = create(disk, &root.join("file")).await;
    assert_eq!(read(&*file, 0, PAGE_BYTES).await.len(), 0, "an empty file reads as nothing");
    let mut two = AlignedBuffer::with_capacity(2 * PAGE_BYTES);
    two.extend(&[3; 2 * PAGE_BYTES]);
    write(&*file, 0, two).await;
    assert_eq!(read(&*file, 0, 8 * PAGE_BYTES).await.len(), 2 * PAGE_BYTES);
    file.truncate(PAGE + 100).await.unwrap();
    assert_eq!(read(&*file, 0, 8 * PAGE_BYTES).await.len(), PAGE_BYTES + 100, "up to the end");
    let tail = read(&*file, PAGE, PAGE_BYTES).await;
    assert_eq!(&tail[..], &[3; 100], "the last page is short");
    assert_eq!(read(&*file, 2 * PAGE, PAGE_BYTES).await.len(), 0, "nothing past the end");

    // A buffer with old content that is read into past the end comes back empty, not stale.
    let (result, buffer) = file.read_at(2 * PAGE, page_of(9)).await;
    result.unwrap();
    assert_eq!(buffer.len(), 0);
}

async fn sizes(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let file = create(disk, &root.join("file")).await;
    file.allocate(4 * PAGE).await.expect("space can be reserved");
    assert_eq!(file.size().await.unwrap(), 4 * PAGE);
    let content = read(&*file, 0, 4 * PAGE_BYTES).await;
    assert!(content.len() == 4 * PAGE_BYTES && content.iter().all(|byte| *byte == 0));

    write(&*file, 0, page_of(5)).await;
    file.allocate(2 * PAGE).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 4 * PAGE, "reserving never shrinks");
    file.allocate(6 * PAGE).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 6 * PAGE);
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[5; PAGE_BYTES], "nor changes content");

    file.truncate(10).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 10);
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[5; 10]);
    file.truncate(PAGE).await.unwrap();
    let grown = read(&*file, 0, PAGE_BYTES).await;
    assert_eq!((grown.len(), grown[9], grown[10]), (PAGE_BYTES, 5, 0), "cut bytes are gone");
    file.truncate(0).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 0);
    file.sync().await.unwrap();
}

async fn data_sync(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let path = root.join("file");
    let options = OpenOptions { access: Access::Create, data_sync: true };
    let file = disk.open(&path, options).await.unwrap();
    write(&*file, 0, page_of(8)).await;
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[8; PAGE_BYTES]);
    let options = OpenOptions { access: Access::ReadWrite, data_sync: true };
    let again = disk.open(&path, options).await.unwrap();
    write(&*again, PAGE, page_of(9)).await;
    assert_eq!(file.size().await.unwrap(), 2 * PAGE, "two openings are one file");
}

async fn operations_at_once(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let file = create(disk, &root.join("file")).await;
    // More than a ring of 256 entries takes at once.
    let count = 600_u64;
    let byte = |index: u64| (index % 251) as u8;
    join_all((0..count).map(|index| write(&*file, index * PAGE, page_of(byte(index))))).await;
    assert_eq!(file.size().await.unwrap(), count * PAGE);
    let reads = (0..count).rev().map(|index| {
        let file = &file;
        async move {
            let page = read(&**file, index * PAGE, PAGE_BYTES).await;
            assert_eq!(&page[..], &[byte(index); PAGE_BYTES], "page {index}");
        }
    });
    join_all(reads).await;
}

/// A future dropped after its first poll leaves the disk usable; the write happens whole or not.
async fn dropped_operations(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let file = create(disk, &root.join("file")).await;
    write(&*file, 0, page_of(1)).await;
    for _ in 0..50 {
        let mut pending = file.write_at(0, page_of(2));
        let _ = futures::poll!(&mut pending);
        drop(pending);
        let mut pending = file.read_at(0, page_of(0));
        let _ = futures::poll!(&mut pending);
        drop(pending);
    }
    let page = read(&*file, 0, PAGE_BYTES).await;
    let first = page[0];
    assert!(first == 1 || first == 2, "the page holds a value that was written: {first}");
    write(&*file, PAGE, page_of(3)).await;
    assert_eq!(&read(&*file, PAGE, PAGE_BYTES).await[..], &[3; PAGE_BYTES]);
}

async fn directories(disk: &dyn Disk, root: &Path) {
    assert_eq!(disk.list(root).await.unwrap(), [], "a missing directory lists as empty");
    let deep = root.join("b/c/d");
    disk.create_directories(&deep).await.unwrap();
    disk.create_directories(&deep).await.expect("existing directories are no error");
    drop(create(disk, &root.join("z")).await);
    drop(create(disk, &root.join("a")).await);
    let found = disk.list(root).await.unwrap();
    let found: Vec<_> =
        found.iter().map(|entry| (entry.name.as_str(), entry.is_directory)).collect();
    assert_eq!(found, [("a", false), ("b", true), ("z", false)], "sorted, only direct children");

    disk.sync_directory(root).await.expect("a directory can be synced");
    assert_code(disk.sync_directory(&root.join("missing")).await, ENOENT, "syncing nothing");
    assert!(disk.remove_directory(&root.join("b")).await.is_err(), "not empty");
    disk.remove_directory(&deep).await.unwrap();
    assert_eq!(disk.list(&root.join("b/c")).await.unwrap(), []);
    assert_code(disk.remove_directory(&deep).await, ENOENT, "removing it again");
}

async fn renaming_and_removing(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let (from, to) = (root.join("from"), root.join("to"));
    assert_code(disk.rename(&from, &to).await, ENOENT, "renaming nothing");
    assert_code(disk.remove(&from).await, ENOENT, "removing nothing");
    write(&*create(disk, &from).await, 0, page_of(1)).await;
    write(&*create(disk, &to).await, 0, page_of(2)).await;
    disk.rename(&from, &to).await.expect("a rename replaces");
    assert_code(disk.open(&from, OpenOptions::READ).await, ENOENT, "the old name is gone");
    let file = disk.open(&to, OpenOptions::READ).await.unwrap();
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[1; PAGE_BYTES]);
    disk.remove(&to).await.unwrap();
    assert_code(disk.open(&to, OpenOptions::READ).await, ENOENT, "removed");
    assert_eq!(disk.list(root).await.unwrap(), []);
}

async fn second_names(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let (first, second) = (root.join("first"), root.join("second"));
    assert_code(disk.link(&first, &second).await, ENOENT, "a second name of nothing");
    write(&*create(disk, &first).await, 0, page_of(6)).await;
    disk.link(&first, &second).await.expect("a file may have two names");
    assert_code(disk.link(&first, &second).await, EEXIST, "a name that is taken");
    let file = disk.open(&second, OpenOptions::READ).await.unwrap();
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[6; PAGE_BYTES]);
    disk.remove(&first).await.unwrap();
    let file = disk.open(&second, OpenOptions::READ).await.expect("one name is left");
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[6; PAGE_BYTES]);
    disk.remove(&second).await.unwrap();
    assert_eq!(disk.list(root).await.unwrap(), []);
}

async fn open_files_outlive_their_names(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let path = root.join("file");
    let file = create(disk, &path).await;
    write(&*file, 0, page_of(4)).await;
    disk.remove(&path).await.unwrap();
    assert_eq!(&read(&*file, 0, PAGE_BYTES).await[..], &[4; PAGE_BYTES], "still readable");
    let other = create(disk, &path).await;
    assert_eq!(other.size().await.unwrap(), 0, "the name is free for a new file");
    write(&*file, PAGE, page_of(5)).await;
    file.truncate(2 * PAGE).await.unwrap();
    assert_eq!((file.size().await.unwrap(), other.size().await.unwrap()), (2 * PAGE, 0));
}

async fn whole_files(disk: &dyn Disk, root: &Path) {
    disk.create_directories(root).await.unwrap();
    let path = root.join("manifest");
    for content in [&b"first"[..], &b""[..], &[6; 3 * PAGE_BYTES][..], &[7; PAGE_BYTES + 1][..]] {
        write_file_atomically(disk, &path, content).await.unwrap();
        assert_eq!(read_file(disk, &path).await.unwrap(), content);
    }
    // What a crash left half done must not stand in the way.
    write(&*create(disk, &root.join("manifest.tmp")).await, 0, page_of(1)).await;
    write_file_atomically(disk, &path, b"last").await.unwrap();
    assert_eq!(read_file(disk, &path).await.unwrap(), b"last");
    let names: Vec<_> = disk.list(root).await.unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["manifest"], "nothing is left beside the file");
}

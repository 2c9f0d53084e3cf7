//! `tidegate sstable`: dumps, descriptions and verification of SSTable files, and SQL on them.
//!
//! Invariant: results go to stdout, everything else to stderr; one SSTable that fails does not keep
//! the others from being looked at, and the exit code tells.

mod query;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::{Clock, SystemClock};
use tidegate_engine::disk::{self, Disk};
use tidegate_engine::inspect::{
    DataDump, IndexDump, Inspector, Verification, dump_scylla, dump_statistics,
    dump_statistics_json, dump_summary, find_schema, list, locate, verify,
};
use tidegate_engine::sstable::SstableName;
use tidegate_engine::{Backend, Error};

use crate::cli::{SstableAction, SstableFiles};
use crate::exit::{EXIT_FAILED, fail};
use crate::output::progress::{INTERVAL_MS, Progress, ProgressLine};
use crate::output::{self, Mode};
use crate::stderr::tell_line;
pub(crate) use query::run as run_query;

/// Why a tool stopped.
enum Stopped {
    Engine(Error),
    /// Nobody reads the output any more, or it cannot be written.
    Output(io::Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Engine(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Stopped::Output(error)
    }
}

/// Runs a tool that needs no database; returns the exit code.
pub(crate) fn run(action: &SstableAction, backend: Backend, mode: Mode) -> u8 {
    let files = match action {
        SstableAction::DumpData(files)
        | SstableAction::DumpIndex(files)
        | SstableAction::DumpSummary(files)
        | SstableAction::DumpScyllaMetadata(files)
        | SstableAction::DumpSchema(files)
        | SstableAction::Verify(files)
        | SstableAction::DumpStatistics { files, .. }
        | SstableAction::Query { files, .. } => files,
    };
    let done = disk::run(backend, |disk, _| async move {
        let mut tool = Tool {
            disk,
            clock: SystemClock::shared(),
            out: output::stdout(),
            mode,
            has_failed: false,
        };
        let ran = tool.run(action, files).await;
        let ended = ran.and_then(|()| tool.out.flush());
        match ended {
            // Whoever read the output has seen enough, as with `| head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Err(error) => fail(&format!("cannot write the result: {error}")),
            Ok(()) if tool.has_failed => EXIT_FAILED,
            Ok(()) => 0,
        }
    });
    done.unwrap_or_else(|error| fail(&error.to_string()))
}

/// What the files and directories are that were named.
#[derive(Default)]
pub(super) struct Targets {
    /// Each once, by directory.
    found: Vec<(PathBuf, SstableName)>,
    /// In words, one for each that is no SSTable.
    wrong: Vec<String>,
    /// The same for those in directories that are of another version.
    unknown: Vec<String>,
}

pub(super) async fn targets(disk: &dyn Disk, files: &SstableFiles) -> Targets {
    let Targets { mut found, mut wrong, mut unknown } = Targets::default();
    for file in &files.files {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        if !path.is_dir() {
            match locate(&path) {
                Ok(target) if path.exists() => found.push(target),
                Ok(_) => wrong.push(format!("{}: no such file", file.display())),
                Err(error) => wrong.push(error.to_string()),
            }
            continue;
        }
        let before = found.len() + unknown.len();
        match list(disk, &path).await {
            Ok(names) => {
                for (_, name) in names {
                    match name {
                        Ok(name) => found.push((path.clone(), name)),
                        Err(error) => unknown.push(format!("{}: {error}", path.display())),
                    }
                }
                if found.len() + unknown.len() == before {
                    let hint = "no file in it ends with -Data.db";
                    wrong.push(format!("{} holds no SSTable: {hint}", file.display()));
                }
            }
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let mut once: Vec<(PathBuf, SstableName)> = Vec::with_capacity(found.len());
    for target in found {
        if !once.contains(&target) {
            once.push(target);
        }
    }
    Targets { found: once, wrong, unknown }
}

struct Tool {
    disk: Rc<dyn Disk>,
    clock: Arc<dyn Clock>,
    out: BufWriter<Stdout>,
    mode: Mode,
    has_failed: bool,
}

impl Tool {
    /// Errors: from the output only; all others are told, and remembered.
    async fn run(&mut self, action: &SstableAction, files: &SstableFiles) -> io::Result<()> {
        let Targets { found: targets, wrong, unknown } = targets(&*self.disk, files).await;
        for message in wrong.iter().chain(&unknown) {
            self.tell(message);
        }
        if matches!(action, SstableAction::DumpSchema(_)) {
            return self.schemas(&targets).await;
        }
        for (directory, name) in &targets {
            let ran = match Inspector::open(self.disk.clone(), directory, name).await {
                Ok(sstable) => self.one(action, &sstable).await,
                Err(error) => Err(error.into()),
            };
            match ran {
                Ok(()) => {}
                Err(Stopped::Output(error)) => return Err(error),
                Err(Stopped::Engine(error)) => {
                    // What was printed before stands before it.
                    self.out.flush()?;
                    self.tell(&error.to_string());
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, message: &str) {
        self.has_failed = true;
        tell_line!("error: {message}");
    }

    async fn one(&mut self, action: &SstableAction, sstable: &Inspector) -> Result<(), Stopped> {
        match action {
            SstableAction::DumpData(_) => self.dump_data(sstable).await,
            SstableAction::DumpIndex(_) => self.dump_index(sstable).await,
            SstableAction::Verify(_) => Ok(self.verify(sstable).await?),
            SstableAction::DumpSummary(_) => self.print(&dump_summary(sstable).await?),
            SstableAction::DumpStatistics { json: true, .. } => {
                self.print(&dump_statistics_json(sstable).await?)
            }
            SstableAction::DumpStatistics { .. } => {
                let text = dump_statistics(sstable).await?;
                self.print(text.trim_end())
            }
            SstableAction::DumpScyllaMetadata(_) => {
                let json = dump_scylla(sstable).await?;
                self.print(json.as_deref().unwrap_or("null"))
            }
            SstableAction::DumpSchema(_) | SstableAction::Query { .. } => {
                unreachable!("these work on directories, not on single SSTables")
            }
        }
    }

    fn print(&mut self, text: &str) -> Result<(), Stopped> {
        Ok(writeln!(self.out, "{text}")?)
    }

    async fn dump_data(&mut self, sstable: &Inspector) -> Result<(), Stopped> {
        let mut dump = DataDump::new(sstable, self.clock.wall_seconds()).await?;
        // A terminal that is written to needs no line about it.
        let mut line = Line::new(&self.clock, !io::stdout().is_terminal());
        let next = async |piece: &mut String| {
            let more = dump.next(piece).await;
            let (done, size) = dump.progress();
            line.draw(dump.rows(), done, size);
            more
        };
        let printed = self.print_all(next).await;
        line.clear();
        printed
    }

    async fn dump_index(&mut self, sstable: &Inspector) -> Result<(), Stopped> {
        let mut dump = IndexDump::new(sstable).await?;
        self.print_all(async |piece: &mut String| dump.next(piece).await).await
    }

    /// Writes pieces until `next` has no more, and of one that fails what it had.
    async fn print_all(
        &mut self,
        mut next: impl AsyncFnMut(&mut String) -> Result<bool, Error>,
    ) -> Result<(), Stopped> {
        let mut piece = String::new();
        loop {
            piece.clear();
            let more = next(&mut piece).await;
            self.out.write_all(piece.as_bytes())?;
            if !more? {
                return Ok(writeln!(self.out)?);
            }
        }
    }

    async fn verify(&mut self, sstable: &Inspector) -> io::Result<()> {
        let mut line = Line::new(&self.clock, true);
        let found = verify(sstable, &mut |rows, done, size| line.draw(rows, done, size)).await;
        line.clear();
        self.has_failed |= !found.is_sound();
        if self.mode == Mode::Json {
            writeln!(self.out, "{}", found.to_json())?;
        } else {
            print_verification(&mut self.out, &found)?;
        }
        // A report is read while the next file is checked.
        self.out.flush()
    }

    /// One schema for all SSTables of a directory.
    async fn schemas(&mut self, targets: &[(PathBuf, SstableName)]) -> io::Result<()> {
        for group in targets.chunk_by(|a, b| a.0 == b.0) {
            match self.schema(&group[0].0, group).await {
                Ok(text) => write!(self.out, "{text}")?,
                Err(error) => self.tell(&error.to_string()),
            }
        }
        Ok(())
    }

    async fn schema(
        &self,
        directory: &Path,
        group: &[(PathBuf, SstableName)],
    ) -> Result<String, Error> {
        let mut sstables = Vec::with_capacity(group.len());
        for (_, name) in group {
            sstables.push(Inspector::open(self.disk.clone(), directory, name).await?);
        }
        let sstables: Vec<&Inspector> = sstables.iter().collect();
        Ok(find_schema(&sstables).await?.to_cql())
    }
}

fn print_verification(out: &mut dyn Write, found: &Verification) -> io::Result<()> {
    let counted = format!(
        "{} partitions, {} rows, {} bytes of data",
        found.partitions, found.rows, found.data_bytes
    );
    let path = found.sstable.display();
    if found.is_sound() {
        writeln!(out, "{path}: sound ({counted})")?;
    } else {
        let problems = if found.problem_count == 1 { "problem" } else { "problems" };
        writeln!(out, "{path}: DAMAGED, {} {problems} ({counted})", found.problem_count)?;
    }
    for problem in &found.problems {
        writeln!(out, "  {problem}")?;
    }
    let left = found.problem_count - found.problems.len() as u64;
    if left > 0 {
        writeln!(out, "  and {left} more")?;
    }
    for skipped in &found.skipped {
        writeln!(out, "  not checked: {skipped}")?;
    }
    for note in &found.notes {
        writeln!(out, "  note: {note}")?;
    }
    Ok(())
}

/// A progress line with its clock.
struct Line {
    clock: Arc<dyn Clock>,
    line: ProgressLine,
    is_wanted: bool,
    start_ns: u64,
    drawn_ns: u64,
}

impl Line {
    fn new(clock: &Arc<dyn Clock>, is_wanted: bool) -> Self {
        let start_ns = clock.monotonic_ns();
        let line = ProgressLine::new();
        Line { clock: clock.clone(), line, is_wanted, start_ns, drawn_ns: start_ns }
    }

    fn draw(&mut self, rows: u64, bytes: u64, size: u64) {
        let now_ns = self.clock.monotonic_ns();
        let is_soon = now_ns.saturating_sub(self.drawn_ns) < INTERVAL_MS * 1_000_000;
        if is_soon || !self.is_wanted {
            return;
        }
        self.drawn_ns = now_ns;
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.start_ns));
        self.line.draw(Progress { rows, bytes, bytes_total: Some(size) }, elapsed);
    }

    fn clear(&mut self) {
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where these files and directories are named.
    fn found(files: &[PathBuf]) -> Targets {
        let files = SstableFiles { files: files.to_vec() };
        let work = |disk: Rc<dyn Disk>, _| async move { targets(&*disk, &files).await };
        disk::run(Backend::Blocking, work).unwrap()
    }

    #[test]
    fn each_sstable_is_looked_at_once_and_what_is_none_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let folders = ["one", "other", "newer", "empty"].map(|name| directory.path().join(name));
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let [one, other, newer, empty] = folders;
        let (two, ten) = (SstableName::native(2), SstableName::native(10));
        let (index, data) = ("me-10-big-Index.db", "me-10-big-Data.db");
        for path in [
            one.join("me-2-big-Data.db"),
            one.join(data),
            one.join(index),
            other.join("me-2-big-Data.db"),
            newer.join("oa-3-big-Data.db"),
        ] {
            std::fs::write(path, "").unwrap();
        }
        let named = [one.join(index), one.clone(), one.join(data), other.clone(), newer.clone()];
        let Targets { found: looked_at, wrong, unknown } = found(&named);
        assert_eq!(looked_at, [(one.clone(), ten), (one.clone(), two.clone()), (other, two)]);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(unknown.len() == 1 && unknown[0].contains("version oa"), "{unknown:?}");
        let absent = [empty, one.join("me-3-big-Data.db"), one.join("notes"), newer.join("x")];
        let Targets { found: looked_at, wrong, unknown } = found(&absent);
        assert!(looked_at.is_empty() && unknown.is_empty(), "{looked_at:?} {unknown:?}");
        assert_eq!(wrong.len(), absent.len(), "{wrong:?}");
        for (told, wanted) in
            wrong.iter().zip(["holds no SSTable", "no such file", "'notes'", "'x'"])
        {
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    fn a_verification_tells_how_much_there_is_beyond_what_is_shown() {
        let shown = |found: &Verification| {
            let mut out = Vec::new();
            print_verification(&mut out, found).unwrap();
            String::from_utf8(out).unwrap()
        };
        let counted = "(2 partitions, 3 rows, 40 bytes of data)";
        let mut found = Verification::default();
        found.sstable = "t/me-1-big".into();
        (found.partitions, found.rows, found.data_bytes) = (2, 3, 40);
        assert_eq!(shown(&found), format!("t/me-1-big: sound {counted}\n"));
        found.skipped.push("a digest".to_owned());
        found.notes.push("an old one".to_owned());
        let below = "  not checked: a digest\n  note: an old one\n";
        assert_eq!(shown(&found), format!("t/me-1-big: sound {counted}\n{below}"));
        let problem = || Error::invalid("torn");
        found.problems.push(problem());
        for (count, said, more) in [(1, "1 problem", ""), (3, "3 problems", "  and 2 more\n")] {
            found.problem_count = count;
            let wanted = format!("DAMAGED, {said} {counted}\n  {}\n{more}{below}", problem());
            assert_eq!(shown(&found), format!("t/me-1-big: {wanted}"));
        }
    }
}

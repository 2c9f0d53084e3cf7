//! SQL on SSTable files: a database without tables of its own, with the files attached.

use std::path::PathBuf;

use tidegate_engine::inspect::{Inspector, find_schema};
use tidegate_engine::sstable::SstableName;
use tidegate_engine::{
    AttachProgress, Attachment, Database, Durability, Error, OnCorruption, OnUnknown, disk,
};

use super::{Targets, targets};
use crate::batch;
use crate::cli::{Cli, Input, SstableFiles};
use crate::exit::{EXIT_FAILED, fail};
use crate::memory::MemoryPlan;
use crate::stderr::tell_line;

/// SSTables of one directory, and the name of the table that they become.
type Group = (PathBuf, Vec<SstableName>, String);

/// Runs a statement over files; returns the exit code. To be called within the runtime.
pub(crate) async fn run(
    cli: &Cli,
    memory: &MemoryPlan,
    (sql, files): (&str, &SstableFiles),
    skip_damaged: bool,
) -> u8 {
    let groups = match groups(cli, files).await {
        Ok(groups) => groups,
        Err(messages) => {
            return messages.iter().map(|message| fail(message)).max().unwrap_or(EXIT_FAILED);
        }
    };
    let scratch = std::env::temp_dir().join(format!("tidegate-query-{}", std::process::id()));
    let mut arguments = cli.database.clone();
    arguments.directory.clone_from(&scratch);
    let mut options = arguments.options(memory);
    options.durability = Durability::None;
    let code = match Database::open(options).await {
        Ok(database) => {
            let code = query(cli, &database, sql, groups, skip_damaged).await;
            match database.close().await {
                Ok(()) => code,
                Err(error) => fail(&error.to_string()).max(code),
            }
        }
        Err(error) => fail(&error.to_string()),
    };
    // It holds nothing but an empty database.
    if let Err(error) = std::fs::remove_dir_all(&scratch) {
        tell_line!("note: {} is left behind: {error}", scratch.display());
    }
    code
}

async fn groups(cli: &Cli, files: &SstableFiles) -> Result<Vec<Group>, Vec<String>> {
    let (backend, files) = (cli.database.backend(), files.clone());
    // The disk is that of one thread, which the runtime's are not.
    let found = tokio::task::spawn_blocking(move || {
        disk::run(backend, |disk, _| async move {
            let Targets { found, mut wrong, unknown } = targets(&*disk, &files).await;
            // What can be read is, and the rest told.
            if found.is_empty() {
                wrong.extend(unknown);
            } else {
                unknown.iter().for_each(|message| tell_line!("note: left out: {message}"));
            }
            if !wrong.is_empty() {
                return Err(wrong);
            }
            let mut groups: Vec<Group> = Vec::new();
            for (directory, name) in found {
                if let Some(group) = groups.iter_mut().find(|group| group.0 == directory) {
                    group.1.push(name);
                    continue;
                }
                let table = async {
                    let sstable = Inspector::open(disk.clone(), &directory, &name).await?;
                    Ok::<_, Error>(find_schema(&[&sstable]).await?.name)
                };
                let table = table.await.map_err(|error| vec![error.to_string()])?;
                groups.push((directory, vec![name], table));
            }
            Ok(groups)
        })
    });
    let failed = |error: String| vec![error];
    let found = found.await.map_err(|error| failed(error.to_string()))?;
    found.map_err(|error| failed(error.to_string()))?
}

async fn query(
    cli: &Cli,
    database: &Database,
    sql: &str,
    groups: Vec<Group>,
    skip_damaged: bool,
) -> u8 {
    for (directory, names, table) in groups {
        let attachment = Attachment {
            directory,
            names: Some(names),
            keyspace: "default".to_owned(),
            name: table_name(&table),
            on_corruption: if skip_damaged { OnCorruption::Skip } else { OnCorruption::Fail },
            // Those of directories were told.
            on_unknown: OnUnknown::Skip,
            progress: AttachProgress::default(),
        };
        match database.attach(attachment).await {
            Ok(attached) => {
                for note in &attached.notes {
                    tell_line!("note: {note}");
                }
                for file in &attached.files {
                    if let Some(error) = &file.error {
                        tell_line!("note: left out: {error}");
                    }
                }
            }
            Err(error) => return fail(&error.to_string()),
        }
    }
    let mut session = match cli.session(database) {
        Ok(session) => session,
        Err(error) => return fail(&error),
    };
    batch::run(&mut session, &[Input::Text(sql.to_owned())]).await
}

/// A name that a table may have here.
fn table_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().take(48).map(plain).collect();
    if name.is_empty() { "sstable".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_files_has_a_name_that_sql_takes() {
        let long = "a".repeat(60);
        for (found, name) in [
            ("users", "users"),
            ("Users_2", "Users_2"),
            ("", "sstable"),
            ("a-b.c d", "a_b_c_d"),
            ("größe", "gr__e"),
            ("\"quoted\"", "_quoted_"),
            (&long[..48], &long[..48]),
            (&long[..49], &long[..48]),
            (&long[..], &long[..48]),
        ] {
            assert_eq!(table_name(found), name, "{found}");
        }
    }
}

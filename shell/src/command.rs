//! Commands of the shell itself: lines that start with `\` or `.`.
//!
//! Invariant: a command either changes the session or stands for one SQL statement, so every
//! command has an answer in SQL too.

use crate::output::{Mode, RowLimit};
use crate::text::BARE_WORDS;
use crate::text::nearest;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Quit,
    Help,
    Mode(Mode),
    Timing(bool),
    /// How many rows of a result are shown.
    Rows(RowLimit),
    /// Empty the screen.
    Clear,
    /// Run this statement instead.
    Sql(String),
}

/// Names of all commands, for completion.
pub const NAMES: &[&str] = &[
    "\\?", "\\d", "\\q", ".clear", ".exit", ".help", ".mode", ".quit", ".rows", ".schema",
    ".tables", ".timing",
];

/// What `\?` prints.
pub const HELP: &str = "\
Statements end with ';' and may take several lines.
  \\d, .tables                    tables of all keyspaces
  \\d TABLE, .schema TABLE        columns, keys and options of a table
  .mode table|expanded|csv|json  how results are written
  .rows screen|all|N             how many rows of a result are shown
  .timing on|off                 whether the time stands under a result
  .clear, clear                  empty the screen
  \\?, .help, help                this help
  \\q, .quit, quit, exit, Ctrl-D  leave
Keys: Tab completes. Up and Ctrl-R find earlier statements. Ctrl-C drops the
statement that you type, or stops the one that runs. A line that starts with a
space stays out of the history.
Statements:
  CREATE TABLE, ALTER TABLE, DROP TABLE, DESCRIBE, SHOW TABLES
  SELECT, INSERT, UPDATE, DELETE, COPY, EXPLAIN, FLUSH
  ATTACH SSTABLES, DETACH, IMPORT SSTABLES: files of Cassandra and ScyllaDB
Policies:
  CREATE POLICY p FROM 'p.wasm'                loads a policy
  ALTER CACHE SET POLICY = p MODE = shadow     tries it beside the active one
  ALTER CACHE SET POLICY = p MODE = canary     tries it on some shards first
  ALTER CACHE SET POLICY = p                   puts it in charge
  ROLLBACK POLICY                              brings the one before back
  SHOW POLICIES, SHOW POLICY EXITS, EXPLAIN POLICY p
  ALTER CACHE SET ADMISSION = p                decides what the cache keeps
  ALTER RATE LIMITER SET POLICY = p            decides about hot partitions
  ALTER READ ADMISSION SET POLICY = p          decides how many reads run
  ALTER LOAD SHEDDING SET POLICY = p           decides what is refused
  RECORD TRACE 'f', RECORD TRACE STOP, SELECT * FROM replay_policy('lru', 'f')
Engine: SHOW CACHE, SHOW CORRUPTION, SHOW STALLS, SELECT * FROM system.metrics
";

/// Reads a command line.
pub fn parse(line: &str) -> Result<Command, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = match line.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, argument.trim()),
        None => (line, ""),
    };
    let name = match name.to_ascii_lowercase() {
        bare if BARE_WORDS.contains(&bare.as_str()) => format!(".{bare}"),
        _ => name.to_owned(),
    };
    let command = match name.as_str() {
        "\\q" | ".quit" | ".exit" => Command::Quit,
        "\\?" | "\\h" | ".help" => Command::Help,
        ".clear" => Command::Clear,
        ".rows" => Command::Rows(match argument.to_ascii_lowercase().as_str() {
            "screen" => RowLimit::Screen,
            "all" => RowLimit::All,
            number => match number.parse() {
                Ok(rows @ 1..) => RowLimit::First(rows),
                _ => return Err(as_error("write .rows screen, .rows all or .rows 100".to_owned())),
            },
        }),
        "\\d" | ".schema" if !argument.is_empty() => Command::Sql(format!("DESCRIBE {argument}")),
        "\\d" | "\\dt" | ".tables" | ".schema" => Command::Sql("SHOW TABLES".to_owned()),
        ".mode" => Command::Mode(argument.parse().map_err(as_error)?),
        ".timing" => match argument.to_ascii_lowercase().as_str() {
            "on" => Command::Timing(true),
            "off" => Command::Timing(false),
            _ => return Err(as_error("write .timing on or .timing off".to_owned())),
        },
        _ => {
            let near = nearest(&name, NAMES.iter().copied());
            let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
            return Err(format!(
                "error: no command '{name}'\nhelp: {near}\\? lists the commands\n"
            ));
        }
    };
    Ok(command)
}

fn as_error(message: String) -> String {
    format!("error: {message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_two_spellings() {
        for (line, command) in [
            ("\\q", Command::Quit),
            (".quit;", Command::Quit),
            ("\\?", Command::Help),
            ("\\d", Command::Sql("SHOW TABLES".into())),
            (".tables", Command::Sql("SHOW TABLES".into())),
            ("\\d  weather ;", Command::Sql("DESCRIBE weather".into())),
            (".schema ks.t", Command::Sql("DESCRIBE ks.t".into())),
            (".mode JSON", Command::Mode(Mode::Json)),
            (".timing off", Command::Timing(false)),
            ("help", Command::Help),
            ("EXIT;", Command::Quit),
            ("quit", Command::Quit),
            ("clear", Command::Clear),
            (".rows all", Command::Rows(RowLimit::All)),
            (".rows 20;", Command::Rows(RowLimit::First(20))),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_says_what_would_be_right() {
        assert!(parse(".foo").unwrap_err().contains("\\? lists"));
        assert!(parse(".tabels").unwrap_err().contains("did you mean .tables?"));
        assert!(parse(".rows 0").unwrap_err().contains(".rows all"));
        assert!(parse(".mode xml").unwrap_err().contains("expanded, csv or json"));
        assert!(parse(".timing").unwrap_err().contains(".timing on"));
    }

    #[test]
    fn the_help_fits_a_screen_of_eighty_columns() {
        assert!(HELP.lines().all(|line| line.len() < 80), "{HELP}");
    }

    #[test]
    fn every_name_is_known() {
        for name in NAMES {
            let error = parse(name).err().unwrap_or_default();
            assert!(!error.contains("no command"), "{name}");
        }
    }
}

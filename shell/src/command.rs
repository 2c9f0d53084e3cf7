//! Commands of the shell itself: lines that start with `\` or `.`.
//!
//! Invariant: a command either changes the session or stands for one SQL statement, so every
//! command has an answer in SQL too.

use crate::output::Mode;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Quit,
    Help,
    Mode(Mode),
    Timing(bool),
    /// Run this statement instead.
    Sql(String),
}

/// Names of all commands, for completion.
pub const NAMES: &[&str] =
    &["\\?", "\\d", "\\q", ".exit", ".help", ".mode", ".quit", ".schema", ".tables", ".timing"];

/// What `\?` prints.
pub const HELP: &str = "\
Statements end with ';' and may take several lines.
  \\d, .tables             tables of all keyspaces
  \\d TABLE, .schema TABLE columns and keys of a table
  .mode table|csv|json    how results are written
  .timing on|off          whether the time stands under a result
  \\?, .help               this help
  \\q, .quit, Ctrl-D       leave
Another policy for the cache: CREATE POLICY p FROM 'p.wasm', then ALTER CACHE SET POLICY = p with
MODE = shadow (beside the active one, on a sample), canary (on some shards first) or active.
EXPLAIN POLICY p shows what it costs and brings, SHOW POLICY EXITS which failed, and ROLLBACK
POLICY brings the one before back.
Others decide what the cache keeps (ALTER CACHE SET ADMISSION = p), what goes beyond rate limits, how
many reads run at once, what is refused under load (ALTER RATE LIMITER | READ ADMISSION | LOAD
SHEDDING SET POLICY = p); system.rate_limits and system.intake show what they do.
RECORD TRACE 'f', RECORD TRACE STOP, SELECT * FROM replay_policy('lru', 'f') weigh policies;
tidegate plugin --help lists what authors of policies can do.
Tab completes. Ctrl-C clears the line, or stops the statement that runs. Ctrl-R searches the
history; a line that starts with a space is not kept.
";

/// Reads a command line.
pub fn parse(line: &str) -> Result<Command, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = match line.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, argument.trim()),
        None => (line, ""),
    };
    let command = match name {
        "\\q" | ".quit" | ".exit" => Command::Quit,
        "\\?" | "\\h" | ".help" => Command::Help,
        "\\d" | ".schema" if !argument.is_empty() => Command::Sql(format!("DESCRIBE {argument}")),
        "\\d" | "\\dt" | ".tables" | ".schema" => Command::Sql("SHOW TABLES".to_owned()),
        ".mode" => Command::Mode(argument.parse().map_err(as_error)?),
        ".timing" => match argument.to_ascii_lowercase().as_str() {
            "on" => Command::Timing(true),
            "off" => Command::Timing(false),
            _ => return Err(as_error("write .timing on or .timing off".to_owned())),
        },
        _ => return Err(format!("error: no command '{name}'\nhelp: \\? lists the commands\n")),
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
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_says_what_would_be_right() {
        assert!(parse(".foo").unwrap_err().contains("\\? lists"));
        assert!(parse(".mode xml").unwrap_err().contains("table, csv or json"));
        assert!(parse(".timing").unwrap_err().contains(".timing on"));
    }

    #[test]
    fn every_name_is_known() {
        for name in NAMES {
            let error = parse(name).err().unwrap_or_default();
            assert!(!error.contains("no command"), "{name}");
        }
    }
}

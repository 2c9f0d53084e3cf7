//! Commands of the shell itself: lines that start with `\` or `.`.
//!
//! Invariant: a command either changes the session or stands for one SQL statement, so every
//! command has an answer in SQL too.

use crate::output::{Mode, RowLimit};
use crate::query::{Help, STATEMENTS, Topic};
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

/// What `\?` prints before the statements.
const HEAD: &str = "\
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
";

/// Columns of the help.
const COLUMNS_MAX: usize = 79;

/// What `\?` prints.
pub fn help() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("Statements:\n");
    names(&mut text, "  ", Topic::Tables, &[]);
    names(&mut text, "  ", Topic::Rows, &[]);
    names(&mut text, "  ", Topic::ForeignFiles, &[]);
    text.truncate(text.trim_end().len());
    text.push_str(": files of Cassandra and ScyllaDB\n");
    text.push_str("Policies:\n");
    forms(&mut text, Topic::EvictionPolicies);
    names(&mut text, "  ", Topic::ShownPolicies, &[]);
    forms(&mut text, Topic::OtherPolicies);
    names(&mut text, "  ", Topic::Traces, &["SELECT * FROM replay_policy('lru', 'f')"]);
    names(&mut text, "Service levels: ", Topic::Levels, &["SELECT … USING SERVICE LEVEL x"]);
    names(&mut text, "Roles: ", Topic::Roles, &[]);
    names(&mut text, "Engine: ", Topic::Engine, &["SELECT * FROM system.metrics"]);
    text
}

/// Adds the names of a topic, and more of them, as lines that fit.
fn names(text: &mut String, begin: &str, topic: Topic, more: &[&str]) {
    let own = STATEMENTS.iter().flat_map(|row| row.help).filter_map(|help| match help {
        Help::Name(found, name) if *found == topic => Some(*name),
        _ => None,
    });
    let mut line = begin.to_owned();
    for (n, name) in own.chain(more.iter().copied()).enumerate() {
        if n > 0 && line.len() + ", ".len() + name.len() > COLUMNS_MAX {
            text.push_str(&line);
            text.push_str(",\n");
            line = "  ".to_owned();
        } else if n > 0 {
            line.push_str(", ");
        }
        line.push_str(name);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Adds the forms of a topic, each with what it does.
fn forms(text: &mut String, topic: Topic) {
    for help in STATEMENTS.iter().flat_map(|row| row.help) {
        if let Help::Form(found, form, does) = help
            && *found == topic
        {
            text.push_str(&format!("  {form:<43}  {does}\n"));
        }
    }
}

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
        let help = help();
        assert!(help.lines().all(|line| line.len() < 80), "{help}");
    }

    #[test]
    fn every_name_is_known() {
        for name in NAMES {
            let error = parse(name).err().unwrap_or_default();
            assert!(!error.contains("no command"), "{name}");
        }
    }

    #[test]
    fn every_setting_of_a_command_is_taken_in_any_letter_case() {
        for (line, command) in [
            (".mode table", Command::Mode(Mode::Table)),
            (".mode Expanded;", Command::Mode(Mode::Expanded)),
            (".mode CSV", Command::Mode(Mode::Csv)),
            ("  .mode\tjson  ", Command::Mode(Mode::Json)),
            (".rows screen", Command::Rows(RowLimit::Screen)),
            (".rows ALL", Command::Rows(RowLimit::All)),
            (".rows 1", Command::Rows(RowLimit::First(1))),
            (".rows 18446744073709551615", Command::Rows(RowLimit::First(u64::MAX))),
            (".timing ON", Command::Timing(true)),
            (".timing Off;", Command::Timing(false)),
            ("\\h", Command::Help),
            (".help", Command::Help),
            (".exit", Command::Quit),
            ("Clear", Command::Clear),
            (".clear", Command::Clear),
            ("\\dt", Command::Sql("SHOW TABLES".into())),
            (".schema", Command::Sql("SHOW TABLES".into())),
            ("\\d \"Odd name\"", Command::Sql("DESCRIBE \"Odd name\"".into())),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
        let beyond = "18446744073709551616";
        for wrong in ["-1", "0", "1.5", "", "some", beyond] {
            let told = parse(&format!(".rows {wrong}")).unwrap_err();
            assert!(told.starts_with("error: write .rows screen"), "{wrong}: {told}");
        }
        // Each way to write results has one name, and people read two of them.
        for (mode, is_for_people) in
            [(Mode::Table, true), (Mode::Expanded, true), (Mode::Csv, false), (Mode::Json, false)]
        {
            assert_eq!(mode.to_string().parse::<Mode>(), Ok(mode));
            assert_eq!(mode.is_for_people(), is_for_people, "{mode}");
        }
    }
}

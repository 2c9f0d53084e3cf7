//! Files of others: libCacheSim's oracleGeneral, plain numbers, text; each also under zstd.
//!
//! ```text
//! *.trace or its first bytes    our own, see `format.rs`
//! *.oracleGeneral[.bin]         24 bytes a request: seconds u32 | id u64 | size u32 | next use i64
//! *.u32                         ids of four bytes
//! anything else                 text: id[,size] a line; # begins a comment
//! ```
//! All numbers little endian; `.zst` after any of these. Ids of text may be words. What is wrong is
//! named by file and line or offset.

use std::path::Path;

use super::format::{is_recorded, read_recorded};
use super::request::{Request, Trace, TraceBuilder};
use crate::config::TRACE_FILE_BYTES_MAX;
use crate::error::{Error, Result};

/// First bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const ORACLE_BYTES: usize = 24;

/// How a file of requests is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    Recorded,
    OracleGeneral,
    U32,
    Text,
}

impl std::str::FromStr for TraceFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "recorded" | "trace" => Ok(TraceFormat::Recorded),
            "oraclegeneral" => Ok(TraceFormat::OracleGeneral),
            "u32" => Ok(TraceFormat::U32),
            "text" | "txt" | "csv" => Ok(TraceFormat::Text),
            _ => Err(Error::invalid(format!(
                "'{text}' is no format of traces: recorded, oracleGeneral, u32 or text"
            ))),
        }
    }
}

/// Reads a trace from the bytes of a file. Without `format`, the first bytes and the name decide.
///
/// Errors: `Corrupt` naming the offset, `Invalid` naming the line, `Unavailable` for a newer
/// version.
pub fn read_trace(path: &Path, file: &[u8], format: Option<TraceFormat>) -> Result<Trace> {
    if file.starts_with(&ZSTD_MAGIC) {
        return read_trace(&path.with_extension(""), &unpacked(path, file)?, format);
    }
    match format.unwrap_or_else(|| guess(path, file)) {
        TraceFormat::Recorded => read_recorded(path, file),
        TraceFormat::OracleGeneral => read_oracle_general(path, file),
        TraceFormat::U32 => read_u32(path, file),
        TraceFormat::Text => read_text(path, file),
    }
}

fn unpacked(path: &Path, file: &[u8]) -> Result<Vec<u8>> {
    use std::io::Read;
    let wrong = |error: std::io::Error| Error::corrupt(path, 0, "a zstd stream", error);
    let mut content = Vec::new();
    let stream = zstd::stream::read::Decoder::with_buffer(file).map_err(wrong)?;
    let most = TRACE_FILE_BYTES_MAX;
    stream.take(most + 1).read_to_end(&mut content).map_err(wrong)?;
    if content.len() as u64 > most {
        return Err(Error::invalid(format!("{}: more than {most} bytes unpacked", path.display())));
    }
    Ok(content)
}

fn guess(path: &Path, file: &[u8]) -> TraceFormat {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().to_lowercase());
    let ends = |end: &str| Path::new(&name).extension().is_some_and(|extension| extension == end);
    if is_recorded(file) || ends("trace") {
        TraceFormat::Recorded
    } else if name.contains("oraclegeneral") {
        TraceFormat::OracleGeneral
    } else if ends("u32") {
        TraceFormat::U32
    } else {
        TraceFormat::Text
    }
}

/// Whole records only.
fn check_whole(path: &Path, file: &[u8], record: usize) -> Result<()> {
    let torn = file.len() % record;
    if torn == 0 {
        return Ok(());
    }
    let at = (file.len() - torn) as u64;
    let wanted = format!("a request of {record} bytes");
    Err(Error::corrupt(path, at, wanted, format!("{torn} bytes and the end of the file")))
}

fn read_oracle_general(path: &Path, file: &[u8]) -> Result<Trace> {
    check_whole(path, file, ORACLE_BYTES)?;
    let mut builder = TraceBuilder::default();
    let mut start = None;
    for record in file.as_chunks::<ORACLE_BYTES>().0 {
        let number = |at: usize| {
            u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let seconds = number(0);
        let start = *start.get_or_insert(seconds);
        builder.push(Request {
            id: u64::from(number(4)) | u64::from(number(8)) << 32,
            size_bytes: number(12),
            kind: 0,
            is_hit: false,
            time_us: u64::from(seconds.saturating_sub(start)) * 1_000_000,
        })?;
    }
    Ok(builder.finish())
}

fn read_u32(path: &Path, file: &[u8]) -> Result<Trace> {
    check_whole(path, file, 4)?;
    let mut builder = TraceBuilder::default();
    for id in file.as_chunks::<4>().0 {
        let id = u64::from(u32::from_le_bytes(*id));
        builder.push(Request { id, size_bytes: 1, kind: 0, is_hit: false, time_us: 0 })?;
    }
    Ok(builder.finish())
}

fn read_text(path: &Path, file: &[u8]) -> Result<Trace> {
    let mut builder = TraceBuilder::default();
    for (number, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let wrong =
            |what: &str| Error::invalid(format!("{}, line {}: {what}", path.display(), number + 1));
        let line = std::str::from_utf8(line).map_err(|_| {
            wrong("this is no text; name the format: recorded, oracleGeneral, u32 or text")
        })?;
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (id, size) = line.split_once([',', ' ', '\t']).unwrap_or((line, "1"));
        let size = size.trim();
        let size_bytes = size
            .parse()
            .map_err(|_| wrong(&format!("'{size}' is no size in bytes; lines are id[,size]")))?;
        let id = id.trim();
        let id = id.parse().unwrap_or_else(|_| hash_of(id));
        builder.push(Request { id, size_bytes, kind: 0, is_hit: false, time_us: 0 })?;
    }
    Ok(builder.finish())
}

/// FNV-1a: an id for a word. The highest bit keeps it apart from small numbers.
fn hash_of(word: &str) -> u64 {
    let basis = 0xCBF2_9CE4_8422_2325_u64;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    word.as_bytes().iter().fold(basis, step) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::super::Read;
    use super::*;

    fn read(name: &str, file: &[u8]) -> Result<Trace> {
        read_trace(Path::new(name), file, None)
    }

    fn entries(trace: &Trace) -> Vec<(u64, u32)> {
        trace.reads().iter().map(|read| (trace.id(read.entry), read.size_bytes)).collect()
    }

    #[test]
    fn text_has_ids_and_sizes() {
        let trace =
            read("t.txt", b"# reads\n7\n8,100\n\n7 20 # again\nkey/a,5\nkey/a\t5\n").unwrap();
        let found = entries(&trace);
        assert_eq!(found[..3], [(7, 1), (8, 100), (7, 20)]);
        assert_eq!(found[3], found[4]);
        assert_eq!((trace.entry_count(), trace.footprint_bytes()), (3, 125));
        let wrong = read("t.txt", b"7\n8,many\n").unwrap_err().to_string();
        assert!(wrong.contains("t.txt, line 2: 'many' is no size"), "{wrong}");
        let binary = read("t.bin", &[0xFF, 0xFE, b'\n']).unwrap_err().to_string();
        assert!(binary.contains("name the format"), "{binary}");
    }

    #[test]
    fn oracle_general_is_what_lib_cache_sim_writes() {
        let mut file = Vec::new();
        for (seconds, id, size) in [(100_u32, 1_u64 << 40, 512_u32), (103, 5, 4096)] {
            file.extend_from_slice(&seconds.to_le_bytes());
            file.extend_from_slice(&id.to_le_bytes());
            file.extend_from_slice(&size.to_le_bytes());
            file.extend_from_slice(&(-1_i64).to_le_bytes());
        }
        let trace = read("w.oracleGeneral.bin", &file).unwrap();
        assert_eq!(entries(&trace), [(1 << 40, 512), (5, 4096)]);
        let last = Read { entry: 1, size_bytes: 4096, time_ms: 3000, kind: 0 };
        assert_eq!(trace.reads()[1], last);
        let torn = read("w.oracleGeneral", &file[..30]).unwrap_err().to_string();
        assert!(torn.contains("offset 24"), "{torn}");
    }

    #[test]
    fn plain_numbers_come_packed_too() {
        let ids: Vec<u8> = [9_u32, 10, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
        let plain = read("a.u32", &ids).unwrap();
        assert_eq!(entries(&plain), [(9, 1), (10, 1), (9, 1)]);
        let packed = zstd::bulk::compress(&ids, 1).unwrap();
        assert_eq!(read("a.u32.zst", &packed).unwrap(), plain);
        let named = read_trace(Path::new("any"), &packed, Some(TraceFormat::U32)).unwrap();
        assert_eq!(named, plain);
        assert!(matches!(read("a.u32.zst", &packed[..packed.len() - 1]), Err(Error::Corrupt(_))));
        assert!("xml".parse::<TraceFormat>().is_err());
    }

    #[test]
    fn a_format_is_named_in_any_letter_case_or_told_by_the_name_of_the_file() {
        for (names, format) in [
            (&["recorded", "TRACE"][..], TraceFormat::Recorded),
            (&["oracleGeneral", "ORACLEGENERAL"], TraceFormat::OracleGeneral),
            (&["u32", "U32"], TraceFormat::U32),
            (&["text", "Txt", "csv"], TraceFormat::Text),
        ] {
            assert!(names.iter().all(|name| name.parse().ok() == Some(format)), "{names:?}");
        }
        for (name, file, format) in [
            ("a.trace", &b"x"[..], TraceFormat::Recorded),
            ("a.TRACE", b"x", TraceFormat::Recorded),
            ("a.txt", b"TGTRACE\n", TraceFormat::Recorded),
            ("w.oracleGeneral", b"x", TraceFormat::OracleGeneral),
            ("w.oraclegeneral.bin", b"x", TraceFormat::OracleGeneral),
            ("ids.u32", b"x", TraceFormat::U32),
            ("u32", b"x", TraceFormat::Text),
            ("trace", b"x", TraceFormat::Text),
            ("folder.u32/ids", b"x", TraceFormat::Text),
        ] {
            assert_eq!(guess(Path::new(name), file), format, "{name}");
        }
    }

    #[test]
    fn words_have_ids_of_their_own_and_no_number_has_one_of_them() {
        let keys = (0..1000).map(|number| format!("key/{number}"));
        let others = ["a", "b", "ab", "ba", "-1", "1.5", "18446744073709551616"];
        let words: Vec<String> = keys.chain(others.map(str::to_owned)).collect();
        let trace = read("t", words.join("\n").as_bytes()).unwrap();
        assert_eq!(trace.entry_count() as usize, words.len());
        assert!((0..trace.entry_count()).all(|entry| trace.id(entry) >= 1_u64 << 63));
        let numbers = read("t", b"0\n9223372036854775807\n18446744073709551615").unwrap();
        assert_eq!(entries(&numbers), [(0, 1), (u64::MAX >> 1, 1), (u64::MAX, 1)]);
    }

    #[test]
    fn a_line_of_text_has_an_id_and_a_size_and_what_is_neither_is_named() {
        for (line, wanted) in [
            ("7,5\r", (7, 5)),
            ("  7\t", (7, 1)),
            ("7, 5 ", (7, 5)),
            ("7 5", (7, 5)),
            ("7,0", (7, 1)),
            ("7,4294967295", (7, u32::MAX)),
            ("7,5# 9", (7, 5)),
        ] {
            let trace = read("t", format!("# head\n{line}\n9").as_bytes()).unwrap();
            assert_eq!(entries(&trace), [wanted, (9, 1)], "{line}");
        }
        for (line, size) in [
            ("7,", ""),
            ("7,-1", "-1"),
            ("7,4294967296", "4294967296"),
            ("7,5,6", "5,6"),
            ("7 5 6", "5 6"),
        ] {
            let told = read("t", format!("8\n\n{line}\n").as_bytes()).unwrap_err().to_string();
            assert!(told.contains(&format!("t, line 3: '{size}' is no size")), "{told}");
        }
        assert!(read("t", b"").unwrap().reads().is_empty());
    }

    #[test]
    fn a_format_that_is_named_counts_and_not_the_name_of_the_file() {
        let read_as = |name: &str, file: &[u8], format| {
            read_trace(Path::new(name), file, Some(format)).map(|trace| entries(&trace))
        };
        assert_eq!(read_as("a.u32", b"12\n3\n", TraceFormat::Text).unwrap(), [(12, 1), (3, 1)]);
        assert_eq!(read_as("a.txt", b"1\0\0\0", TraceFormat::U32).unwrap(), [(0x31, 1)]);
        let oracle = [0_u8; ORACLE_BYTES];
        let found = read_as("a.trace", &oracle, TraceFormat::OracleGeneral);
        assert_eq!(found.unwrap(), [(0, 1)]);
        let told = read_as("a.txt", b"7\n", TraceFormat::Recorded).unwrap_err();
        assert!(matches!(told, Error::Corrupt(_)), "{told}");
    }
}

//! What a policy learnt, handed to its successor or kept over a restart.
//!
//! ```text
//! "tidegate-policy-state 1 <crc32 of the rest>\n"
//! u16 length of name | name | u16 length of version | version | u32 schema | state
//! ```
//! Invariant: what is read back is what was written, or an error that says what is wrong; nothing
//! but [`PolicySnapshot::fits`] decides who may have it. Not here: files (`database/`).

use crate::checksum::crc32;
use crate::config::POLICY_STATE_BYTES_MAX;

const MAGIC: &str = "tidegate-policy-state";
const FORMAT_VERSION: u32 = 1;
/// The largest file: state, two names and what is around them.
pub const SNAPSHOT_FILE_BYTES_MAX: usize = POLICY_STATE_BYTES_MAX + (4 << 10);

/// State of one instance of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySnapshot {
    /// Name and version by which the policy calls itself.
    pub policy: String,
    pub version: String,
    /// The policy's number for the format of `state`.
    pub schema: u32,
    /// At most [`POLICY_STATE_BYTES_MAX`].
    pub state: Vec<u8>,
}

impl PolicySnapshot {
    /// Whether a policy of this name and schema may have it. Schemas are numbers that each policy
    /// gives its own, so the name belongs to it.
    pub fn fits(&self, policy: &str, schema: u32) -> bool {
        schema != 0 && self.schema == schema && self.policy == policy
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.state.len() + 256);
        for text in [&self.policy, &self.version] {
            let length = u16::try_from(text.len()).expect("a label has at most 64 bytes");
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        body.extend_from_slice(&self.schema.to_be_bytes());
        body.extend_from_slice(&self.state);
        let mut file = format!("{MAGIC} {FORMAT_VERSION} {:08x}\n", crc32(&body)).into_bytes();
        file.extend_from_slice(&body);
        file
    }

    /// Reads a file.
    ///
    /// Errors: what is wrong with it, in words.
    pub fn decode(file: &[u8]) -> Result<PolicySnapshot, String> {
        if file.len() > SNAPSHOT_FILE_BYTES_MAX {
            let most = SNAPSHOT_FILE_BYTES_MAX;
            return Err(format!("{} bytes, the most is {most}", file.len()));
        }
        let end = file.iter().position(|byte| *byte == b'\n').ok_or("there is no first line")?;
        let line = std::str::from_utf8(&file[..end]).map_err(|_| "the first line is no text")?;
        let mut words = line.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(format!("it does not begin with '{MAGIC}'"));
        }
        let version = words.next().unwrap_or_default();
        if version.parse() != Ok(FORMAT_VERSION) {
            return Err(format!("format '{version}', this build reads {FORMAT_VERSION}"));
        }
        let body = &file[end + 1..];
        let wanted = words.next().unwrap_or_default();
        let found = format!("{:08x}", crc32(body));
        if wanted != found {
            return Err(format!("crc '{wanted}' wanted, {found} found"));
        }
        let mut rest = body;
        let mut take = |length: usize| -> Result<&[u8], String> {
            let (taken, left) = rest.split_at_checked(length).ok_or("it is cut short")?;
            rest = left;
            Ok(taken)
        };
        let mut text = || -> Result<String, String> {
            let length = take(2)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            String::from_utf8(take(length)?.to_vec()).map_err(|_| "a name is no text".into())
        };
        let (policy, version) = (text()?, text()?);
        let schema = take(4)?;
        let schema = u32::from_be_bytes([schema[0], schema[1], schema[2], schema[3]]);
        Ok(PolicySnapshot { policy, version, schema, state: rest.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    fn snapshot() -> PolicySnapshot {
        let state = (0..500_u32).map(|at| at as u8).collect();
        PolicySnapshot { policy: "w-tinylfu".into(), version: "0.1.0".into(), schema: 7, state }
    }

    #[test]
    fn it_is_read_back_as_written_and_fits_its_own_kind_only() {
        let snapshot = snapshot();
        assert_eq!(PolicySnapshot::decode(&snapshot.encode()), Ok(snapshot.clone()));
        assert!(snapshot.fits("w-tinylfu", 7));
        assert!(!snapshot.fits("arc", 7) && !snapshot.fits("w-tinylfu", 8));
        assert!(!PolicySnapshot { schema: 0, ..snapshot }.fits("w-tinylfu", 0));
    }

    #[test]
    fn damage_is_told_and_never_taken_for_state() {
        let file = snapshot().encode();
        let mut random = Random::new(4);
        for _ in 0..2000 {
            let mut damaged = file.clone();
            match random.below(3) {
                0 => damaged.truncate(random.below(file.len() as u64) as usize),
                1 => damaged.push(random.next_u64() as u8),
                _ => damaged[random.below(file.len() as u64) as usize] ^= 1 << random.below(8),
            }
            assert!(PolicySnapshot::decode(&damaged).is_err());
        }
        let newer = String::from_utf8_lossy(&file[..30]).replace("state 1", "state 2");
        let error = PolicySnapshot::decode(format!("{newer}\n").as_bytes()).unwrap_err();
        assert!(error.contains("format '2'"), "{error}");
        let huge = PolicySnapshot::decode(&vec![0; SNAPSHOT_FILE_BYTES_MAX + 1]).unwrap_err();
        assert!(huge.contains("the most is"), "{huge}");
    }

    /// A file of this content under its own checksum.
    fn sealed(body: &[u8]) -> Vec<u8> {
        let head = format!("{MAGIC} {FORMAT_VERSION} {:08x}\n", crc32(body));
        [head.as_bytes(), body].concat()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_in_words() {
        let whole = snapshot();
        let file = whole.encode();
        let head = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let body = &file[head..];
        assert_eq!(sealed(body), file);
        // Two names with their lengths, and the schema.
        let needed = 2 + whole.policy.len() + 2 + whole.version.len() + 4;
        for length in 0..=needed + 1 {
            let read = PolicySnapshot::decode(&sealed(&body[..length]));
            let wanted = match length.checked_sub(needed) {
                None => Err("it is cut short".to_owned()),
                Some(rest) => {
                    Ok(PolicySnapshot { state: whole.state[..rest].to_vec(), ..snapshot() })
                }
            };
            assert_eq!(read, wanted, "{length} bytes");
        }
        for (file, wanted) in [
            (b"tidegate-policy-state 1 00000000".to_vec(), "there is no first line"),
            (b"\xFF\n".to_vec(), "the first line is no text"),
            (b"\n".to_vec(), "it does not begin with 'tidegate-policy-state'"),
            (b"tidegate-policy-stat 1 0\n".to_vec(), "it does not begin"),
            (b"tidegate-policy-state\n".to_vec(), "format ''"),
            (b"tidegate-policy-state 11 0\n".to_vec(), "format '11', this build reads 1"),
            (b"tidegate-policy-state 1\n".to_vec(), "crc '' wanted, 00000000 found"),
            (sealed(b"\0\x01\xFF\0\0\0\0\0\0"), "a name is no text"),
        ] {
            let told = PolicySnapshot::decode(&file).unwrap_err();
            assert!(told.contains(wanted), "{told} for {wanted}");
        }
    }

    #[test]
    fn the_largest_file_is_read_and_a_byte_more_is_not() {
        let named = |bytes: usize| PolicySnapshot { state: vec![7; bytes], ..snapshot() };
        let around = named(0).encode().len();
        let largest = named(SNAPSHOT_FILE_BYTES_MAX - around);
        assert!(largest.state.len() >= POLICY_STATE_BYTES_MAX);
        assert_eq!(PolicySnapshot::decode(&largest.encode()), Ok(largest));
        let more = named(SNAPSHOT_FILE_BYTES_MAX - around + 1).encode();
        assert!(PolicySnapshot::decode(&more).unwrap_err().contains("the most is"));
    }
}

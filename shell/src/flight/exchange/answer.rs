//! What an answer of an exchange says beside its rows: the `app_metadata` of a message.
//!
//! | first byte | then | the message holds |
//! |---|---|---|
//! | 0 | the tag | rows; more of the same execution follow |
//! | 1 | the tag | rows, perhaps none; the execution is done |
//! | 2 | gRPC code (1 byte), length of the tag (2 bytes, little-endian), tag, text in UTF-8 | nothing else; the execution failed |

use prost::bytes::Bytes;
use tonic::{Code, Status};

use super::super::error::invalid;

/// Longest tag of an execution.
pub(super) const TAG_BYTES_MAX: usize = 1024;

const MORE: u8 = 0;
const LAST: u8 = 1;
const REFUSED: u8 = 2;

/// See the head of this file. The tag is what the client sent with the parameters.
#[derive(Debug)]
pub(super) enum Answer {
    /// Rows of an execution of which more follow.
    More(Bytes),
    /// The last rows of an execution.
    Last(Bytes),
    /// An execution failed; the exchange goes on.
    Refused(Bytes, Status),
}

impl Answer {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        match self {
            Answer::More(tag) | Answer::Last(tag) => {
                bytes.reserve_exact(1 + tag.len());
                bytes.push(if matches!(self, Answer::More(_)) { MORE } else { LAST });
                bytes.extend_from_slice(tag);
            }
            Answer::Refused(tag, status) => {
                let length = u16::try_from(tag.len()).expect("tags are checked as they come");
                bytes.extend_from_slice(&[REFUSED, status.code() as u8]);
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(tag);
                bytes.extend_from_slice(status.message().as_bytes());
            }
        }
        bytes.into()
    }

    /// Errors: INTERNAL for bytes that no service of ours sends.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, Status> {
        let unknown = || Status::internal("the answer has app_metadata that no exchange sends");
        match *bytes.first().ok_or_else(unknown)? {
            MORE => Ok(Answer::More(bytes.slice(1..))),
            LAST => Ok(Answer::Last(bytes.slice(1..))),
            REFUSED => {
                let &[code, low, high] =
                    bytes.get(1..4).and_then(|head| head.first_chunk()).ok_or_else(unknown)?;
                let end = 4 + usize::from(u16::from_le_bytes([low, high]));
                let text = bytes.get(end..).ok_or_else(unknown)?;
                let status =
                    Status::new(Code::from(i32::from(code)), String::from_utf8_lossy(text));
                Ok(Answer::Refused(bytes.slice(4..end), status))
            }
            _ => Err(unknown()),
        }
    }
}

/// Errors: INVALID_ARGUMENT for a tag that is too long.
pub(super) fn check_tag(tag: &Bytes) -> Result<(), Status> {
    match tag.len() {
        0..=TAG_BYTES_MAX => Ok(()),
        length => Err(invalid(format!(
            "the app_metadata of parameters has {length} bytes, at most {TAG_BYTES_MAX} are possible"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_back_as_it_was_sent() {
        let tag = Bytes::from_static(b"\x01t");
        let refused = Answer::Refused(tag.clone(), Status::resource_exhausted("full: später"));
        for (answer, wanted) in [
            (Answer::More(tag.clone()), "More(b\"\\x01t\")"),
            (Answer::Last(Bytes::new()), "Last(b\"\")"),
            (Answer::Last(tag.clone()), "Last(b\"\\x01t\")"),
        ] {
            assert_eq!(format!("{:?}", Answer::decode(&answer.encode()).unwrap()), wanted);
        }
        let Answer::Refused(again, status) = Answer::decode(&refused.encode()).unwrap() else {
            panic!("a refusal is one");
        };
        assert_eq!((again, status.code()), (tag, Code::ResourceExhausted));
        assert_eq!(status.message(), "full: später");
    }

    #[test]
    fn what_nobody_sends_is_no_answer() {
        for bytes in [&b""[..], b"\x03", b"\x02", b"\x02\x08\x05\x00abc"] {
            assert!(Answer::decode(&Bytes::from_static(bytes)).is_err(), "{bytes:?}");
        }
        assert!(check_tag(&Bytes::from(vec![0; TAG_BYTES_MAX])).is_ok());
        assert!(check_tag(&Bytes::from(vec![0; TAG_BYTES_MAX + 1])).is_err());
    }
}

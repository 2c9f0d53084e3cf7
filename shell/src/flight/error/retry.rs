//! Refusals: what a client is told of when to come again.
//!
//! ```text
//! grpc-status-details-bin := google.rpc.Status { code 1, message 2, details 3 }
//! details                 := Any of google.rpc.RetryInfo { retry_delay 1 }
//! ```
//!
//! Under overload most answers are refusals. So what does not depend on the request is encoded once
//! for each delay, and stands behind the code and the text: a message that is put together of its
//! parts is the same message.

use std::sync::LazyLock;
use std::time::Duration;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

/// Name of the type of what is told.
const TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Delays that are encoded beforehand: those of the kinds of refusals.
const KNOWN: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(10),
];
/// Longest text that is sent a second time within the details, bytes.
const TEXT_BYTES_MAX: usize = 2 << 10;

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// There is too much of something: the same request may succeed after that time.
pub(in crate::flight) fn refusal(message: impl Into<String>, after: Duration) -> Status {
    static PREPARED: LazyLock<[Vec<u8>; KNOWN.len()]> = LazyLock::new(|| KNOWN.map(encoded));
    let (code, message) = (Code::ResourceExhausted, message.into());
    let text = if message.len() > TEXT_BYTES_MAX { String::new() } else { message.clone() };
    let status = RpcStatus { code: code as i32, message: text, details: Vec::new() };
    let mut details = status.encode_to_vec();
    match KNOWN.iter().position(|known| *known == after) {
        Some(known) => details.extend_from_slice(&PREPARED[known]),
        None => details.extend_from_slice(&encoded(after)),
    }
    Status::with_details(code, message, details.into())
}

/// The details of a delay.
fn encoded(after: Duration) -> Vec<u8> {
    // None is as long as the type can say.
    let retry_delay = prost_types::Duration::try_from(after).ok();
    let value = RetryInfo { retry_delay }.encode_to_vec();
    let details = vec![Any { type_url: TYPE.to_owned(), value }];
    RpcStatus { details, ..RpcStatus::default() }.encode_to_vec()
}

#[cfg(test)]
pub(in crate::flight) mod tests {
    use super::*;

    /// When a client is told to come again.
    pub(in crate::flight) fn retry_delay(status: &Status) -> Option<Duration> {
        let details = RpcStatus::decode(status.details()).unwrap();
        let info = details.details.iter().find(|details| details.type_url == TYPE)?;
        let info = RetryInfo::decode(&*info.value).unwrap();
        info.retry_delay.map(|delay| delay.try_into().unwrap())
    }

    #[test]
    fn a_refusal_says_when_to_come_again() {
        for after in KNOWN.into_iter().chain([Duration::ZERO, Duration::from_millis(1500)]) {
            let refused = refusal("full: später", after);
            let details = RpcStatus::decode(refused.details()).unwrap();
            assert_eq!(details.code, Code::ResourceExhausted as i32);
            assert_eq!(details.message, "full: später");
            assert_eq!(details.details.len(), 1);
            assert_eq!(retry_delay(&refused), Some(after));
            assert_eq!(refused.message(), "full: später");
        }
        let long = refusal("x".repeat(TEXT_BYTES_MAX + 1), KNOWN[0]);
        assert!(long.details().len() < 100, "a header holds it: {}", long.details().len());
        assert_eq!(retry_delay(&long), Some(KNOWN[0]));
        let whole = "x".repeat(TEXT_BYTES_MAX);
        let details = RpcStatus::decode(refusal(whole.clone(), KNOWN[0]).details()).unwrap();
        assert_eq!(details.message, whole, "as long as is possible");
    }

    /// The bytes that other implementations of the messages write.
    #[test]
    fn the_bytes_are_those_of_google_rpc_status() {
        let mut wanted = vec![0x08, 8, 0x12, 4];
        wanted.extend_from_slice(b"full");
        let inner = [&[0x0a, TYPE.len() as u8][..], TYPE.as_bytes(), &[0x12, 4, 0x0a, 2, 8, 1]];
        let inner = inner.concat();
        wanted.extend_from_slice(&[0x1a, inner.len() as u8]);
        wanted.extend_from_slice(&inner);
        assert_eq!(refusal("full", Duration::from_secs(1)).details(), wanted);
    }
}

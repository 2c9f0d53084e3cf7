//! The trace of another system that a statement belongs to, as the header `traceparent` of W3C's
//! Trace Context says it.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version | trace id | parent id | flags: hex digits in lower case, no id of zeros alone
//! ```
//! While a call is at work its place is that of the thread, and a span of the log has the trace id.
//! So each line that the call's own threads write has it; those of shards have none.

use std::cell::RefCell;
use std::sync::Arc;

use tracing::Span;
use tracing::span::Entered;

thread_local! {
    /// That of the call which is at work.
    static CURRENT: RefCell<Option<TraceParent>> = const { RefCell::new(None) };
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct TraceParent {
    trace_id: Arc<str>,
    span: Span,
}

impl TraceParent {
    /// That of a header; `None` for one that is malformed, which is as good as none.
    pub fn of_header(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version, trace_id, parent_id, flags] = std::array::from_fn(|_| parts.next());
        let is_whole = parts.next().is_none()
            && version == Some("00")
            && is_id(parent_id?, 16)
            && is_hex(flags?, 2);
        let trace_id = trace_id.filter(|id| is_whole && is_id(id, 32))?;
        // Of the highest level: where any line of the log is wanted, so is this.
        let span = tracing::error_span!("call", %trace_id);
        Some(TraceParent { trace_id: trace_id.into(), span })
    }

    /// That of the call which this thread works for.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(super) fn trace_id(&self) -> &Arc<str> {
        &self.trace_id
    }

    /// Does work of a call that has this place, if it has one.
    pub fn within<T>(own: Option<&Self>, work: impl FnOnce() -> T) -> T {
        let _within = own.map(Within::new);
        work()
    }
}

/// Ends with the work, also where that panics.
struct Within<'a> {
    before: Option<TraceParent>,
    _lines: Entered<'a>,
}

impl<'a> Within<'a> {
    fn new(own: &'a TraceParent) -> Self {
        let before = CURRENT.replace(Some(own.clone()));
        Within { before, _lines: own.span.enter() }
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn id(text: &str) -> Option<String> {
        TraceParent::of_header(text).map(|own| own.trace_id().to_string())
    }

    #[test]
    fn a_header_names_its_trace_and_a_malformed_one_none() {
        for flags in ["00", "01", "ff"] {
            let header = format!("00-{TRACE}-{PARENT}-{flags}");
            assert_eq!(id(&header).as_deref(), Some(TRACE), "{header}");
        }
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            "00".to_owned(),
            TRACE.to_owned(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{TRACE}-{PARENT}-001"),
            format!("00-{TRACE}-{PARENT}-0g"),
            format!("00-{TRACE}-{PARENT}-01-"),
            format!("00-{TRACE}-{PARENT}-01-x"),
            format!("01-{TRACE}-{PARENT}-01"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{PARENT}-01", &TRACE[1..]),
            format!("00-{TRACE}0-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", &PARENT[1..]),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{}é-{PARENT}-01", &TRACE[2..]),
            format!(" 00-{TRACE}-{PARENT}-01"),
            format!("00-{TRACE}-{PARENT}-01 "),
            format!("00_{TRACE}_{PARENT}_01"),
        ] {
            assert_eq!(id(&wrong), None, "'{wrong}'");
        }
    }

    #[test]
    fn work_has_the_place_of_its_own_call_alone() {
        let now = || TraceParent::current().map(|own| own.trace_id().to_string());
        let [outer, inner] = ["1", "2"].map(|digit| digit.repeat(32));
        let of = |id: &str| TraceParent::of_header(&format!("00-{id}-{PARENT}-01")).unwrap();
        TraceParent::within(Some(&of(&outer)), || {
            assert_eq!(now().as_ref(), Some(&outer));
            TraceParent::within(Some(&of(&inner)), || assert_eq!(now().as_ref(), Some(&inner)));
            TraceParent::within(None, || assert_eq!(now().as_ref(), Some(&outer)));
            let work = || TraceParent::within(Some(&of(&inner)), || panic!("it fails"));
            assert!(std::panic::catch_unwind(work).is_err());
            assert_eq!(now().as_ref(), Some(&outer));
        });
        assert_eq!(now(), None);
    }
}

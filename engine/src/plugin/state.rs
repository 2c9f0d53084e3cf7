//! What the host keeps beside one instance: limits of its memory, its log lines.

use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::ResourceLimiter;

use crate::config::POLICY_MEMORY_BYTES_MAX;

/// Tables of one instance: its functions, and those of the wrapping to reach the host.
pub(super) const TABLES_MAX: usize = 4;
/// Elements of one table.
pub(super) const TABLE_ELEMENTS_MAX: usize = 10_000;
/// Log lines that one call may write.
const LOG_LINES_MAX: u32 = 8;
/// Bytes kept of a log line and of a failure's message.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Bytes of memory of all instances of this process.
static MEMORY: AtomicUsize = AtomicUsize::new(0);

/// Bytes of memory that the instances of policies have, of this process.
pub fn instance_bytes() -> usize {
    MEMORY.load(Ordering::Relaxed)
}

/// Host side of one instance.
#[derive(Debug)]
pub struct State {
    /// For log lines.
    policy: String,
    shard: u32,
    /// The guest wanted more memory than it may have.
    pub memory_refused: bool,
    /// Bytes of its memory, and before it grew last.
    memory_bytes: usize,
    memory_bytes_before: usize,
    /// Last line logged as an error in this call: a panic's message.
    pub last_error: Option<String>,
    log_lines_left: u32,
    pub log_lines: u64,
    pub log_lines_dropped: u64,
}

impl State {
    pub fn new(policy: &str, shard: u32) -> Self {
        State {
            policy: policy.to_string(),
            shard,
            memory_refused: false,
            memory_bytes: 0,
            memory_bytes_before: 0,
            last_error: None,
            log_lines_left: LOG_LINES_MAX,
            log_lines: 0,
            log_lines_dropped: 0,
        }
    }

    fn count_memory(&mut self, bytes: usize) {
        self.memory_bytes_before = self.memory_bytes;
        MEMORY.fetch_add(bytes, Ordering::Relaxed);
        MEMORY.fetch_sub(self.memory_bytes, Ordering::Relaxed);
        self.memory_bytes = bytes;
    }

    /// Forgets what belongs to the call before.
    pub fn start_call(&mut self) {
        self.last_error = None;
        self.log_lines_left = LOG_LINES_MAX;
    }

    /// Writes a guest's line to the log. Error lines are kept even when there were too many, since
    /// the last one may be the reason of a trap.
    pub fn log(&mut self, level: u8, message: &str) {
        let message = printable(message);
        if level >= 4 {
            self.last_error = Some(message.clone());
        }
        if self.log_lines_left == 0 {
            self.log_lines_dropped += 1;
            return;
        }
        self.log_lines_left -= 1;
        self.log_lines += 1;
        let (policy, shard) = (&self.policy, self.shard);
        match level {
            0 => tracing::trace!(policy, shard, "{message}"),
            1 => tracing::debug!(policy, shard, "{message}"),
            2 => tracing::info!(policy, shard, "{message}"),
            3 => tracing::warn!(policy, shard, "{message}"),
            _ => tracing::error!(policy, shard, "{message}"),
        }
    }
}

/// Text from a guest, fit for a terminal: control characters replaced, at most 1 KiB.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        let shown = if character.is_control() { ' ' } else { character };
        if out.len() + shown.len_utf8() > MESSAGE_BYTES_MAX {
            break;
        }
        out.push(shown);
    }
    out
}

impl Drop for State {
    fn drop(&mut self) {
        self.count_memory(0);
    }
}

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired <= POLICY_MEMORY_BYTES_MAX {
            self.count_memory(desired);
            return Ok(true);
        }
        // A trap here tells more than the abort that a failed allocation would end in.
        self.memory_refused = true;
        Err(wasmtime::Error::msg(format!(
            "wanted {desired} bytes of memory, the most is {POLICY_MEMORY_BYTES_MAX}"
        )))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.count_memory(self.memory_bytes_before);
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_may_write_its_lines_and_the_last_error_is_kept() {
        let mut state = State::new("lru", 3);
        for call in 1..=2 {
            state.start_call();
            assert_eq!(state.last_error, None, "that was another call's");
            for line in 0..LOG_LINES_MAX {
                state.log(2, &format!("line {line}"));
            }
            assert_eq!(state.last_error, None, "nothing was an error");
            assert_eq!(state.log_lines, call * u64::from(LOG_LINES_MAX));
            state.log(3, "one too many");
            state.log(4, "it\nfailed");
            assert_eq!(state.last_error.as_deref(), Some("it failed"));
            let counts = (state.log_lines, state.log_lines_dropped);
            assert_eq!(counts, (call * u64::from(LOG_LINES_MAX), 2 * call));
        }
    }

    #[test]
    fn a_text_ends_at_its_most_bytes_and_at_a_character() {
        let most = "x".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(printable(&most), most);
        assert_eq!(printable(&format!("{most}y")), most);
        let wide = format!("{}ä", &most[1..]);
        assert_eq!(printable(&wide), most[1..], "half a character does not fit");
        assert_eq!(printable("a\u{7}\u{9b}b"), "a  b");
    }

    #[test]
    fn memory_and_tables_grow_to_their_most() {
        let mut state = State::new("lru", 0);
        assert!(state.memory_growing(0, POLICY_MEMORY_BYTES_MAX, None).unwrap());
        assert!(!state.memory_refused);
        assert!(instance_bytes() >= POLICY_MEMORY_BYTES_MAX, "it is counted while it is there");
        state.memory_grow_failed(wasmtime::Error::msg("there is none")).unwrap();
        assert_eq!(state.memory_bytes, 0);
        assert!(state.memory_growing(0, POLICY_MEMORY_BYTES_MAX + 1, None).is_err());
        assert!(state.memory_refused);
        assert!(state.table_growing(0, TABLE_ELEMENTS_MAX, None).unwrap());
        assert!(!state.table_growing(0, TABLE_ELEMENTS_MAX + 1, None).unwrap());
    }

    #[test]
    fn memory_goes_with_its_instance() {
        // More than all instances of other tests have.
        const BYTES: usize = 1 << 50;
        let mut state = State::new("lru", 0);
        state.count_memory(BYTES);
        assert!(instance_bytes() >= BYTES, "{}", instance_bytes());
        drop(state);
        assert!(instance_bytes() < BYTES, "{}", instance_bytes());
    }
}

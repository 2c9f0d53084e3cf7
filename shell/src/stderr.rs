//! What is told on stderr, as far as that takes it.
//!
//! The macros of the standard library panic when the disk behind stderr is full. A server must
//! outlive that, and the statement that was told of has run.

/// Writes to stderr, as `eprint!` does.
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        // There is nobody left to tell that nobody can be told.
        let _ = write!(std::io::stderr(), $($part)*);
    }};
}

/// Writes a line to stderr, as `eprintln!` does.
macro_rules! tell_line {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        // There is nobody left to tell that nobody can be told.
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

pub(crate) use {tell, tell_line};

//! SQL text as a person types it: tokens for colours and completion, statements for execution.
//!
//! Invariant: the pieces of a text are found without understanding SQL, so an editor can ask on
//! every key press. `width` says how wide text stands on a screen. Not here: parsing (`query`).

mod batch;
mod lexer;
mod near;
mod script;
mod secret;
pub mod width;

pub use batch::BatchWords;
pub use lexer::{Token, TokenKind, lex};
pub use near::nearest;
pub use script::{BARE_WORDS, Piece, complete_bytes, is_complete, split};
pub use secret::{masked, masked_in_place};

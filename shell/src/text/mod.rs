//! SQL text as a person types it: tokens for colours and completion, statements for execution.
//!
//! Invariant: the pieces of a text are found without understanding SQL, so an editor can ask on
//! every key press. Not here: parsing (`query`).

mod lexer;
mod script;

pub use lexer::{Token, TokenKind, lex};
pub use script::{Piece, complete_bytes, is_complete, split};

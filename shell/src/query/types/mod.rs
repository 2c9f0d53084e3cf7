//! Values by their types: literals, comparisons, arithmetic and functions that are exact.

pub mod arithmetic;
pub mod assign;
mod choice;
pub mod compare;
pub mod growing;
pub mod identifier;
pub mod identifier_shape;
pub mod identifier_within;
pub mod instant;
pub mod literal;
pub mod named_cast;
pub mod number;
pub mod rewrite;
pub mod time_uuid;

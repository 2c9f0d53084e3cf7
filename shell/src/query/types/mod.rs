//! Values by their types: literals, comparisons, arithmetic and functions that are exact.

pub mod arithmetic;
pub mod assign;
pub mod choice;
pub mod collection;
pub mod compare;
pub mod growing;
pub mod identifier;
pub mod instant;
pub mod literal;
pub mod named_cast;
pub mod narrow;
pub mod number;
pub mod rewrite;
pub mod seeking;
pub mod series;

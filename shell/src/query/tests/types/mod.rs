//! What values of each type give back.

mod collection;
mod decimal_key;
mod literal;
mod number;
mod time_uuid;

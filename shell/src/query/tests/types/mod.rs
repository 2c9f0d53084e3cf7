//! What values of each type give back.

mod border;
mod collection;
mod constant;
mod decimal_key;
mod far;
mod literal;
mod named_order;
mod named_within;
mod number;
mod time_uuid;

//! UUIDs and addresses, which are text in SQL: what they name, how they compare, and their order.

mod alone;
mod order;
mod shape;
pub mod time_uuid;
pub mod within;

pub use alone::{compare_all, of_plan};
pub use order::{Order, order_of, ordered_by, text_of, value_of_order};
pub use shape::Kind;

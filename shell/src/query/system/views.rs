//! The table `system.views`: what views there are, whose rights they have, and what they read.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::View;

use super::columns::{optional, text, texts};
use crate::query::engine::Engine;

pub fn fields() -> Vec<Field> {
    vec![text("keyspace_name"), text("view_name"), optional("owner", DataType::Utf8), text("query")]
}

pub fn columns(database: &Engine) -> Vec<ArrayRef> {
    let catalog = database.catalog();
    let all: Vec<&View> = catalog.all_views().collect();
    vec![
        texts(all.iter().map(|view| view.keyspace.as_str())),
        texts(all.iter().map(|view| view.name.as_str())),
        Arc::new(all.iter().map(|view| view.owner.as_deref()).collect::<StringArray>()),
        texts(all.iter().map(|view| view.query.as_str())),
    ]
}

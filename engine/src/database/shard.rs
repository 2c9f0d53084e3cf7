//! One shard: its tables and everything that they share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::mpsc;

use crate::batch::RecordBatch;
use crate::commitlog::ReplayPosition;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::runtime::ShardContext;
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;
use crate::table::{ReadCommand, Table};

/// See the head of this file.
pub struct Shard {
    context: Rc<ShardContext>,
    tables: RefCell<BTreeMap<TableId, Rc<Table>>>,
}

impl Shard {
    pub(super) async fn open(context: Rc<ShardContext>) -> Result<Rc<Shard>> {
        Ok(Rc::new(Shard { context, tables: RefCell::default() }))
    }

    /// The table with this id.
    ///
    /// Errors: `NotFound` when it was dropped.
    pub fn table(&self, id: TableId) -> Result<Rc<Table>> {
        self.tables
            .borrow()
            .get(&id)
            .cloned()
            .ok_or_else(|| Error::NotFound { kind: "table", name: id.hex() })
    }

    pub(super) fn tables(&self) -> Vec<Rc<Table>> {
        self.tables.borrow().values().cloned().collect()
    }

    pub(super) async fn add_table(&self, schema: SchemaRef) -> Result<()> {
        let table = Table::new(schema.clone());
        self.tables.borrow_mut().insert(schema.id, table);
        Ok(())
    }

    pub(super) async fn remove_table(&self, id: TableId) -> Result<()> {
        self.tables.borrow_mut().remove(&id);
        Ok(())
    }

    /// Applies a write; done when it is as durable as the options demand.
    pub async fn apply(self: &Rc<Self>, mutation: Mutation) -> Result<()> {
        let table = self.table(mutation.table)?;
        table.active().begin_write(ReplayPosition::default(), mutation).apply();
        Ok(())
    }

    /// Runs a read, see [`Table::stream`].
    pub async fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        batches: mpsc::Sender<Result<RecordBatch>>,
    ) {
        let now = i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX);
        match self.table(command.schema.id) {
            Ok(table) => table.stream(command, now, batches).await,
            Err(error) => {
                // The receiver may be gone already; then nobody wants the error.
                let _ = batches.send(Err(error)).await;
            }
        }
    }
}

//! EXPLAIN ANALYZE of a statement that runs without a plan. The read is run, and what it did is
//! told as DataFusion tells it of the operators of a plan.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, RecordOutput};
use futures::StreamExt;
use tidegate_engine::probe::{Detail, Watch};
use tidegate_engine::{Partitions, ReadCommand, Terms};

use super::Short;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::statement::Statement;
use crate::query::place::place;
use crate::query::scan::metrics::add;
use crate::query::scan::text::{ReadText, keys_text, ranges_text};
use crate::query::session::Session;
use crate::query::setting::has_short_path;

/// What is said of the path.
const PATH: &str = "short: one read, without a plan";

impl Session {
    /// Runs a query that EXPLAIN ANALYZE names, where no plan is made of it, and says what it did;
    /// `None` for any other statement, of which nothing is done.
    ///
    /// Errors: those of the read, with a place in the text.
    pub(in crate::query) async fn analyze_short(
        &self,
        statement: &Statement,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        if !statement.begins_with(&["explain", "analyze"]) {
            return Ok(None);
        }
        let Some(short) = self.short_analyzed(statement) else { return Ok(None) };
        let (past_cache, terms) = self.read_terms(self.terms);
        let Some(command) = short.command(values, past_cache) else { return Ok(None) };
        self.allow_short(&short)?;
        let Terms { deadline, level } = terms;
        let command = ReadCommand { deadline, level, ..command };
        let _turn = self.options.memory.turn().await?;
        let text = self.read_and_tell(command).await;
        let text = text.map_err(|error| place(statement, error))?;
        let schema = LogicalPlan::explain_schema();
        let texts = |texts: [&str; 2]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let columns = vec![texts(["Plan with Metrics", "path"]), texts([&text, PATH])];
        Ok(Some(Outcome::batches(Arc::clone(&schema), vec![batch(schema, columns)?])))
    }

    fn short_analyzed(&self, statement: &Statement) -> Option<Short> {
        if !has_short_path(self.context.state_ref().read().config_options()) {
            return None;
        }
        let tokens = statement.tokens().get(2..)?;
        Short::of(tokens, statement, &self.database.catalog(), &self.keyspace())
    }

    /// Reads to the end; what was read, and its metrics.
    async fn read_and_tell(&self, command: ReadCommand) -> Result<String> {
        let table = Arc::clone(&command.schema);
        let mut text = "TideRead: ".to_owned();
        let partitions = match &command.partitions {
            Partitions::Keys(keys) => keys_text(keys),
            Partitions::Shard(_) | Partitions::Owned { .. } | Partitions::Tokens { .. } => {
                unreachable!("the short path names its partition")
            }
        };
        let what = ReadText {
            table: &table,
            partitions,
            slices: ranges_text(&table, &command.slice.ranges),
            direction: command.slice.direction,
            limit: command.row_limit,
            partition_limit: command.partition_limit,
            joined: Vec::new(),
            past_cache: command.past_cache,
        };
        what.write(&mut text, ", ").expect("text takes what is written to it");
        let watch = Watch::new(Arc::clone(self.database.clock()), Detail::Counts);
        let probe = watch.read(Arc::clone(&table) as _);
        let of_read = ExecutionPlanMetricsSet::new();
        let baseline = BaselineMetrics::new(&of_read, 0);
        let mut batches = self.database.read_watched(command, probe);
        while let Some(batch) = batches.next().await {
            (&batch?).record_output(&baseline);
        }
        baseline.elapsed_compute().add_duration(Duration::from_nanos(watch.elapsed_ns()));
        baseline.done();
        let mut set = of_read.clone_inner();
        add(&mut set, &watch.stats(), |_| true);
        let set = set.aggregate_by_name().sorted_for_display().timestamps_removed();
        write!(text, ", metrics=[{set}]").expect("text takes what is written to it");
        Ok(text)
    }
}

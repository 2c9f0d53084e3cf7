//! What a scan counts: DataFusion's metrics of its streams, and the storage's counters of all of
//! them together.
//!
//! The storage counts where the statement is watched: then its session has a [`Watch`] among the
//! extensions of the configuration. The counters are asked for when they are shown. One that is not
//! shown is zero.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::Metric;
use datafusion::physical_plan::metrics::{
    self, ExecutionPlanMetricsSet, MetricValue, MetricsSet, Time,
};
use tidegate_engine::SchemaRef;
use tidegate_engine::probe::{Count, Probe, ReadStats, Watch};

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct ScanMetrics {
    of_streams: ExecutionPlanMetricsSet,
    probe: Arc<OnceLock<Probe>>,
}

impl ScanMetrics {
    /// Those that the streams count themselves.
    pub fn of_streams(&self) -> &ExecutionPlanMetricsSet {
        &self.of_streams
    }

    /// Who is told what the reads of the scan do; `None` where the statement is not watched.
    pub fn probe(&self, context: &TaskContext, table: &SchemaRef) -> Option<Probe> {
        let watch = context.session_config().get_extension::<Watch>()?;
        Some(self.probe.get_or_init(|| watch.read(Arc::clone(table) as _)).clone())
    }

    /// All of them.
    pub fn all(&self) -> MetricsSet {
        let mut set = self.of_streams.clone_inner();
        if let Some(probe) = self.probe.get() {
            // What came to the streams they have counted themselves.
            add(&mut set, &probe.stats(), |what| what != Count::Rows);
        }
        set
    }
}

/// Adds counters that are not zero to metrics.
pub fn add(set: &mut MetricsSet, stats: &ReadStats, is_wanted: impl Fn(Count) -> bool) {
    for (what, value) in stats.nonzero().filter(|(what, _)| is_wanted(*what)) {
        let name = Cow::Borrowed(what.name());
        let value = if what.is_time() {
            let time = Time::new();
            time.add_duration(Duration::from_nanos(value));
            MetricValue::Time { name, time }
        } else {
            let count = metrics::Count::new();
            count.add(usize::try_from(value).unwrap_or(usize::MAX));
            MetricValue::Count { name, count }
        };
        set.push(Arc::new(Metric::new(value, None)));
    }
}

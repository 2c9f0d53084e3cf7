//! A scan as a message between nodes: its table by name, what each stream reads, and what is
//! checked on the way out. What joins would tell it while they run stays behind: it leaves out
//! rows that have no partners, and the join leaves them out as well.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;
use tidegate_engine::mutation::{ClusteringRange, Direction};
use tidegate_engine::schema::{PartitionKey, Token};
use tidegate_engine::{ColumnId, NodeId};

use super::functions::Functions;
use crate::cluster::wire::{Conditions, Range, StampEntry, Table, column};
use crate::query::engine::Engine;
use crate::query::scan::pushdown::{Access, Part};
use crate::query::scan::{ScanParts, Selection, Source, TideScan};

#[derive(Clone, PartialEq, prost::Message)]
struct ScanMessage {
    #[prost(message, optional, tag = "1")]
    table: Option<Table>,
    #[prost(message, optional, tag = "2")]
    terms: Option<Conditions>,
    #[prost(message, repeated, tag = "3")]
    sources: Vec<SourceMessage>,
    #[prost(message, repeated, tag = "4")]
    ranges: Vec<Range>,
    #[prost(sint64, optional, tag = "5")]
    min: Option<i64>,
    #[prost(sint64, optional, tag = "6")]
    max: Option<i64>,
    #[prost(uint32, repeated, tag = "7")]
    columns: Vec<u32>,
    #[prost(uint32, tag = "8")]
    output_columns: u32,
    #[prost(message, repeated, tag = "9")]
    stamps: Vec<StampEntry>,
    #[prost(uint32, tag = "10")]
    output_stamps: u32,
    #[prost(bytes = "vec", optional, tag = "11")]
    predicate: Option<Vec<u8>>,
    #[prost(bool, tag = "12")]
    is_reversed: bool,
    #[prost(uint64, optional, tag = "13")]
    limit: Option<u64>,
    #[prost(uint64, optional, tag = "14")]
    partition_limit: Option<u64>,
    #[prost(bool, tag = "15")]
    past_cache: bool,
    #[prost(bool, tag = "16")]
    names_partitions: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SourceMessage {
    /// Of all partitions of a node; else of those of the parts.
    #[prost(message, optional, tag = "1")]
    node: Option<NodeMessage>,
    #[prost(message, repeated, tag = "2")]
    parts: Vec<PartMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NodeMessage {
    #[prost(uint32, tag = "1")]
    node: u32,
    #[prost(uint32, tag = "2")]
    part: u32,
    #[prost(uint32, tag = "3")]
    parts: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartMessage {
    #[prost(bytes = "vec", repeated, tag = "1")]
    keys: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "2")]
    ranges: Vec<Range>,
}

/// Writes scans, and reads them on the database of a node.
pub(super) struct TideCodec {
    pub engine: Engine,
    /// Those that may be written by their names; any where nobody asks.
    pub functions: Option<Arc<Functions>>,
}

impl TideCodec {
    pub fn new(engine: Engine) -> Self {
        TideCodec { engine, functions: None }
    }
}

impl fmt::Debug for TideCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TideCodec")
    }
}

fn external(error: tidegate_engine::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn internal(what: &str) -> DataFusionError {
    DataFusionError::Internal(format!("a scan of another node: {what}"))
}

fn source_message(source: &Source) -> Result<SourceMessage> {
    Ok(match source {
        Source::Parts(parts) => {
            let part = |part: &Part| PartMessage {
                keys: part.keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
                ranges: part.ranges.iter().map(Range::of).collect(),
            };
            SourceMessage { node: None, parts: parts.iter().map(part).collect() }
        }
        Source::Node { node, part, parts } => {
            let node = NodeMessage { node: node.0, part: *part, parts: *parts };
            SourceMessage { node: Some(node), parts: Vec::new() }
        }
        Source::Shard { .. } => return Err(internal("shards are each node's own")),
    })
}

fn ranges(messages: &[Range]) -> Result<Vec<ClusteringRange>> {
    messages.iter().map(|range| range.range().map_err(external)).collect()
}

fn source(message: &SourceMessage) -> Result<Source> {
    if let Some(NodeMessage { node, part, parts }) = message.node {
        if parts == 0 {
            return Err(internal("a node in no parts"));
        }
        return Ok(Source::Node { node: NodeId(node), part, parts });
    }
    let part = |part: &PartMessage| {
        let keys = part.keys.iter().map(PartitionKey::from_bytes).collect();
        Ok(Part { keys, ranges: ranges(&part.ranges)?, rows: None })
    };
    Ok(Source::Parts(message.parts.iter().map(part).collect::<Result<_>>()?))
}

impl PhysicalExtensionCodec for TideCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<TideScan>() else {
            return Err(DataFusionError::NotImplemented(format!(
                "{} is run by one node",
                node.name()
            )));
        };
        let parts = scan.parts();
        let predicate = parts.predicate.as_ref().map(|predicate| {
            Ok::<_, DataFusionError>(
                converter.physical_expr_to_proto(predicate, self)?.encode_to_vec(),
            )
        });
        let catalog = self.engine.catalog();
        let clock = self.engine.clock();
        let terms = parts.terms.map(|terms| Conditions::of(terms, &catalog, &**clock));
        let sources = parts.sources.iter().map(source_message).collect::<Result<_>>()?;
        let (columns, stamps) = (parts.selection.columns(), parts.selection.stamps());
        let message = ScanMessage {
            table: Some(Table::of(&parts.table)),
            terms,
            sources,
            ranges: parts.access.ranges.iter().map(Range::of).collect(),
            min: parts.access.tokens.map(|(min, _)| min.0),
            max: parts.access.tokens.map(|(_, max)| max.0),
            columns: columns.iter().map(|column| u32::from(column.0)).collect(),
            output_columns: parts.selection.output().len() as u32,
            stamps: stamps.iter().map(StampEntry::of).collect(),
            output_stamps: parts.selection.output_stamps() as u32,
            predicate: predicate.transpose()?,
            is_reversed: parts.direction.is_reversed(),
            limit: parts.limit.map(|rows| rows as u64),
            partition_limit: parts.partition_limit.map(|rows| rows as u64),
            past_cache: parts.past_cache,
            names_partitions: parts.access.keys.is_some(),
        };
        message.encode(out).map_err(|error| internal(&error.to_string()))
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message = ScanMessage::decode(bytes).map_err(|error| internal(&error.to_string()))?;
        let catalog = self.engine.catalog();
        let table = message.table.as_ref().ok_or_else(|| internal("no table"))?;
        let table = table.find(&catalog).map_err(external)?;
        let columns = message.columns.iter();
        let columns = columns.map(|number| column(&table, *number).map_err(external));
        let columns = columns.collect::<Result<Vec<ColumnId>>>()?;
        let stamps = message.stamps.iter().map(|entry| entry.stamp(&table).map_err(external));
        let stamps = stamps.collect::<Result<Vec<_>>>()?;
        let outputs = (message.output_columns as usize, message.output_stamps as usize);
        if outputs.0 > columns.len() || outputs.1 > stamps.len() {
            return Err(internal("an output of more than is read"));
        }
        let selection = Selection::of_parts((columns, outputs.0), (stamps, outputs.1));
        let predicate = match &message.predicate {
            None => None,
            Some(bytes) => {
                let node = PhysicalExprNode::decode(&bytes[..])
                    .map_err(|error| internal(&error.to_string()))?;
                let context = PhysicalPlanDecodeContext::new(context, self);
                let schema = selection.read_schema(&table);
                Some(converter.proto_to_physical_expr(&node, &schema, &context)?)
            }
        };
        let access = Access {
            keys: message.names_partitions.then(Vec::new),
            tokens: message.min.map(Token).zip(message.max.map(Token)),
            ranges: ranges(&message.ranges)?,
            ..Access::full()
        };
        let clock = self.engine.clock();
        let parts = ScanParts {
            table,
            access: Arc::new(access),
            sources: message.sources.iter().map(source).collect::<Result<_>>()?,
            selection: Arc::new(selection),
            predicate,
            direction: match message.is_reversed {
                true => Direction::Reversed,
                false => Direction::Forward,
            },
            limit: message.limit.map(|rows| rows as usize),
            partition_limit: message.partition_limit.map(|rows| rows as usize),
            past_cache: message.past_cache,
            terms: message.terms.map(|terms| terms.terms(&catalog, &**clock)),
        };
        Ok(Arc::new(TideScan::of_parts(self.engine.clone(), parts)))
    }

    fn try_encode_udf(&self, function: &ScalarUDF, _: &mut Vec<u8>) -> Result<()> {
        self.functions.as_ref().map_or(Ok(()), |own| own.check_scalar(function))
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, _: &mut Vec<u8>) -> Result<()> {
        self.functions.as_ref().map_or(Ok(()), |own| own.check_aggregate(function))
    }

    fn try_encode_udwf(&self, function: &WindowUDF, _: &mut Vec<u8>) -> Result<()> {
        self.functions.as_ref().map_or(Ok(()), |own| own.check_window(function))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
    use datafusion_proto::bytes::{
        physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
    };
    use tidegate_engine::batch::{Stamp, StampKind};
    use tidegate_engine::{ClusteringKey, Database, Deadline, Options, Terms, Value};

    use super::*;
    use crate::query::watch::journal::Journal;
    use crate::query::{Session, SessionOptions};

    /// Two scans of a table `pk | ck | v`: with nothing said but what is read, and with everything.
    fn scans(engine: &Engine) -> [ScanParts; 2] {
        let (catalog, clock) = (engine.catalog(), engine.clock());
        let table = catalog.table("default", "t").expect("it was created");
        let [pk, ck, v] = ["pk", "ck", "v"].map(|name| table.find(name).expect("it has it").0);
        let plain = ScanParts {
            table: Arc::clone(table),
            access: Arc::new(Access::full()),
            sources: vec![Source::Node { node: NodeId(1), part: 0, parts: 2 }].into(),
            selection: Arc::new(Selection::of_parts((vec![v], 1), (Vec::new(), 0))),
            predicate: None,
            direction: Direction::Forward,
            limit: None,
            partition_limit: None,
            past_cache: false,
            terms: None,
        };
        let key = ClusteringKey::from_values(table, &[Value::Int(5)]).unwrap();
        let access = Access {
            keys: Some(Vec::new()),
            tokens: Some((Token(-7), Token(9))),
            ranges: vec![ClusteringRange::prefix(key)],
            ..Access::full()
        };
        let stamps = [StampKind::TimeToLive, StampKind::WriteTime];
        let stamps = stamps.map(|kind| Stamp { column: v, kind }).to_vec();
        let greater = BinaryExpr::new(Arc::new(Column::new("v", 1)), Operator::Gt, lit(3_i32));
        let level = catalog.service_level("soon").expect("it was created").id;
        let deadline = Some(Deadline::after(Duration::from_secs(3600), &**clock));
        let full = ScanParts {
            access: Arc::new(access),
            selection: Arc::new(Selection::of_parts((vec![ck, v, pk], 2), (stamps, 1))),
            predicate: Some(Arc::new(greater)),
            direction: Direction::Reversed,
            limit: Some(11),
            partition_limit: Some(3),
            past_cache: true,
            terms: Some(Terms { level, deadline }),
            ..plain.clone()
        };
        [plain, full]
    }

    /// What a scan is made of. Time runs on, so a deadline is there or not.
    fn told(parts: &ScanParts) -> String {
        let ScanParts { table, access, sources, selection, predicate, .. } = parts;
        let read = (selection.columns(), selection.output(), selection.stamps());
        let rows = (access.keys.is_some(), access.tokens, &access.ranges);
        let limits = (parts.limit, parts.partition_limit, parts.past_cache);
        let terms = parts.terms.map(|terms| (terms.level, terms.deadline.is_some()));
        let predicate = predicate.as_ref().map(|predicate| predicate.to_string());
        let output = (selection.output_stamps(), predicate);
        format!("{:?}", (table.id, rows, sources, read, output, parts.direction, limits, terms))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_scan_that_was_sent_asks_for_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::new(directory.path().join("data"));
        options.shards = Some(1);
        let database = Database::open(options).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        for text in [
            "CREATE TABLE t (pk int, ck int, v int, PRIMARY KEY (pk, ck))",
            "CREATE SERVICE LEVEL soon",
        ] {
            session.execute(text).await.unwrap();
        }
        let engine = Engine::new(database, Journal::new(), Arc::default());
        let codec = TideCodec::new(engine.clone());
        for sent in scans(&engine) {
            let wanted = told(&sent);
            let plan = Arc::new(TideScan::of_parts(engine.clone(), sent));
            let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
            let context = TaskContext::default();
            let plan = physical_plan_from_bytes_with_extension_codec(&bytes, &context, &codec);
            let plan = plan.unwrap();
            let scan = plan.downcast_ref::<TideScan>().expect("a scan comes back");
            assert_eq!(told(&scan.parts()), wanted);
        }
        engine.close().await.unwrap();
    }

    #[test]
    fn what_a_stream_reads_is_the_same_on_the_other_node() {
        let part = |key: &[u8]| Part {
            keys: vec![PartitionKey::from_bytes(key), PartitionKey::from_bytes(b"z")],
            ranges: vec![ClusteringRange::full()],
            rows: None,
        };
        for sent in [
            Source::Node { node: NodeId(2), part: 1, parts: 3 },
            Source::Node { node: NodeId(0), part: 0, parts: 1 },
            Source::Parts(vec![part(b"a"), part(b"b")]),
            Source::Parts(Vec::new()),
        ] {
            assert_eq!(source(&source_message(&sent).unwrap()).unwrap(), sent);
        }
        assert!(source_message(&Source::Shard { shard: 0, tokens: None }).is_err());
        let node = Some(NodeMessage { node: 2, part: 0, parts: 0 });
        let error = source(&SourceMessage { node, parts: Vec::new() }).unwrap_err();
        assert!(error.to_string().contains("a node in no parts"), "{error}");
    }
}

//! The way to the workers of other nodes: the connections that the cluster has anyway.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerResolver, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use tidegate_engine::NodeId;
use tonic::Status;
use tonic::codegen::http::{self, HeaderMap};
use tower::ServiceExt;
use url::Url;

use crate::cluster::{Cluster, uri_of};

/// See the head of this file.
#[derive(Clone)]
pub(in crate::query) struct Channels {
    cluster: Arc<Cluster>,
    urls: Arc<[Url]>,
}

impl Channels {
    /// Errors: for an address that is none.
    pub fn new(cluster: Arc<Cluster>) -> Result<Self> {
        let url = |(_, address): &(String, String)| {
            Url::parse(&uri_of(address)).map_err(|error| DataFusionError::External(Box::new(error)))
        };
        let urls = cluster.nodes().iter().map(url).collect::<Result<Vec<_>>>()?;
        Ok(Channels { cluster, urls: urls.into() })
    }

    /// The addresses of all nodes, in their order.
    pub fn urls(&self) -> &Arc<[Url]> {
        &self.urls
    }

    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

impl WorkerResolver for Channels {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.urls.to_vec())
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    /// Errors: naming the node that does not answer.
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let place = self.urls.iter().position(|known| known == url);
        let place = place
            .ok_or_else(|| DataFusionError::Internal(format!("{url} is no node of the ring")))?;
        let node = NodeId(place as u32);
        let reached = self.cluster.reach(node).await;
        reached.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let headers = self.cluster.headers();
        let channel = self.cluster.channel(node).map_request(
            move |mut request: http::Request<tonic::body::Body>| {
                for (name, value) in &headers {
                    let bytes = http::HeaderValue::from_bytes(value.as_bytes());
                    if let Ok(value) = bytes {
                        request.headers_mut().insert(*name, value);
                    }
                }
                request
            },
        );
        let inner = create_worker_client(BoxCloneSyncChannel::new(channel));
        Ok(Box::new(Named { inner, way: Way { cluster: Arc::clone(&self.cluster), node } }))
    }
}

/// The way to a node.
#[derive(Clone)]
struct Way {
    cluster: Arc<Cluster>,
    node: NodeId,
}

impl Way {
    /// Names the node in an error of the way; what a node itself has said stays.
    fn named(&self, error: DataFusionError) -> DataFusionError {
        let status = match &error {
            DataFusionError::External(inner) => inner.downcast_ref::<Status>(),
            _ => None,
        };
        match status {
            Some(status) => {
                DataFusionError::External(Box::new(self.cluster.error(self.node, status)))
            }
            None => error,
        }
    }

    fn named_in<T: 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let way = self.clone();
        stream.map(move |item| item.map_err(|error| way.named(error))).boxed()
    }
}

/// Calls of a worker whose errors name its node.
struct Named {
    inner: Box<dyn WorkerChannel>,
    way: Way,
}

#[async_trait]
impl WorkerChannel for Named {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let asked = self.inner.coordinator_channel(headers, plan, messages, metrics, context).await;
        asked.map(|told| self.way.named_in(told)).map_err(|error| self.way.named(error))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let asked = self.inner.execute_task(headers, request, metrics, context).await;
        let streams = asked.map_err(|error| self.way.named(error))?;
        Ok(streams.into_iter().map(|stream| self.way.named_in(stream)).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let asked = self.inner.get_worker_info(request).await;
        asked.map_err(|error| self.way.named(error))
    }
}

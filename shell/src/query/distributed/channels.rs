//! The way to the workers of other nodes: the connections that the cluster has anyway.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel, WorkerResolver};
use tidegate_engine::NodeId;
use tonic::codegen::http;
use tower::ServiceExt;
use url::Url;

use crate::cluster::Cluster;

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
            let address = address.replacen("grpc+tls://", "https://", 1);
            Url::parse(&address.replacen("grpc://", "http://", 1))
                .map_err(|error| DataFusionError::External(Box::new(error)))
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
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}

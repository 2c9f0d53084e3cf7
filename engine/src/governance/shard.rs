//! The policies of one shard: a post for each world, and access to them from other threads.
//!
//! Invariant: a post lives on its shard's thread.

use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use tokio::sync::oneshot;

use super::report::{PolicyExit, PolicyReport};
use super::world::{AtOnce, Parts, Post, Stages};
use super::worlds::WORLDS;
use crate::error::{Error, Result};
use crate::plugin;
use crate::runtime::ShardHandle;

/// The policies of one shard.
pub struct ShardPolicies {
    pub(super) parts: Parts,
    /// In the order of the list of worlds.
    posts: Vec<(plugin::World, Rc<dyn Post>)>,
}

impl ShardPolicies {
    /// On every post the engine itself decides.
    pub fn new(parts: Parts) -> Rc<Self> {
        let posts = WORLDS.iter().map(|served| (served.world, (served.post)(&parts))).collect();
        ShardPolicies::with_posts(parts, posts)
    }

    pub(super) fn with_posts(parts: Parts, posts: Vec<(plugin::World, Rc<dyn Post>)>) -> Rc<Self> {
        Rc::new(ShardPolicies { parts, posts })
    }

    /// Looks after what time brings. Called at every tick of the shard.
    pub fn tick(&self) {
        for (_, post) in &self.posts {
            post.clone().tick();
        }
    }

    /// Leaves what policies learnt for the next run.
    pub async fn close(&self) {
        for (_, post) in &self.posts {
            post.close().await;
        }
    }

    pub(super) fn post(&self, world: plugin::World) -> &dyn Post {
        let found = self.posts.iter().find(|(other, _)| *other == world);
        &*found.expect("every world of the contract has a post").1
    }

    /// The post of a world whose policies are exchanged at once.
    pub(super) fn at_once(&self, world: plugin::World) -> &dyn AtOnce {
        self.post(world).at_once().expect("its policies are exchanged at once")
    }

    /// The post of the world whose policies are rolled out in stages.
    pub(super) fn stages(&self) -> &dyn Stages {
        let staged = self.posts.iter().find_map(|(_, post)| post.stages());
        staged.expect("one world has stages")
    }

    /// What each policy did on this shard.
    pub(super) fn shares(&self) -> Vec<PolicyReport> {
        self.posts.iter().flat_map(|(_, post)| post.shares()).collect()
    }

    /// The own figures of the policy of this name, in charge or as a shadow.
    pub(super) fn metrics(&self, name: &str) -> Vec<(String, f64)> {
        self.posts.iter().flat_map(|(_, post)| post.metrics(name)).collect()
    }

    /// Policies that left this shard by a failure.
    pub(super) fn exits(&self) -> Vec<PolicyExit> {
        self.posts.iter().flat_map(|(_, post)| post.exits()).collect()
    }
}

/// A shard whose policies are governed.
pub trait Governed: 'static {
    fn policies(&self) -> &Rc<ShardPolicies>;
}

type Work = Box<dyn FnOnce(Rc<ShardPolicies>) -> LocalBoxFuture<'static, ()> + Send>;

/// A way to the policies of one shard, from any thread.
trait Reach: Send + Sync {
    fn run(&self, name: &'static str, work: Work) -> BoxFuture<'_, Result<()>>;
}

impl<S: Governed> Reach for ShardHandle<S> {
    fn run(&self, name: &'static str, work: Work) -> BoxFuture<'_, Result<()>> {
        self.call(name, move |shard| work(shard.policies().clone())).boxed()
    }
}

/// The policies of a set of shards, by the number of the shard.
#[derive(Clone)]
pub struct Shards(Arc<[Box<dyn Reach>]>);

impl Shards {
    pub fn new<S: Governed>(shards: &[ShardHandle<S>]) -> Self {
        let reach = |shard: &ShardHandle<S>| -> Box<dyn Reach> { Box::new(shard.clone()) };
        Shards(shards.iter().map(reach).collect())
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Runs a closure on a shard and waits for its result. Dropping the future drops the work at
    /// the point where it waits.
    ///
    /// Errors: `Closed`.
    pub(super) async fn call<R: Send + 'static>(
        &self,
        shard: u32,
        name: &'static str,
        work: impl FnOnce(Rc<ShardPolicies>) -> LocalBoxFuture<'static, R> + Send + 'static,
    ) -> Result<R> {
        let (sender, result) = oneshot::channel();
        let work = move |policies| {
            let work = async move {
                // Nobody waits any more when the call was dropped.
                let _ = sender.send(work(policies).await);
            };
            work.boxed_local()
        };
        self.0[shard as usize].run(name, Box::new(work)).await?;
        result.await.map_err(|_| Error::Closed)
    }

    /// Runs a closure on each of the first `count` shards, one after another; the first error of
    /// reaching one ends it.
    ///
    /// Errors: `Closed`.
    pub(super) async fn first<R: Send + 'static>(
        &self,
        count: u32,
        name: &'static str,
        work: impl FnOnce(Rc<ShardPolicies>) -> LocalBoxFuture<'static, R> + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let mut results = Vec::with_capacity(count as usize);
        for shard in 0..count {
            results.push(self.call(shard, name, work.clone()).await?);
        }
        Ok(results)
    }

    /// As `first`, on all shards.
    pub(super) async fn each<R: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(Rc<ShardPolicies>) -> LocalBoxFuture<'static, R> + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        self.first(self.count(), name, work).await
    }
}

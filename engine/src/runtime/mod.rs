//! A shard: one thread that runs one executor, reached by a bounded mailbox.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, Random};
use crate::config::MAILBOX_REQUESTS_MAX;
use crate::error::{Error, Result};

pub mod preempt {
    pub async fn maybe_yield() {
        tokio::task::yield_now().await;
    }
}

pub struct ShardContext {
    pub shard: u32,
    pub shard_count: u32,
    pub clock: Arc<dyn Clock>,
    pub random: RefCell<Random>,
}

pub struct ExecutorOptions {
    pub shard: u32,
    pub shard_count: u32,
    pub core: Option<usize>,
    pub backend: crate::disk::Backend,
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
}

type Job<S> = Box<dyn FnOnce(Rc<S>) -> LocalBoxFuture<'static, ()> + Send>;

pub struct ShardHandle<S> {
    jobs: mpsc::Sender<Job<S>>,
    marker: PhantomData<fn(S)>,
}

impl<S> Clone for ShardHandle<S> {
    fn clone(&self) -> Self {
        ShardHandle { jobs: self.jobs.clone(), marker: PhantomData }
    }
}

pub async fn start<S: 'static>(
    options: ExecutorOptions,
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>> + Send + 'static,
) -> Result<ShardHandle<S>> {
    let (jobs, mut mailbox) = mpsc::channel::<Job<S>>(MAILBOX_REQUESTS_MAX);
    let (ready, started) = oneshot::channel();
    std::thread::Builder::new()
        .spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let context = Rc::new(ShardContext {
                    shard: options.shard,
                    shard_count: options.shard_count,
                    clock: options.clock,
                    random: RefCell::new(Random::new(options.seed)),
                });
                let state = match init(context).await {
                    Ok(state) => state,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let _ = ready.send(Ok(()));
                while let Some(job) = mailbox.recv().await {
                    tokio::task::spawn_local(job(state.clone()));
                }
            });
        })
        .unwrap();
    started.await.map_err(|_| Error::Closed)??;
    Ok(ShardHandle { jobs, marker: PhantomData })
}

impl<S: 'static> ShardHandle<S> {
    pub async fn call<R: Send + 'static>(
        &self,
        _name: &'static str,
        f: impl FnOnce(Rc<S>) -> LocalBoxFuture<'static, R> + Send + 'static,
    ) -> Result<R> {
        let (reply, result) = oneshot::channel();
        let job: Job<S> = Box::new(move |state| {
            Box::pin(async move {
                let mut reply = reply;
                tokio::select! {
                    result = f(state) => { let _ = reply.send(result); }
                    () = reply.closed() => {}
                }
            })
        });
        self.jobs.send(job).await.map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)
    }

    pub async fn spawn(
        &self,
        _name: &'static str,
        f: impl FnOnce(Rc<S>) -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Result<()> {
        self.jobs.send(Box::new(f)).await.map_err(|_| Error::Closed)
    }
}

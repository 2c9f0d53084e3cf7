//! The watch of the statement that a thread works for: how code that runs it finds it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;

use futures::FutureExt;
use tidegate_engine::SchemaRef;
use tidegate_engine::probe::{Probe, Watch};

thread_local! {
    /// That of the statement which is planned or started.
    static CURRENT: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// The watch of the statement that this thread works for.
pub fn current() -> Option<Arc<Watch>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What watches a read of a table that this statement begins.
pub fn read(table: &SchemaRef) -> Option<Probe> {
    CURRENT.with_borrow(|watch| Some(watch.as_ref()?.read(Arc::clone(table) as _)))
}

/// The same for the one read of a statement that runs by this path.
pub fn read_by(path: &'static str, table: &SchemaRef) -> Option<Probe> {
    CURRENT.with_borrow(|watch| Some(watch.as_ref()?.read_by(path, table)))
}

/// Notes a step of that statement, if its steps are wanted.
pub fn note<T: Into<Cow<'static, str>>>(text: impl FnOnce() -> T) {
    // Most statements are not watched.
    CURRENT.with_borrow(|watch| watch.as_ref().map_or((), |watch| watch.note(text)));
}

/// Runs work of the statement with this watch, if it has one, when its task goes on elsewhere.
pub fn watched<F: Future + Unpin>(
    mut watch: Option<Arc<Watch>>,
    mut work: F,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let _entered = Entered::new(&mut watch);
        work.poll_unpin(context)
    })
}

/// Something that happens for a statement. Its watch is that of the thread meanwhile, and it has
/// that of the statement around it.
pub(super) struct Entered<'a>(&'a mut Option<Arc<Watch>>);

impl<'a> Entered<'a> {
    pub fn new(watch: &'a mut Option<Arc<Watch>>) -> Self {
        exchange(watch);
        Entered(watch)
    }
}

impl Drop for Entered<'_> {
    /// Also where the work panics.
    fn drop(&mut self) {
        exchange(self.0);
    }
}

/// Whether a statement around this one is watched.
pub(super) fn is_watched() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

fn exchange(watch: &mut Option<Arc<Watch>>) {
    CURRENT.with_borrow_mut(|current| mem::swap(current, watch));
}

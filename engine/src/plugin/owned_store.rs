//! The store of one instance, whose memory is freed by another thread than the one that drops it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use wasmtime::Store;

use super::epoch::Ticker;
use super::state::State;

/// See the head of this file.
pub(super) struct OwnedStore {
    /// `None` only while it is dropped.
    store: Option<Store<State>>,
    ticker: Arc<Ticker>,
}

impl OwnedStore {
    pub fn new(store: Store<State>, ticker: Arc<Ticker>) -> Self {
        OwnedStore { store: Some(store), ticker }
    }
}

impl Deref for OwnedStore {
    type Target = Store<State>;

    #[inline]
    fn deref(&self) -> &Store<State> {
        self.store.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for OwnedStore {
    #[inline]
    fn deref_mut(&mut self) -> &mut Store<State> {
        self.store.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for OwnedStore {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            self.ticker.free(Box::new(store));
        }
    }
}

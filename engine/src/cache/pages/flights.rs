//! Reads of pages under way, and what each brings.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures::future::{LocalBoxFuture, WeakShared};

use super::{Page, PageKey};
use crate::config::PAGE_BYTES;
use crate::disk::AlignedBuffer;
use crate::error::Result;

/// One I/O, which all poll that want a page of it.
pub(super) type Load = LocalBoxFuture<'static, Result<Rc<Run>>>;

/// Pages that one I/O brought: in one piece, as long as somebody wants it so, and, made when they
/// are asked for, as the cache keeps them, so that one that stays in memory keeps no other there.
pub(super) struct Run {
    pub(super) whole: Page,
    pages: OnceCell<Vec<Page>>,
}

impl Run {
    pub(super) fn new(whole: Page) -> Self {
        Run { whole, pages: OnceCell::new() }
    }

    pub(super) fn pages(&self) -> &[Page] {
        if self.whole.len() <= PAGE_BYTES {
            return std::slice::from_ref(&self.whole);
        }
        self.pages.get_or_init(|| {
            let pages = self.whole.chunks(PAGE_BYTES).map(|content| {
                let mut page = AlignedBuffer::for_reading(PAGE_BYTES);
                page.extend(content);
                Rc::new(page)
            });
            pages.collect()
        })
    }
}

/// A read under way, by the first page that it brings; no two bring the same page.
pub(in crate::cache) type Flights = BTreeMap<PageKey, Flight>;

/// How many pages a read under way brings.
pub(in crate::cache) struct Flight {
    pub(super) load: WeakShared<Load>,
    pub(super) count: u64,
}

/// The read that brings a page, and which of its pages that is.
pub(super) fn flight_of(flights: &Flights, key: PageKey) -> Option<(&Flight, usize)> {
    let from = PageKey { page: 0, ..key };
    let (first, flight) = flights.range(from..=key).next_back()?;
    let index = key.page - first.page;
    (index < flight.count).then_some((flight, index as usize))
}

//! Endpoints that are renewed and queries that are cancelled, by a clock that is moved by hand.

use std::time::Duration;

use tidegate_engine::clock::{Clock, SimulatedClock};
use tonic::Code;

use super::*;
use crate::flight::outgoing::Form;
use crate::flight::session::tests::database_by;
use crate::memory::MemoryWishes;

/// How long a ticket holds.
const LIFE: Duration = Duration::from_secs(3600);
/// The least that a ticket knows of time.
const SECOND: Duration = Duration::from_secs(1);

/// A service of a new database, with this clock.
pub(in crate::flight) async fn started(directory: &Path, clock: &Arc<SimulatedClock>) -> Service {
    let database = database_by(clock, directory).await;
    let memory = MemoryPlan::new(MemoryWishes::default(), 1, None).unwrap();
    let offer = Offer { ticket_key: [1; 32], snapshots: None, advertised: None, cluster: None };
    Service::new(database, &memory, offer).unwrap()
}

fn query() -> Sealed {
    let bound = Bound { text: "SELECT 1".into(), keyspace: "default".into(), parameters: None };
    Sealed::query(bound, Bytes::new(), Form::default()).unwrap()
}

fn id_of(ticket: &Sealed) -> Bytes {
    match &ticket.promise {
        Some(Promise::Query(query)) => query.id.clone(),
        other => panic!("no query: {other:?}"),
    }
}

fn endpoint_of(service: &Service, ticket: &Sealed) -> FlightEndpoint {
    let statement_handle = ticket.close(service.0.seal()).unwrap();
    endpoint(&TicketStatementQuery { statement_handle })
}

/// What the ticket of an endpoint promises now, or the code that it is refused with.
fn promised(service: &Service, endpoint: &FlightEndpoint) -> Result<Option<Promise>, Code> {
    let ticket = endpoint.ticket.as_ref().unwrap();
    service.promised(ticket).map_err(|refused| refused.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_endpoint_holds_for_as_long_as_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    for ticket in [
        query(),
        Sealed::done(Promise::Count(3)),
        Sealed::done(Promise::Message("Table t dropped.".into())),
    ] {
        let first = endpoint_of(&service, &ticket);
        clock.advance(LIFE / 2);
        let renewed = service.renew(first.clone()).unwrap();
        let expires = renewed.expiration_time.as_ref().map(|time| time.seconds);
        assert_eq!(expires, Some(clock.wall_seconds() + LIFE.as_secs() as i64));
        clock.advance(LIFE / 2 + SECOND);
        assert_eq!(promised(&service, &first), Err(Code::Unauthenticated), "it is as it was");
        let late = service.renew(first).unwrap_err();
        assert_eq!(late.code(), Code::Unauthenticated, "{late}");
        clock.advance(LIFE / 2 - SECOND);
        assert_eq!(promised(&service, &renewed), Ok(ticket.promise), "until the last second");
        clock.advance(SECOND);
        assert_eq!(promised(&service, &renewed), Err(Code::Unauthenticated));
    }
    // What stands for no statement never expires, and comes back as it is.
    let other = endpoint(&CommandGetCatalogs {});
    clock.advance(100 * LIFE);
    assert_eq!(service.renew(other.clone()).unwrap(), other);
    let none = service.renew(FlightEndpoint::new()).unwrap_err();
    assert_eq!(none.code(), Code::InvalidArgument, "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_of_an_info_are_cancelled_and_what_is_done_stays_done() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let info = |tickets: &[&Sealed]| {
        let endpoint = tickets.iter().map(|ticket| endpoint_of(&service, ticket)).collect();
        FlightInfo { endpoint, ..FlightInfo::new() }
    };
    let done = Sealed::done(Promise::Count(3));
    let [one, other, last] = [(); 3].map(|()| query());
    for nothing in [info(&[]), info(&[&done])] {
        assert_eq!(service.cancel(&nothing).unwrap(), CancelStatus::NotCancellable);
    }
    let both = info(&[&one, &done, &other]);
    for _ in 0..2 {
        assert_eq!(service.cancel(&both).unwrap(), CancelStatus::Cancelled);
    }
    let begin = |ticket: &Sealed| service.0.running().begin(id_of(ticket)).err();
    for cancelled in [&one, &other] {
        assert_eq!(begin(cancelled).map(|refused| refused.code()), Some(Code::Cancelled));
    }
    assert!(begin(&last).is_none(), "nobody has cancelled it");
    // A ticket that has expired names no query.
    let late = info(&[&last]);
    clock.advance(LIFE + SECOND);
    assert_eq!(service.cancel(&late).unwrap_err().code(), Code::Unauthenticated);
    assert!(begin(&last).is_none());
}

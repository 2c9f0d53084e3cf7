//! gRPC's own health service, which gives the answer of `/health`: whether every shard works.
//!
//! Invariant: whoever asks, the shards are asked once in [`FRESH`] at most. Nobody is asked who
//! they are: a probe has no password.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use tidegate_engine::clock::Clock;
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::metrics::Metrics;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How often who watches is told of a change.
const LOOKS: Duration = Duration::from_secs(5);
/// Names that can be asked for: that of all, and that of the one service.
const NAMES: [&str; 2] = ["", SERVICES[0]];
/// What clients reach: the service, and the health of it.
pub(super) const SERVICES: [&str; 2] =
    ["arrow.flight.protocol.FlightService", health_server::SERVICE_NAME];
/// The messages of health.
pub(super) const DESCRIPTORS: &[u8] = tonic_health::pb::FILE_DESCRIPTOR_SET;

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Health {
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    /// The last answer, and when it was given, ns.
    last: Arc<Mutex<Option<(u64, ServingStatus)>>>,
}

impl Health {
    pub(super) fn new(metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> HealthServer<Health> {
        HealthServer::new(Health { metrics, clock, last: Arc::default() })
    }

    /// Whether all shards work. One caller asks them, others wait for its answer.
    async fn status(&self) -> ServingStatus {
        let mut last = self.last.lock().await;
        let fresh_ns = FRESH.as_nanos();
        if let Some((at_ns, status)) = *last
            && u128::from(self.clock.monotonic_ns().saturating_sub(at_ns)) < fresh_ns
        {
            return status;
        }
        let status = match self.metrics.health().await {
            Ok(()) => ServingStatus::Serving,
            Err(error) => {
                tracing::warn!(error, "the service is not healthy");
                ServingStatus::NotServing
            }
        };
        *last = Some((self.clock.monotonic_ns(), status));
        status
    }

    /// Each status that differs from the one before, as `ticks` come.
    fn changes(self, ticks: impl Stream<Item = ()>) -> impl Stream<Item = ServingStatus> {
        let statuses = ticks.then(move |()| {
            let health = self.clone();
            async move { health.status().await }
        });
        let mut before = None;
        statuses.filter(move |status| {
            std::future::ready(before.replace(*status).is_none_or(|before| before != *status))
        })
    }
}

/// Errors: NOT_FOUND for a service that is not here.
fn check_name(request: &HealthCheckRequest) -> Result<(), Status> {
    match NAMES.contains(&request.service.as_str()) {
        true => Ok(()),
        false => Err(Status::not_found(format!(
            "there is no service '{}': ask for '{}', or for all by an empty name",
            request.service, NAMES[1]
        ))),
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        check_name(request.get_ref())?;
        // Boxed: what it holds is then proven `Send` once, as in `AnyStatement`.
        Ok(Response::new(answer(self.status().boxed().await)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // Who watches a name that is not there is told that it is unknown, not refused.
        if check_name(request.get_ref()).is_err() {
            let unknown = stream::iter([Ok(answer(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(unknown.chain(stream::pending()).boxed()));
        }
        let ticks = stream::unfold(tokio::time::interval(LOOKS), |mut interval| async {
            interval.tick().await;
            Some(((), interval))
        });
        let changes = self.clone().changes(ticks).map(|status| Ok(answer(status)));
        Ok(Response::new(changes.boxed()))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::{Database, Options};

    use super::*;
    use crate::query::{Session, SessionOptions};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_answer_holds_for_a_second_and_who_watches_is_told_of_changes() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        let clock = SimulatedClock::new(0);
        let last = Arc::default();
        let health = Health { metrics: Metrics::new(session), clock: clock.clone(), last };
        assert_eq!(health.status().await, ServingStatus::Serving);
        let told: Vec<_> = health.clone().changes(stream::iter([(), ()])).collect().await;
        assert_eq!(told, [ServingStatus::Serving], "the second is the same");

        database.close().await.unwrap();
        assert_eq!(health.status().await, ServingStatus::Serving, "it is fresh");
        clock.advance(FRESH);
        assert_eq!(health.status().await, ServingStatus::NotServing);
        let told: Vec<_> = health.changes(stream::iter([(), ()])).collect().await;
        assert_eq!(told, [ServingStatus::NotServing]);
    }

    #[test]
    fn only_names_that_are_there_can_be_asked_for() {
        for name in NAMES {
            assert!(check_name(&HealthCheckRequest { service: name.to_owned() }).is_ok());
        }
        let other = check_name(&HealthCheckRequest { service: "x.Y".to_owned() }).unwrap_err();
        assert_eq!(other.code(), tonic::Code::NotFound);
        assert!(other.message().contains("'x.Y'"), "{other}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_service_that_has_recovered_serves_again() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        let clock = SimulatedClock::new(0);
        // As a check leaves it that failed.
        let last = Arc::new(Mutex::new(Some((0, ServingStatus::NotServing))));
        let health = Health { metrics: Metrics::new(session), clock: clock.clone(), last };
        let times = [Duration::ZERO, FRESH - Duration::from_millis(1), FRESH, FRESH];
        let ticks = stream::iter(times).map(|by| clock.advance(by));
        let told: Vec<_> = health.clone().changes(ticks).collect().await;
        assert_eq!(told, [ServingStatus::NotServing, ServingStatus::Serving]);
        assert_eq!(health.status().await, ServingStatus::Serving);
        database.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_watches_is_told_at_once_how_it_is_or_that_nobody_knows_the_name() {
        use ServingStatus::{ServiceUnknown, Serving};
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        let (metrics, clock) = (Metrics::new(session), SimulatedClock::new(0));
        let health = Health { metrics, clock, last: Arc::default() };
        for (name, wanted) in [
            (NAMES[0], Serving),
            (NAMES[1], Serving),
            ("x.Y", ServiceUnknown),
            ("arrow.flight.protocol", ServiceUnknown),
            ("Arrow.Flight.Protocol.FlightService", ServiceUnknown),
        ] {
            let asked = || Request::new(HealthCheckRequest { service: name.to_owned() });
            let watched = health_server::Health::watch(&health, asked()).await.unwrap();
            let first = watched.into_inner().next().await.unwrap().unwrap();
            assert_eq!(first.status(), wanted, "'{name}'");
            let checked = health_server::Health::check(&health, asked()).await;
            let checked = checked.map(|answer| answer.into_inner().status());
            let checked = checked.map_err(|refused| refused.code());
            let refused = Err(tonic::Code::NotFound);
            assert_eq!(checked, if wanted == Serving { Ok(Serving) } else { refused }, "'{name}'");
        }
        database.close().await.unwrap();
    }
}

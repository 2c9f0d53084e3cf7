//! Each call of Flight, behind the question who it is.
//!
//! | header `authorization` | what it costs |
//! |---|---|
//! | `Bearer`, the token of a handshake | a look-up |
//! | `Bearer`, a token of a role | a keyed digest and a look-up; another of each on a new connection |
//! | `Basic`, as some clients send with every call | a hash on each connection, then look-ups |
//! | none, on a connection with a client's certificate | a look-up |
//!
//! Invariant: [`Guard`] hands on no call without an [`Identity`]. Whether a name or a password was
//! wrong is not told, neither by the text of the error nor by the time that it takes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use futures::FutureExt;
use tonic::{Request, Response, Status, Streaming};

use super::attempts::{Attempt, Attempts};
use super::identity::Identity;
use super::known_token::KnownToken;
use crate::flight::connections::Link;
use crate::flight::error::refusal;
use crate::flight::front::Front;
use crate::flight::service::State;
use crate::flight::session::{authorization, credentials};
use crate::password::{Busy, Passwords};
use crate::query::{AuditEvent, Caller};
use crate::token;

/// When to log in again while many do.
const BUSY: Duration = Duration::from_secs(1);

/// Who is asked who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flight) enum Rules {
    /// Everyone, as soon as a role may log in.
    WhereRolesLogIn,
    /// Everyone, always: others reach the address.
    Always,
}

/// What a call says of its caller.
enum Claim {
    /// It comes as this role.
    Role(Arc<str>),
    /// Name and password, in base 64.
    Basic(String),
}

/// See the head of this file.
pub(in crate::flight) struct Guard {
    front: Front,
    state: Arc<dyn State>,
    rules: Rules,
    passwords: Arc<Passwords>,
    attempts: Attempts,
}

impl Guard {
    pub(in crate::flight) fn new(front: Front, rules: Rules) -> Self {
        let state = Arc::clone(front.0.state());
        let passwords = Arc::clone(state.sessions().passwords());
        Guard { front, state, rules, passwords, attempts: Attempts::default() }
    }

    /// The same request, with the identity of its caller.
    ///
    /// Errors: UNAUTHENTICATED for who says nothing, or something wrong; RESOURCE_EXHAUSTED for who
    /// tries too often.
    async fn check<T>(&self, mut request: Request<T>) -> Result<Request<T>, Status> {
        let link = Link::of(&request);
        let has_logins = self.state.database().catalog().roles().has_logins();
        let caller = match (has_logins, self.rules) {
            (true, _) => {
                let claim = self.claim(authorization(request.metadata()), &link)?;
                let role = match claim {
                    Claim::Role(role) => role,
                    // Boxed: what it holds is then proven `Send` once, as in `AnyStatement`.
                    Claim::Basic(encoded) => self.role_of_password(&encoded, &link).boxed().await?,
                };
                Caller::Role(self.logging_in(role)?)
            }
            (false, Rules::WhereRolesLogIn) => Caller::Owner,
            (false, Rules::Always) => {
                return Err(Status::unauthenticated(
                    "no role may log in, and this address can be reached from other machines: \
                     create one with CREATE ROLE … WITH PASSWORD = '…' AND LOGIN = true, in a \
                     shell on the data directory",
                ));
            }
        };
        if let Some(activity) = link.activity {
            activity.let_in();
        }
        request.extensions_mut().insert(Identity(caller));
        Ok(request)
    }

    /// What a call says of its caller, by its header and its connection.
    fn claim(&self, said: Option<(&str, &str)>, link: &Link) -> Result<Claim, Status> {
        Ok(match said {
            Some(("bearer", token)) if token::is_one(token) => {
                Claim::Role(self.role_of_token(token, link)?)
            }
            Some(("bearer", token)) => Claim::Role(self.state.sessions().role_of(token)?),
            Some((_, encoded)) => Claim::Basic(encoded.to_owned()),
            None => match &link.certificate {
                Some(name) => Claim::Role(Arc::clone(name)),
                None => {
                    return Err(Status::unauthenticated(
                        "the header 'authorization' is missing: connect with user and password, with \
                         a token, or with the certificate of a client",
                    ));
                }
            },
        })
    }

    /// This role, if it may log in at this moment.
    fn logging_in(&self, role: Arc<str>) -> Result<Arc<str>, Status> {
        match self.state.database().catalog().roles().login(&role) {
            Some(_) => Ok(role),
            None => Err(Status::unauthenticated(format!("role '{role}' may not log in"))),
        }
    }

    /// The role of which this is a token that holds.
    fn role_of_token(&self, text: &str, link: &Link) -> Result<Arc<str>, Status> {
        let now_us = self.state.database().clock().wall_us();
        let catalog = self.state.database().catalog();
        let sessions = self.state.sessions();
        let mark = self.state.seal().mark(&[text]);
        if let Some(known) = sessions.known_token(link.connection, &mark)
            && known.holds(catalog.roles(), now_us)
        {
            return Ok(Arc::clone(known.role()));
        }
        let said = token::read(text);
        let holding = said.as_ref().and_then(|said| KnownToken::of(said, catalog.roles(), now_us));
        let peer = link.peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        if let Some(known) = holding {
            let role = Arc::clone(known.role());
            sessions.audit(
                AuditEvent::Login,
                &role,
                &format!("from {peer} with token {}", known.name()),
            );
            sessions.mark(link.connection, (mark, Some(Arc::new(known))));
            return Ok(role);
        }
        // Nobody finds a token by trying. The limit keeps the audit log readable.
        let user = said.map_or(String::new(), |said| said.role);
        self.begin_attempt(peer, &user)?;
        self.note(AuditEvent::RefusedLogin, &user, peer);
        Err(Status::unauthenticated(
            "this token was never given out, was dropped, or has expired: CREATE TOKEN makes one",
        ))
    }

    /// Counts an attempt to log in, if there were not too many.
    fn begin_attempt(&self, peer: IpAddr, user: &str) -> Result<Attempt, Status> {
        let now_ns = self.state.database().clock().monotonic_ns();
        self.attempts.begin(peer, user, now_ns).map_err(|wait| {
            let wait = Duration::from_secs(wait.as_secs() + 1);
            let text = format!(
                "too many wrong passwords or tokens of user '{user}' or from {peer}: try again in \
                 {} s",
                wait.as_secs()
            );
            refusal(text, wait)
        })
    }

    /// The role whose name and password these are, in base 64.
    async fn role_of_password(&self, encoded: &str, link: &Link) -> Result<Arc<str>, Status> {
        let (user, password) = credentials(encoded).ok_or_else(|| {
            Status::unauthenticated("Basic credentials are user:password in base 64")
        })?;
        let catalog = self.state.database().catalog();
        let role = catalog.roles().login(&user);
        let hash = role.and_then(|role| role.options.password.as_ref());
        let hash = hash.map(|hash| hash.as_phc().to_owned());
        let sessions = self.state.sessions();
        // What was right once on this connection is right until the password changes.
        let mark = hash.as_deref().map(|hash| self.state.seal().mark(&[encoded, hash]));
        if mark.is_some_and(|mark| sessions.is_marked(link.connection, &mark)) {
            return Ok(user.into());
        }
        let peer = link.peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let attempt = self.begin_attempt(peer, &user)?;
        match self.passwords.verify(password, hash).await {
            Ok(true) => {
                self.attempts.give_back(attempt);
                if let Some(mark) = mark {
                    sessions.mark(link.connection, (mark, None));
                }
                self.note(AuditEvent::Login, &user, peer);
                Ok(user.into())
            }
            Ok(false) => {
                self.note(AuditEvent::RefusedLogin, &user, peer);
                Err(Status::unauthenticated("user or password is wrong"))
            }
            Err(Busy) => {
                self.attempts.give_back(attempt);
                Err(refusal("many clients log in at once: try again", BUSY))
            }
        }
    }

    fn note(&self, event: AuditEvent, user: &str, peer: IpAddr) {
        self.state.sessions().audit(event, user, &format!("from {peer}"));
    }
}

#[tonic::async_trait]
impl FlightService for Guard {
    type HandshakeStream = <Front as FlightService>::HandshakeStream;
    type ListFlightsStream = <Front as FlightService>::ListFlightsStream;
    type DoGetStream = <Front as FlightService>::DoGetStream;
    type DoPutStream = <Front as FlightService>::DoPutStream;
    type DoActionStream = <Front as FlightService>::DoActionStream;
    type ListActionsStream = <Front as FlightService>::ListActionsStream;
    type DoExchangeStream = <Front as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.front.handshake(self.check(request).await?).await
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.front.list_flights(self.check(request).await?).await
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.front.get_flight_info(self.check(request).await?).await
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        self.front.poll_flight_info(self.check(request).await?).await
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        self.front.get_schema(self.check(request).await?).await
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        self.front.do_get(self.check(request).await?).await
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.front.do_put(self.check(request).await?).await
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        self.front.do_action(self.check(request).await?).await
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.front.list_actions(self.check(request).await?).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.front.do_exchange(self.check(request).await?).await
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::clock::SimulatedClock;
    use tonic::Code;

    use super::*;
    use crate::flight::connections::Connection;
    use crate::flight::error::retry_delay;
    use crate::flight::service::tests::started;
    use crate::query::{OutcomeKind, Session};

    /// A call with this header, on a connection with this name on its certificate.
    fn call(authorization: &str, certificate: Option<&str>) -> Request<()> {
        let mut request = Request::new(());
        let certificate = certificate.map(Arc::from);
        request.extensions_mut().insert(Link { certificate, ..Link::default() });
        if !authorization.is_empty() {
            request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        }
        request
    }

    /// Who a call is found to come from, or the code that it is refused with.
    async fn who(guard: &Guard, request: Request<()>) -> Result<Caller, Code> {
        let request = guard.check(request).await.map_err(|refused| refused.code())?;
        let Identity(caller) = request.extensions().get::<Identity>().expect("it was let in");
        Ok(caller.clone())
    }

    fn role(name: &str) -> Result<Caller, Code> {
        Ok(Caller::Role(name.into()))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_certificate_stands_for_a_role_that_may_log_in_unless_the_call_says_who_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let service = started(directory.path(), &clock).await;
        let guards = [Rules::WhereRolesLogIn, Rules::Always]
            .map(|rules| Guard::new(Front(service.clone()), rules));
        let refused: Result<Caller, Code> = Err(Code::Unauthenticated);
        // Nobody can say who they are yet.
        assert_eq!(who(&guards[0], call("", None)).await, Ok(Caller::Owner));
        assert_eq!(who(&guards[1], call("", Some("ann"))).await, refused);
        let sessions = service.state().sessions();
        let before = format!("Bearer {}", sessions.start(&call("", None)).unwrap());
        let shell = sessions.named("shell");
        for text in [
            "CREATE ROLE ann WITH LOGIN = true",
            "CREATE ROLE bob",
            "CREATE ROLE carl WITH LOGIN = true",
        ] {
            shell.execute(text).await.unwrap();
        }
        for guard in &guards {
            for (authorization, certificate, wanted) in [
                ("", None, &refused),
                ("", Some("ann"), &role("ann")),
                ("", Some("carl"), &role("carl")),
                ("", Some("bob"), &refused),
                ("", Some("nobody"), &refused),
                // What the call itself says counts.
                ("Basic eA==", Some("ann"), &refused),
                ("Bearer unknown", Some("ann"), &refused),
                // Of who came before anybody was asked.
                (before.as_str(), Some("ann"), &refused),
            ] {
                let found = who(guard, call(authorization, certificate)).await;
                assert_eq!(found, *wanted, "'{authorization}', {certificate:?}");
            }
        }
        shell.execute("ALTER ROLE ann WITH LOGIN = false").await.unwrap();
        assert_eq!(who(&guards[1], call("", Some("ann"))).await, refused);
        assert_eq!(who(&guards[1], call("", Some("carl"))).await, role("carl"));
    }

    /// The token that a statement tells.
    async fn token_of(shell: &Session, text: &str) -> String {
        match shell.execute(text).await.unwrap().kind {
            OutcomeKind::Message(told) => told.lines().next().unwrap().to_owned(),
            _ => panic!("{text} tells no token"),
        }
    }

    /// A call with this token, on this connection.
    fn with_token(token: &str, connection: u64) -> Request<()> {
        let mut request = call(&format!("Bearer {token}"), None);
        let connection = Connection(connection);
        request.extensions_mut().insert(Link { connection, ..Link::default() });
        request
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn wrong_tokens_are_counted_and_right_ones_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let service = started(directory.path(), &clock).await;
        let guard = Guard::new(Front(service.clone()), Rules::Always);
        let shell = service.state().sessions().named("shell");
        shell.execute("CREATE ROLE ann WITH LOGIN = true").await.unwrap();
        let own = token_of(&shell, "CREATE TOKEN ci OF ann").await;
        let (forged, _) = token::new("ann", "ci").unwrap();
        // Nobody has opened these connections: nothing is known on them.
        for connection in 0..30 {
            assert_eq!(who(&guard, with_token(&own, connection)).await, role("ann"));
        }
        for (wrong, user) in [(forged.as_str(), "ann"), ("tgt.x", "")] {
            for _ in 0..5 {
                let refused = who(&guard, with_token(wrong, 1)).await;
                assert_eq!(refused, Err(Code::Unauthenticated), "{user}");
            }
            let refused = guard.check(with_token(wrong, 1)).await.unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted);
            let says = format!("tokens of user '{user}' or from 0.0.0.0: try again in 6 s");
            assert!(refused.message().contains(&says), "{refused}");
            let delay = retry_delay(&refused).expect("it says when");
            assert_eq!(delay, Duration::from_secs(6));
            assert_eq!(who(&guard, with_token(&own, 1)).await, role("ann"), "who has one comes in");
            clock.advance(delay);
            let again = who(&guard, with_token(wrong, 1)).await;
            assert_eq!(again, Err(Code::Unauthenticated), "the time is over");
        }
    }

    /// Known on a connection or new on another, a token is asked each time whether it holds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_token_holds_until_it_expires_and_its_role_may_log_in() {
        const REFUSED: Result<Caller, Code> = Err(Code::Unauthenticated);
        let directory = tempfile::tempdir().unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let service = started(directory.path(), &clock).await;
        let guard = Guard::new(Front(service.clone()), Rules::WhereRolesLogIn);
        let sessions = service.state().sessions();
        sessions.connection_opened(Connection(1));
        let shell = sessions.named("shell");
        shell.execute("CREATE ROLE ann WITH LOGIN = true").await.unwrap();
        shell.execute("CREATE ROLE bob").await.unwrap();
        let steady = token_of(&shell, "CREATE TOKEN steady OF ann").await;
        let short = token_of(&shell, "CREATE TOKEN short OF ann VALID FOR 1h").await;
        let of_bob = token_of(&shell, "CREATE TOKEN ci OF bob").await;
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        for by in [Duration::ZERO, hour - second] {
            clock.advance(by);
            // One is open and remembers, the other does not.
            for connection in [1, 1, 2] {
                assert_eq!(who(&guard, with_token(&steady, connection)).await, role("ann"));
                assert_eq!(who(&guard, with_token(&short, connection)).await, role("ann"));
                assert_eq!(who(&guard, with_token(&of_bob, connection)).await, REFUSED);
            }
        }
        clock.advance(second);
        for connection in [1, 2] {
            assert_eq!(who(&guard, with_token(&short, connection)).await, REFUSED);
            assert_eq!(who(&guard, with_token(&steady, connection)).await, role("ann"));
        }
        shell.execute("ALTER ROLE bob WITH LOGIN = true").await.unwrap();
        assert_eq!(who(&guard, with_token(&of_bob, 1)).await, role("bob"));
        shell.execute("ALTER ROLE ann WITH LOGIN = false").await.unwrap();
        for connection in [1, 2] {
            assert_eq!(who(&guard, with_token(&steady, connection)).await, REFUSED);
        }
    }

    #[test]
    fn a_scheme_is_known_however_it_is_written_and_another_is_none() {
        for (header, wanted) in [
            ("Bearer x", Some(("bearer", "x"))),
            ("bearer x", Some(("bearer", "x"))),
            ("BEARER X", Some(("bearer", "X"))),
            ("bEaReR  x ", Some(("bearer", "x"))),
            ("Basic eA==", Some(("basic", "eA=="))),
            ("BASIC eA==", Some(("basic", "eA=="))),
            ("basic a b", Some(("basic", "a b"))),
            ("Digest x", None),
            ("Bearers x", None),
            ("Bearer", None),
            ("Bearer:x", None),
            ("x", None),
        ] {
            let request = call(header, None);
            assert_eq!(authorization(request.metadata()), wanted, "'{header}'");
        }
        assert_eq!(authorization(call("", None).metadata()), None);
    }
}

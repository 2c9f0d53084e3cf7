//! Sessions of clients, by their tokens and connections.

use std::path::Path;

use tidegate_engine::clock::SimulatedClock;
use tidegate_engine::{Backend, Options};
use tonic::Code;

use super::*;

/// A new database of one shard, with this clock.
pub(in crate::flight) async fn database_by(
    clock: &Arc<SimulatedClock>,
    directory: &Path,
) -> Database {
    let mut options = Options::new(directory);
    options.clock = Arc::clone(clock) as _;
    options.backend = Backend::Blocking;
    options.shards = Some(1);
    Database::open(options).await.unwrap()
}

struct World {
    clock: Arc<SimulatedClock>,
    sessions: Sessions,
    _directory: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let database = database_by(&clock, directory.path()).await;
        let sessions = Sessions::new(database, QueryMemory::new(None), None).unwrap();
        World { clock, sessions, _directory: directory }
    }

    /// A request on a connection, which is open, with a header `authorization`.
    fn request(&self, connection: u64, authorization: &str) -> Request<()> {
        let connection = Connection(connection);
        self.sessions.connection_opened(connection);
        let mut request = Request::new(());
        request.extensions_mut().insert(Link { connection, ..Link::default() });
        if !authorization.is_empty() {
            request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        }
        request
    }

    fn basic(&self, connection: u64, user: &str) -> Request<()> {
        let encoded = BASIC.encode(format!("{user}:password"));
        self.request(connection, &format!("Basic {encoded}"))
    }

    fn bearer(&self, connection: u64, token: &str) -> Request<()> {
        self.request(connection, &format!("Bearer {token}"))
    }

    fn is_same(&self, a: &Request<()>, b: &Request<()>) -> bool {
        let (a, b) = (self.sessions.of(a).unwrap(), self.sessions.of(b).unwrap());
        Arc::ptr_eq(&a.session, &b.session)
    }
}

/// Makes a session one that can be told from a new one.
fn mark(session: &FlightSession) {
    lock(&session.options).insert("mark".to_owned(), "set".to_owned());
}

fn is_marked(session: &FlightSession) -> bool {
    lock(&session.options).contains_key("mark")
}

#[test]
fn credentials_are_read_with_what_fills_them_up_and_without() {
    for (encoded, wanted) in [
        ("YTpi", Some(("a", "b"))),
        ("YTpiYw==", Some(("a", "bc"))),
        ("YTpiYw", Some(("a", "bc"))),
        ("YTpiOmM=", Some(("a", "b:c"))),
        ("YQ==", None),
        ("a:b", None),
        ("/////w==", None),
        ("", None),
    ] {
        let found = credentials(encoded);
        let found = found.as_ref().map(|(user, word)| (user.as_str(), word.as_str()));
        assert_eq!(found, wanted, "{encoded}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_a_token_have_a_session_for_each_connection_and_user() {
    let world = World::new().await;
    let (nobody, other) = (world.request(1, ""), world.request(2, ""));
    assert!(world.is_same(&nobody, &world.request(1, "")));
    assert!(!world.is_same(&nobody, &other));
    assert!(world.is_same(&world.basic(1, "a"), &world.basic(1, "a")));
    assert!(!world.is_same(&world.basic(1, "a"), &world.basic(1, "b")));
    assert!(!world.is_same(&world.basic(1, "a"), &world.basic(2, "a")));
    mark(&world.sessions.of(&nobody).unwrap());
    world.sessions.connection_closed(Connection(1));
    let again = world.sessions.of(&world.request(1, "")).unwrap();
    assert!(!is_marked(&again), "a new connection has a new session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_tables_of_one_name_the_one_that_was_dropped_last_is_remembered() {
    let world = World::new().await;
    let session = world.sessions.of(&world.request(1, "")).unwrap();
    let query = &session.query;
    let make_and_drop = async |name: &str, column: &str| {
        let text = format!("CREATE TABLE {name} ({column} int PRIMARY KEY)");
        query.execute(&text).await.unwrap();
        let text = format!("DROP TABLE {name}");
        session.note_drop(&query::split(&text).unwrap()[0], &query.keyspace());
        query.execute(&text).await.unwrap();
    };
    let key = |keyspace: &str, name: &str| {
        session.dropped(keyspace, name).map(|table| table.columns[0].name.clone())
    };
    query.execute("CREATE KEYSPACE other").await.unwrap();
    make_and_drop("t", "a").await;
    make_and_drop("u", "b").await;
    make_and_drop("other.t", "c").await;
    make_and_drop("t", "d").await;
    assert_eq!(key("default", "t").as_deref(), Some("d"));
    assert_eq!(key("default", "u").as_deref(), Some("b"));
    assert_eq!(key("other", "t").as_deref(), Some("c"));
    assert_eq!((key("other", "u"), lock(&session.dropped).len()), (None, 3));
    // Those that were dropped longest ago are forgotten; the last one of a name counts.
    for number in 0..DROPPED_MAX - 1 {
        make_and_drop(&format!("t{number}"), "a").await;
    }
    assert_eq!((key("default", "u"), key("other", "t")), (None, None));
    assert_eq!(key("default", "t").as_deref(), Some("d"));
    assert_eq!(lock(&session.dropped).len(), DROPPED_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_ends_the_session_of_another_caller() {
    let world = World::new().await;
    let token = world.sessions.start(&world.basic(1, "a")).unwrap();
    let mut other = world.bearer(1, &token);
    other.extensions_mut().insert(Identity(Caller::Role("b".into())));
    assert!(!world.sessions.end(&other) && world.sessions.end(&world.bearer(1, &token)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_is_set_and_unset() {
    let world = World::new().await;
    let session = world.sessions.of(&world.request(1, "")).unwrap();
    let set = |name: &str, text: Option<&str>| {
        let value = text.map(|text| option::OptionValue::Text(text.to_owned()));
        let value = option::SessionOptionValue { option_value: value };
        let session_options = [(name.to_owned(), value)].into();
        let result = option::set(&session, option::SetSessionOptionsRequest { session_options });
        result.errors.is_empty()
    };
    let is_set = |name: &str| option::get(&session).session_options.contains_key(name);
    for (name, text) in [("result.varint", "text"), (option::PRIMARY_KEY, "id")] {
        assert!(!is_set(name) && set(name, Some(text)) && is_set(name), "{name}");
        assert!(set(name, None) && !is_set(name), "{name}");
    }
    session.query.execute("CREATE SERVICE LEVEL gold").await.unwrap();
    assert!(set("service_level", Some("gold")) && session.query.service_level() == "gold");
    assert!(!set("service_level", Some("golf")) && session.query.service_level() == "gold");
    assert!(set("service_level", None) && session.query.service_level() == "default");
    assert!(!set("result.varint", Some("nothing")) && !is_set("result.varint"));
    assert!(!set("nothing", Some("x")) && !set("schema", None) && is_set("schema"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_end_no_session_that_is_in_use() {
    let world = World::new().await;
    let live = world.sessions.start(&world.basic(1, "a")).unwrap();
    world.sessions.of(&world.bearer(1, &live)).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..2 * SESSIONS_PER_USER_MAX {
        tokens.push(world.sessions.start(&world.basic(2, "a")).unwrap());
    }
    assert!(world.sessions.of(&world.bearer(1, &live)).is_ok());
    let gone = world.sessions.of(&world.bearer(2, &tokens[0])).err().unwrap();
    assert_eq!(gone.code(), Code::Unauthenticated);
    // All in use: the next one is refused, and another user's is not.
    let last = tokens.split_off(tokens.len() - (SESSIONS_PER_USER_MAX - 1));
    for token in &last {
        world.sessions.of(&world.bearer(2, token)).unwrap();
    }
    let refused = world.sessions.start(&world.basic(3, "a")).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(world.sessions.start(&world.basic(3, "b")).is_ok());
    // Those whose connection is closed make room.
    world.sessions.connection_closed(Connection(2));
    assert!(world.sessions.start(&world.basic(3, "a")).is_ok());
    assert!(world.sessions.of(&world.bearer(1, &live)).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_keeps_its_session_when_there_are_too_many() {
    let world = World::new().await;
    let first = world.request(1, "");
    mark(&world.sessions.of(&first).unwrap());
    for connection in 2..=SESSIONS_PER_USER_MAX as u64 {
        mark(&world.sessions.of(&world.request(connection, "")).unwrap());
    }
    let refused = world.sessions.of(&world.request(100_000, "")).err().unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(is_marked(&world.sessions.of(&first).unwrap()));
    world.sessions.connection_closed(Connection(2));
    assert!(world.sessions.of(&world.request(100_000, "")).is_ok());
}

/// Thousands of connections hold still, none of which has set anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_would_miss_makes_room() {
    let world = World::new().await;
    let first = world.request(1, "");
    mark(&world.sessions.of(&first).unwrap());
    for (connection, text) in
        [(2, "USE system"), (3, "SET tidegate.short_path = false"), (4, "TRACING ON")]
    {
        let session = world.sessions.of(&world.request(connection, "")).unwrap();
        session.query.execute(text).await.unwrap();
    }
    for connection in 5..=3 * SESSIONS_PER_USER_MAX as u64 {
        world.sessions.of(&world.request(connection, "")).unwrap();
    }
    assert!(is_marked(&world.sessions.of(&first).unwrap()));
    let of = |connection| world.sessions.of(&world.request(connection, "")).unwrap();
    assert_eq!(of(2).query.keyspace(), "system");
    assert!(!of(3).query.is_plain(&world.sessions.template, "default"));
    assert!(!of(4).query.is_plain(&world.sessions.template, "default"));
    assert!(of(5).query.is_plain(&world.sessions.template, "default"), "it has a new one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_end_and_busy_ones_do_not() {
    let world = World::new().await;
    let (idle, busy) = (world.basic(1, "a"), world.basic(1, "b"));
    let idle = world.sessions.start(&idle).unwrap();
    let busy = world.sessions.start(&busy).unwrap();
    let held = world.sessions.of(&world.bearer(1, &busy)).unwrap();
    world.clock.advance(Duration::from_secs(IDLE_SECONDS_MAX + 1));
    world.sessions.start(&world.basic(1, "c")).unwrap();
    assert!(world.sessions.of(&world.bearer(1, &idle)).is_err());
    assert!(world.sessions.of(&world.bearer(1, &busy)).is_ok());
    drop(held);
    world.sessions.connection_closed(Connection(1));
    world.clock.advance(Duration::from_secs(ORPHAN_SECONDS_MAX + 1));
    world.sessions.start(&world.basic(2, "c")).unwrap();
    assert!(world.sessions.of(&world.bearer(2, &busy)).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_that_was_unused_longest_makes_room() {
    let world = World::new().await;
    let mut tokens = Vec::new();
    for _ in 0..SESSIONS_PER_USER_MAX {
        tokens.push(world.sessions.start(&world.basic(1, "a")).unwrap());
        world.clock.advance(Duration::from_millis(1));
    }
    for token in &tokens {
        world.sessions.of(&world.bearer(1, token)).unwrap();
    }
    // The first one is used last, and only then does the client go.
    world.clock.advance(Duration::from_millis(1));
    drop(world.sessions.of(&world.bearer(1, &tokens[0])).unwrap());
    world.sessions.connection_closed(Connection(1));
    world.sessions.start(&world.basic(2, "a")).unwrap();
    let is_there = |at: usize| world.sessions.of(&world.bearer(2, &tokens[at])).is_ok();
    assert!(is_there(0) && !is_there(1) && is_there(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sessions_that_are_unused_as_long_the_first_makes_room() {
    let world = World::new().await;
    let mut tokens = Vec::new();
    for _ in 0..SESSIONS_PER_USER_MAX + 2 {
        tokens.push(world.sessions.start(&world.basic(1, "a")).unwrap());
    }
    let is_there = |at: usize| world.sessions.of(&world.bearer(1, &tokens[at])).is_ok();
    assert_eq!([0, 1, 2, SESSIONS_PER_USER_MAX].map(is_there), [false, false, true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_idle_from_the_end_of_its_last_call() {
    let world = World::new().await;
    let token = world.sessions.start(&world.basic(1, "a")).unwrap();
    world.sessions.of(&world.bearer(1, &token)).unwrap();
    // Used on a second connection, it outlives the first one.
    world.sessions.of(&world.bearer(2, &token)).unwrap();
    world.sessions.connection_closed(Connection(1));
    world.clock.advance(Duration::from_secs(ORPHAN_SECONDS_MAX + 1));
    world.sessions.start(&world.basic(3, "b")).unwrap();
    let held = world.sessions.of(&world.bearer(2, &token)).unwrap();
    world.clock.advance(Duration::from_secs(IDLE_SECONDS_MAX + 1));
    drop(held);
    world.sessions.start(&world.basic(3, "b")).unwrap();
    assert!(world.sessions.of(&world.bearer(2, &token)).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_were_right_are_known_on_their_connection_while_it_is_open() {
    let world = World::new().await;
    let sessions = &world.sessions;
    let seal = crate::flight::seal::Seal::new([1; 32], Arc::clone(&world.clock) as _, 0);
    let mark = |n: usize| seal.mark(&[n.to_string().as_str()]);
    let say = |n| sessions.mark(Connection(1), (mark(n), None));
    let knows = |connection, n| sessions.is_marked(Connection(connection), &mark(n));
    (1..=2).for_each(|connection| sessions.connection_opened(Connection(connection)));
    say(0);
    assert!(knows(1, 0) && !knows(1, 1) && !knows(2, 0));
    (1..=MARKS_MAX).for_each(say);
    assert!(!knows(1, 0) && (1..=MARKS_MAX).all(|n| knows(1, n)));
    // What was said last goes last.
    [1, 0].into_iter().for_each(say);
    assert!(knows(1, 0) && knows(1, 1) && !knows(1, 2) && knows(1, 3));
    sessions.connection_closed(Connection(1));
    assert!(!knows(1, 0));
    say(0);
    assert!(!knows(1, 0), "nobody comes by a closed connection");
    sessions.connection_opened(Connection(1));
    assert!(!knows(1, 0) && !knows(1, 1));
}

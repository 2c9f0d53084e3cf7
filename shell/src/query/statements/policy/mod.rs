//! Statements about policies: CREATE, DROP, ROLLBACK and EXPLAIN POLICY, and the ALTER statements
//! that put policies of other worlds than eviction in charge.

mod explain;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::Path;

use datafusion::arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use sqlparser::tokenizer::Token;
use tidegate_engine::error::Result as EngineResult;
use tidegate_engine::schema::named;
use tidegate_engine::{Catalog, Permission, Resource, RolledBack};

use crate::query::access::{AuditEvent, Need};
use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name};
use crate::query::replay::read_component;
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use explain::{figure_schema, figures_of};

/// CREATE POLICY. A shell at a service reads the file for the service.
#[derive(Debug, Clone)]
pub struct CreatePolicy {
    pub(crate) name: Name,
    if_not_exists: bool,
    pub(crate) file: String,
    pub(crate) file_span: Span,
    pub sha256: Option<String>,
    /// Parameters handed to the policy, in the order of the text.
    pub parameters: Vec<(String, String)>,
}

impl Read for CreatePolicy {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = cursor.name("a policy name")?;
        cursor.expect_word("from")?;
        let (file, file_span) = cursor.string("a file name in quotes")?;
        let (sha256, parameters) = (None, Vec::new());
        let mut policy = CreatePolicy { name, if_not_exists, file, file_span, sha256, parameters };
        if cursor.take_word("with") {
            cursor.parenthesised(|cursor| {
                let name = cursor.name("a parameter")?;
                cursor.expect(&Token::Eq)?;
                let value = cursor.option_value()?;
                if name.value == "sha256" {
                    policy.sha256 = Some(value);
                } else {
                    policy.parameters.push((name.value, value));
                }
                Ok(())
            })?;
        }
        Ok(policy)
    }
}

impl CreatePolicy {
    /// What it says where it has nothing to do: the policy is there, and that is no error.
    pub(crate) fn nothing_to_do(&self, catalog: &Catalog) -> Option<String> {
        let name = &self.name.value;
        let is_there = self.if_not_exists && catalog.policies().any(|known| known.name == *name);
        is_there.then(|| format!("Policy {name} exists already."))
    }
}

impl OwnStatement for CreatePolicy {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Create, Resource::Policies)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.check_local_files().map_err(|error| error.at(self.file_span))?;
        if let Some(said) = self.nothing_to_do(&session.database.catalog()) {
            return Ok(Outcome::message(said));
        }
        let component =
            read_component(Path::new(&self.file)).map_err(|error| error.at(self.file_span))?;
        let (parameters, sha256) = (self.parameters.clone(), self.sha256.clone());
        let name = self.name.value.clone();
        let policy = PolicyUpload { name, component, parameters, sha256 };
        let created = created(session, policy).await;
        created.map(Outcome::message).map_err(|error| error.at(self.name.span))
    }
}

/// A policy whose component is at hand.
#[derive(Debug)]
pub struct PolicyUpload {
    pub name: String,
    /// The bytes of the component.
    pub component: Vec<u8>,
    /// Handed to the policy, in this order.
    pub parameters: Vec<(String, String)>,
    /// What the component's SHA-256 has to be, in hex.
    pub sha256: Option<String>,
}

impl Session {
    /// Creates a policy that a client has sent, and says so.
    ///
    /// Errors: `Denied`, `Exists`; `Invalid` saying why the component is refused.
    pub async fn upload_policy(&self, policy: PolicyUpload) -> Result<String> {
        let (name, bytes) = (named(&policy.name), policy.component.len());
        let create = async {
            self.allow(&[Need::new(Permission::Create, Resource::Policies)])?;
            created(self, policy).await
        };
        let ended = create.await;
        let what = format!("CREATE POLICY {name} FROM {bytes} bytes that a client sent");
        self.audit_ended(AuditEvent::Policy, &what, &ended);
        ended
    }
}

/// Creates a policy, and says so.
async fn created(session: &Session, policy: PolicyUpload) -> Result<String> {
    let PolicyUpload { name, component, parameters, sha256 } = policy;
    let info = session.database.create_policy(&name, component, parameters, sha256).await?;
    Ok(format!("Policy {} {} created ({}).", info.name, info.version, info.digest))
}

#[derive(Debug)]
pub struct DropPolicy {
    name: Name,
    if_exists: bool,
}

impl Read for DropPolicy {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropPolicy { name: cursor.name("a policy name")?, if_exists })
    }
}

impl OwnStatement for DropPolicy {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Drop, Resource::Policies)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let name = &self.name.value;
        let is_there = session.database.catalog().policies().any(|known| known.name == *name);
        session.database.drop_policy(name, self.if_exists).await?;
        Ok(Outcome::message(match is_there {
            true => format!("Policy {name} dropped."),
            false => format!("There is no policy {name}."),
        }))
    }
}

/// ROLLBACK POLICY.
#[derive(Debug)]
pub struct RollBackPolicy;

impl Read for RollBackPolicy {
    fn read(_: &mut Cursor<'_>) -> Result<Self> {
        Ok(RollBackPolicy)
    }
}

impl OwnStatement for RollBackPolicy {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Alter, Resource::Policies)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let RolledBack { policy, was_kept } = session.database.roll_back_cache_policy().await?;
        let how = if was_kept { "" } else { "; a new instance took over" };
        Ok(Outcome::message(format!("Eviction policy set back to {policy}{how}.")))
    }
}

#[derive(Debug)]
pub struct ExplainPolicy(Name);

impl Read for ExplainPolicy {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(ExplainPolicy(cursor.name("a policy name")?))
    }
}

impl OwnStatement for ExplainPolicy {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let ExplainPolicy(name) = self;
        let report = session.database.explain_policy(&name.value).await;
        figures_of(&report.map_err(|error| QueryError::from(error).at(name.span))?)
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(figure_schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}

/// What `ALTER … SET POLICY = p` puts a policy in charge of.
pub trait Charge: Debug + Send + Sync + 'static {
    /// The word that stands for no component, and what is wanted where it may stand.
    const NOTHING: (&str, &str) = ("native", "a policy name or NATIVE");

    /// Puts a policy in charge; `None` for that word.
    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>>;

    /// Who is in charge now.
    fn told(name: Option<&str>) -> String;
}

/// `ALTER … SET POLICY [=] p`.
#[derive(Debug)]
pub struct PutInCharge<C> {
    name: Option<Name>,
    of: PhantomData<C>,
}

impl<C: Charge> Read for PutInCharge<C> {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (nothing, wanted) = C::NOTHING;
        cursor.expect_word("set")?;
        cursor.expect_word("policy")?;
        cursor.take(&Token::Eq);
        let name = cursor.name(wanted)?;
        Ok(PutInCharge { name: (name.value != nothing).then_some(name), of: PhantomData })
    }
}

impl<C: Charge> OwnStatement for PutInCharge<C> {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Alter, Resource::Policies)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let name = self.name.as_ref();
        let set = C::put(session, value_of(name)).await;
        set.map_err(|error| at_name(error.into(), name))?;
        Ok(Outcome::message(C::told(value_of(name))))
    }
}

/// ALTER RATE LIMITER: operations beyond the limit of a partition.
#[derive(Debug)]
pub struct RateLimiter;

impl Charge for RateLimiter {
    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>> {
        session.database.set_rate_policy(name)
    }

    fn told(name: Option<&str>) -> String {
        format!("Rate limiter set to {}.", name.unwrap_or("native"))
    }
}

/// ALTER READ ADMISSION: how many reads run and wait.
#[derive(Debug)]
pub struct ReadAdmission;

impl Charge for ReadAdmission {
    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>> {
        session.database.set_read_admission_policy(name)
    }

    fn told(name: Option<&str>) -> String {
        format!("Read admission set to {}.", name.unwrap_or("native"))
    }
}

/// ALTER LOAD SHEDDING: what is refused under load; nothing, without a policy.
#[derive(Debug)]
pub struct LoadShedding;

impl Charge for LoadShedding {
    const NOTHING: (&str, &str) = ("none", "a policy name or NONE");

    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>> {
        session.database.set_load_shedding_policy(name)
    }

    fn told(name: Option<&str>) -> String {
        match name {
            Some(name) => format!("Load shedding set to {name}."),
            None => "Load shedding is off.".to_owned(),
        }
    }
}

/// ALTER IO PRIORITY: shares of the classes of I/O.
#[derive(Debug)]
pub struct IoPriority;

impl Charge for IoPriority {
    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>> {
        session.database.set_io_priority_policy(name)
    }

    fn told(name: Option<&str>) -> String {
        match name {
            Some(name) => format!("Shares of I/O are planned by {name}."),
            None => "Shares of I/O are as they are set.".to_owned(),
        }
    }
}

/// ALTER COMPACTION: which SSTables are merged.
#[derive(Debug)]
pub struct Compaction;

impl Charge for Compaction {
    fn put(session: &Session, name: Option<&str>) -> BoxFuture<'static, EngineResult<()>> {
        session.database.set_compaction_policy(name)
    }

    fn told(name: Option<&str>) -> String {
        match name {
            Some(name) => format!("Compactions are chosen by {name}."),
            None => "Compactions are chosen by the strategy of each table.".to_owned(),
        }
    }
}

pub fn value_of(name: Option<&Name>) -> Option<&str> {
    name.map(|name| name.value.as_str())
}

pub fn at_name(error: QueryError, name: Option<&Name>) -> QueryError {
    match name {
        Some(name) => error.at(name.span),
        None => error,
    }
}

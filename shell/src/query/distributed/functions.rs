//! Functions in plans that are sent: a node finds each by its name, so that must say what it does.
//!
//! Most are those of a session, which all nodes have alike. Rules of the planner put in others.
//! Of these some are told apart by their name and the type that they give, which goes with each
//! call; whatever knows more keeps its plan on one node.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

use crate::query::plan::zero;
use crate::query::types::identifier::{Kind, Order};
use crate::query::types::{arithmetic, instant, narrow};

/// The functions of a session, by their names, and those of rules.
pub(super) struct Functions {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
    of_rules: Vec<ScalarUDF>,
}

/// What rules of the planner put in, and nodes have beside the functions of a session.
pub(super) fn of_rules() -> Vec<ScalarUDF> {
    let mut all = arithmetic::sent();
    all.extend(narrow::sent());
    all.push(instant::sent());
    all.extend(zero::sent());
    all.extend(Kind::ALL.map(Order::function));
    all
}

impl Functions {
    pub fn of(session: &dyn Session) -> Self {
        Functions {
            scalar: session.scalar_functions().clone(),
            aggregate: session.aggregate_functions().clone(),
            window: session.window_functions().clone(),
            of_rules: of_rules(),
        }
    }

    /// Errors: `NotImplemented` for a function that another node does not find by its name.
    pub fn check_scalar(&self, function: &ScalarUDF) -> Result<()> {
        let is_known = self.scalar.get(function.name()).is_some_and(|own| **own == *function);
        let is_typed = arithmetic::is_sent(function)
            || narrow::is_sent(function)
            || instant::is_sent(function);
        match is_known || is_typed || self.of_rules.contains(function) {
            true => Ok(()),
            false => Err(unsent(function.name())),
        }
    }

    /// The same of an aggregate.
    pub fn check_aggregate(&self, function: &AggregateUDF) -> Result<()> {
        match self.aggregate.get(function.name()).is_some_and(|own| **own == *function) {
            true => Ok(()),
            false => Err(unsent(function.name())),
        }
    }

    /// The same of a window function.
    pub fn check_window(&self, function: &WindowUDF) -> Result<()> {
        match self.window.get(function.name()).is_some_and(|own| **own == *function) {
            true => Ok(()),
            false => Err(unsent(function.name())),
        }
    }
}

fn unsent(name: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!("{name} is computed by one node"))
}

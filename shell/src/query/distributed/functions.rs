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

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::query::aggregate;

    #[test]
    fn a_node_is_sent_the_functions_that_it_finds_by_their_names_and_no_others() {
        let full = SessionContext::new().state();
        let none = SessionStateBuilder::new().build();
        let (known, unknown) = (Functions::of(&full), Functions::of(&none));
        let is_refused = |found: Result<()>, name: &str| {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(&format!("{name} is computed by one node")), "{error}");
        };
        for name in ["abs", "concat", "upper"] {
            let function = &full.scalar_functions()[name];
            known.check_scalar(function).unwrap();
            is_refused(unknown.check_scalar(function), name);
        }
        for name in ["sum", "count", "max"] {
            let function = &full.aggregate_functions()[name];
            known.check_aggregate(function).unwrap();
            is_refused(unknown.check_aggregate(function), name);
        }
        for name in ["row_number", "rank"] {
            let function = &full.window_functions()[name];
            known.check_window(function).unwrap();
            is_refused(unknown.check_window(function), name);
        }
        // What rules put in is known where a session has no function at all.
        for function in of_rules() {
            unknown.check_scalar(&function).unwrap();
        }
    }

    #[test]
    fn another_function_of_a_known_name_is_not_sent() {
        let state = SessionContext::new().state();
        let known = Functions::of(&state);
        let first =
            |arguments: &[ColumnarValue]| -> Result<ColumnarValue> { Ok(arguments[0].clone()) };
        let types = vec![DataType::Int32];
        let own = create_udf("abs", types, DataType::Int32, Volatility::Immutable, Arc::new(first));
        assert!(known.check_scalar(&own).is_err());
        // Ours have the names of those in whose places they stand.
        for own in aggregate::functions() {
            let is_there = state.aggregate_functions().contains_key(own.name());
            assert!(is_there && known.check_aggregate(&own).is_err(), "{}", own.name());
        }
    }
}

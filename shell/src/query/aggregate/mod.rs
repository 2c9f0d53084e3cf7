//! `sum`, `avg`, `min`, `max` and spreads (variance, correlation) where DataFusion's are not exact.
//!
//! | function | of | DataFusion 55.2 | here |
//! |---|---|---|---|
//! | `sum` | bigint | wraps | a sum that does not fit is an error, whatever the order of the rows |
//! | `sum` | decimal | wraps beyond 38 digits | an error |
//! | `avg` | decimal | cuts digits off | rounds, half away from zero |
//! | `avg` | bigint | adds doubles | divides the exact sum |
//! | `sum`, `avg` | doubles, in frames that move | takes off what leaves | adds what remains |
//! | `var_pop`, `corr`, `regr_…` and their like | in frames that move | takes off what leaves | merges what remains |
//! | `min`, `max` | floats, grouped | begin with the greatest finite number; NaN replaces all | NaN is the greatest |
//! | `min`, `max` | UUIDs and addresses | by text | by their order |
//!
//! <https://github.com/apache/datafusion/issues/24432> is about floats,
//! <https://github.com/apache/datafusion/issues/16406> about decimals.
//!
//! All other types, and everything that is not named here, go to DataFusion's functions.

mod fold;
mod extreme;
mod moving;
mod number;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::types::{logical_int64, logical_uint64};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::regr;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs, TypeSignature, TypeSignatureClass,
};

use self::extreme::{Floats, Named, SlidingNamed};
use self::fold::{Distinct, Fold, Many, One};
use self::moving::{MovingDoubles, MovingStates};
use self::number::Numbers;
use super::types::identifier::Kind;

/// The functions; they replace DataFusion's of the same names.
pub fn functions() -> Vec<AggregateUDF> {
    let exact = |what, inner| AggregateUDF::from(Exact::new(what, inner));
    let mut all = vec![
        exact(What::Sum, sum_udaf()),
        exact(What::Average, avg_udaf()),
        exact(What::Min, min_udaf()),
        exact(What::Max, max_udaf()),
    ];
    all.extend(spreads().map(|inner| exact(What::Spread, inner)));
    all
}

/// How far values lie from their average and from one another. Each keeps what it knows of some
/// values in a state that can be merged with that of others.
fn spreads() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let of_one = [var_samp_udaf(), var_pop_udaf(), stddev_udaf(), stddev_pop_udaf()];
    let of_two = [
        covar_samp_udaf(),
        covar_pop_udaf(),
        corr_udaf(),
        regr::regr_slope_udaf(),
        regr::regr_intercept_udaf(),
        regr::regr_r2_udaf(),
        regr::regr_avgx_udaf(),
        regr::regr_avgy_udaf(),
        regr::regr_sxx_udaf(),
        regr::regr_syy_udaf(),
        regr::regr_sxy_udaf(),
    ];
    of_one.into_iter().chain(of_two)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Sum,
    Average,
    Min,
    Max,
    /// Of doubles; DataFusion's, but where a frame moves.
    Spread,
}

/// See the head of this file.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    what: What,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// How values of one type are folded.
enum Way {
    Numbers(Numbers),
    Floats(Floats),
    Named(Named),
}

impl Exact {
    fn new(what: What, inner: Arc<AggregateUDF>) -> Self {
        let mut signature = inner.signature().clone();
        if what == What::Average {
            // These stay as they are; DataFusion's average makes doubles of them first.
            let stays = |ty| {
                let class = TypeSignatureClass::Native(ty);
                TypeSignature::Coercible(vec![Coercion::new_exact(class)])
            };
            signature.type_signature = TypeSignature::OneOf(vec![
                signature.type_signature,
                stays(logical_int64()),
                stays(logical_uint64()),
            ]);
        }
        Exact { what, inner, signature }
    }

    /// How values of a field are folded here; `None` leaves them to DataFusion's function.
    fn way(&self, input: &Field, output: &DataType) -> Option<Way> {
        let is_max = self.what == What::Max;
        match (self.what, input.data_type()) {
            (
                What::Sum | What::Average,
                DataType::Int64
                | DataType::UInt64
                | DataType::Decimal128(..)
                | DataType::Decimal256(..),
            ) => {
                let is_average = self.what == What::Average;
                let numbers = Numbers::new(input.data_type(), output, is_average)?;
                Some(Way::Numbers(numbers))
            }
            (What::Min | What::Max, DataType::Float32 | DataType::Float64) => {
                Some(Way::Floats(Floats::new(input.data_type().clone(), is_max)))
            }
            (What::Min | What::Max, _) => {
                Kind::of(input).map(|kind| Way::Named(Named { kind, is_max }))
            }
            _ => None,
        }
    }

    fn way_of(&self, args: &AccumulatorArgs<'_>) -> Option<Way> {
        self.way(args.expr_fields.first()?, args.return_field.data_type())
    }

    /// Whether doubles are added up, each as often as it is there.
    fn is_of_doubles(&self, args: &AccumulatorArgs<'_>) -> bool {
        let input = args.expr_fields.first().map(|field| field.data_type());
        matches!(self.what, What::Sum | What::Average)
            && !args.is_distinct
            && input == Some(&DataType::Float64)
    }

    /// Of equal values min and max are the same.
    fn is_distinct(&self, is_distinct: bool) -> bool {
        is_distinct && matches!(self.what, What::Sum | What::Average)
    }
}

fn one<F: Fold>(fold: F, is_distinct: bool) -> Box<dyn Accumulator> {
    match is_distinct {
        true => Box::new(Distinct::new(fold)),
        false => Box::new(One::new(fold)),
    }
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.what, arg_types) {
            // DataFusion 55.2 refuses a sum of nothing but NULL; `number` makes a bigint of it.
            (What::Sum, [DataType::Null]) => Ok(DataType::Int64),
            _ => self.inner.return_type(arg_types),
        }
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        if let (What::Sum, [input]) = (self.what, arg_fields)
            && input.data_type().is_null()
        {
            return Ok(Arc::new(Field::new(self.name(), DataType::Int64, true)));
        }
        let field = self.inner.inner().return_field(arg_fields)?;
        // The least of UUIDs is one.
        match arg_fields.first() {
            Some(input)
                if matches!(self.what, What::Min | What::Max) && Kind::of(input).is_some() =>
            {
                let metadata = input.metadata().clone();
                Ok(Arc::new(field.as_ref().clone().with_metadata(metadata)))
            }
            _ => Ok(field),
        }
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let is_distinct = self.is_distinct(args.is_distinct);
        Ok(match self.way_of(&args) {
            Some(Way::Numbers(fold)) => one(fold, is_distinct),
            Some(Way::Floats(fold)) => one(fold, is_distinct),
            Some(Way::Named(fold)) => one(fold, is_distinct),
            None => return self.inner.accumulator(args),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let input = args.input_fields.first();
        let way = input.and_then(|input| self.way(input, args.return_field.data_type()));
        let types = match (&way, input) {
            (None, _) | (_, None) => return self.inner.state_fields(args),
            (Some(_), Some(input)) if self.is_distinct(args.is_distinct) => {
                vec![DataType::new_list(input.data_type().clone(), true)]
            }
            (Some(Way::Numbers(fold)), _) => fold.state_types(),
            (Some(Way::Floats(fold)), _) => fold.state_types(),
            (Some(Way::Named(fold)), _) => fold.state_types(),
        };
        let field = |(n, ty)| Arc::new(Field::new(format!("{}[{n}]", args.name), ty, true));
        Ok(types.into_iter().enumerate().map(field).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.way_of(&args) {
            Some(_) => !self.is_distinct(args.is_distinct),
            None => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.way_of(&args) {
            Some(Way::Numbers(fold)) => Box::new(Many::new(fold)),
            Some(Way::Floats(fold)) => Box::new(Many::new(fold)),
            Some(Way::Named(fold)) => Box::new(Many::new(fold)),
            None => return self.inner.create_groups_accumulator(args),
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match self.way_of(&args) {
            Some(Way::Numbers(fold)) => Ok(one(fold, args.is_distinct)),
            Some(Way::Named(fold)) => Ok(Box::new(SlidingNamed::new(fold))),
            None if self.is_of_doubles(&args) => {
                Ok(Box::new(MovingDoubles::new(self.what == What::Average)))
            }
            None if self.what == What::Spread && !args.is_distinct => {
                Ok(Box::new(MovingStates::new(&self.inner, &args)?))
            }
            // Of the least and greatest floats in a window DataFusion keeps a total order.
            _ => self.inner.inner().create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn value_from_stats(&self, statistics_args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(statistics_args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        // Text that is a UUID has an order of its own, and nobody asks with the field.
        match data_type.is_string() {
            true => SetMonotonicity::NotMonotonic,
            false => self.inner.inner().set_monotonicity(data_type),
        }
    }
}

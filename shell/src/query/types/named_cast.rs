//! A cast with a name of its own: the planner names a cast after what it casts, and then takes
//! `GROUP BY CAST(c AS date), c` for two columns of one name.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::query::parse::NAMED_CAST;

/// The function that stands around such a cast.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(NamedCast { signature: Signature::any(1, Volatility::Immutable) })
}

/// Gives its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAMED_CAST
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [Expr::Cast(cast)] => {
                format!("CAST({} AS {})", cast.expr.schema_name(), cast.field.data_type())
            }
            [other] => other.schema_name().to_string(),
            _ => NAMED_CAST.to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(FieldRef::clone(&args.arg_fields[0]))
    }

    fn simplify(&self, mut args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.pop() {
            Some(argument) => Ok(ExprSimplifyResult::Simplified(argument)),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

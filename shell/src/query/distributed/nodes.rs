//! The table `system.nodes`: the nodes of the cluster, as this one sees them now.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use futures::future::join_all;
use tidegate_engine::Error as EngineError;

use crate::query::engine::Engine;

pub fn fields() -> Vec<Field> {
    vec![
        Field::new("node", DataType::Utf8, false),
        Field::new("address", DataType::Utf8, false),
        Field::new("is_this", DataType::Boolean, false),
        Field::new("share", DataType::Float64, false),
        Field::new("answers", DataType::Boolean, false),
        Field::new("problem", DataType::Utf8, true),
    ]
}

/// Asks each node whether it is there. Without a cluster there are none.
pub async fn columns(engine: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let cluster = engine.cluster();
    let ring = engine.ring();
    let nodes: Vec<_> = ring.iter().flat_map(|ring| ring.nodes()).collect();
    let reached = nodes.iter().filter_map(|node| Some(cluster?.reach(*node)));
    let problems: Vec<Option<String>> = join_all(reached)
        .await
        .into_iter()
        .map(|reached| reached.err().map(|error| error.to_string()))
        .collect();
    let known = cluster.map_or(&[][..], |cluster| cluster.nodes());
    let texts = |of: fn(&(String, String)) -> &String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(known.iter().map(of)))
    };
    let shares = nodes.iter().map(|node| {
        let ranges = ring.map_or(Vec::new(), |ring| ring.ranges_of(*node)).into_iter();
        let size = |(first, last): (_, _)| size(first, last);
        ranges.map(size).sum::<f64>()
    });
    let is_this = nodes.iter().map(|node| ring.map(|ring| ring.own() == *node));
    Ok(vec![
        texts(|(name, _)| name),
        texts(|(_, address)| address),
        Arc::new(is_this.collect::<BooleanArray>()),
        Arc::new(Float64Array::from_iter_values(shares)),
        Arc::new(problems.iter().map(|one| Some(one.is_none())).collect::<BooleanArray>()),
        Arc::new(problems.into_iter().collect::<StringArray>()),
    ])
}

/// The part of the ring between two tokens.
fn size(first: tidegate_engine::schema::Token, last: tidegate_engine::schema::Token) -> f64 {
    (i128::from(last.0) - i128::from(first.0) + 1) as f64 / 2_f64.powi(64)
}

#[cfg(test)]
mod tests {
    use tidegate_engine::schema::Token;

    use super::*;

    #[test]
    fn shares_of_the_ring_count_both_of_their_ends() {
        let whole = 2_f64.powi(64);
        for (first, last, wanted) in [
            (i64::MIN, i64::MAX, 1.0),
            (i64::MIN, -1, 0.5),
            (0, i64::MAX, 0.5),
            (i64::MIN / 2, i64::MAX / 2, 0.5),
            (0, i64::MAX / 2, 0.25),
            (7, 7, 1.0 / whole),
            (-1, 0, 2.0 / whole),
            (i64::MAX, i64::MAX, 1.0 / whole),
        ] {
            let share = size(Token(first), Token(last));
            assert!((share - wanted).abs() < f64::EPSILON * wanted, "{first} to {last}: {share}");
        }
    }
}

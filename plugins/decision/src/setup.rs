//! What a policy is told when it starts, and the one way to chance.

/// The arguments of `lifecycle.init`.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// `name = value` pairs of the statement that made the policy, ascending, names once each.
    pub params: Vec<(String, String)>,
    /// Entries that the cache can hold; 0 where there is no cache.
    pub max_slots: u32,
    pub shard: u32,
    /// The only source of randomness.
    pub seed: u64,
}

impl Setup {
    /// The value of a numeric parameter within `range`, or `default` where it is not given.
    ///
    /// Errors: it is no whole number, or out of range.
    pub fn number(
        &self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let Some((_, value)) = self.params.iter().find(|(given, _)| given == name) else {
            return Ok(default);
        };
        let number = value.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("parameter {name}: '{value}' is no whole number from {least} to {most}")
        })
    }

    /// Refuses parameters that the policy does not have.
    ///
    /// Errors: a parameter is not in `known`.
    pub fn allow_params(&self, known: &[&str]) -> Result<(), String> {
        match self.params.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => {
                Err(format!("unknown parameter '{name}'; this policy has none"))
            }
            Some((name, _)) => Err(format!("unknown parameter '{name}'; known: {known:?}")),
        }
    }
}

/// A seeded sequence (SplitMix64): equal seeds, equal draws, native and as a component.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "a sequence without end is no iterator here")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_within_their_range() {
        let params = vec![("a".to_string(), "7".to_string()), ("b".to_string(), "x".to_string())];
        let setup = Setup { params, ..Setup::default() };
        assert_eq!(setup.number("a", 1, 0..=9), Ok(7));
        assert_eq!(setup.number("c", 1, 0..=9), Ok(1));
        assert!(setup.number("a", 1, 0..=6).is_err_and(|error| error.contains("0 to 6")));
        assert!(setup.number("b", 1, 0..=6).is_err());
        assert!(setup.allow_params(&["a", "b"]).is_ok());
        assert!(setup.allow_params(&["a"]).is_err_and(|error| error.contains("'b'")));
    }

    #[test]
    fn draws_are_those_of_the_engine() {
        // The first two of SplitMix64 with seed 0.
        let mut draw = Draw::new(0);
        assert_eq!(draw.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(draw.next(), 0x6E78_9E6A_A1B9_65F4);
    }
}

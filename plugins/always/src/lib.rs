//! Admission: everything that is read is kept, as without a policy. The yardstick for the others, and
//! the smallest example of its world.

use tidegate_plugin_decision::{AdmissionPolicy, Candidate, Setup};

tidegate_plugin_decision::export_admission!(Always, "../../wit/v0.1");

/// The policy of one shard.
#[derive(Debug)]
pub struct Always;

impl AdmissionPolicy for Always {
    const NAME: &'static str = "always";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 0;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Always)
    }

    fn admit(&mut self, _: &Candidate) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_kept() {
        let mut always = Always::new(&Setup::default()).expect("no parameters");
        let candidate = Candidate { fingerprint: 1, size_cost: 4096, ctx: 4 };
        assert!(always.admit(&candidate));
        let params = vec![("a".to_string(), "1".to_string())];
        assert!(Always::new(&Setup { params, ..Setup::default() }).is_err());
    }
}

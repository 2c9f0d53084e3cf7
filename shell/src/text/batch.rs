//! `BEGIN BATCH … APPLY BATCH` is one statement, although it has semicolons in it.

/// Follows the words of a statement and knows whether a semicolon ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchWords {
    stage: Stage,
    follows_apply: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// Before the first word.
    #[default]
    Start,
    /// Behind BEGIN, or BEGIN and a kind of batches.
    Begun,
    Kind,
    Batch,
    /// No batch, or one that has ended.
    Other,
}

impl BatchWords {
    /// Takes the next token that is no space and no comment.
    pub fn take(&mut self, token: &str) {
        let is = |word: &str| token.eq_ignore_ascii_case(word);
        self.stage = match self.stage {
            Stage::Start if is("begin") => Stage::Begun,
            Stage::Begun if is("unlogged") || is("logged") || is("counter") => Stage::Kind,
            Stage::Begun | Stage::Kind if is("batch") => Stage::Batch,
            Stage::Batch if !(self.follows_apply && is("batch")) => Stage::Batch,
            _ => Stage::Other,
        };
        self.follows_apply = is("apply");
    }

    /// Whether a semicolon stands within a batch.
    pub fn is_within(self) -> bool {
        self.stage == Stage::Batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_on_to_its_end() {
        let is_within = |text: &str| {
            let mut words = BatchWords::default();
            text.split_whitespace().for_each(|word| words.take(word));
            words.is_within()
        };
        for open in [
            "begin batch",
            "BEGIN UNLOGGED BATCH insert ;",
            "begin logged batch apply",
            "begin counter batch batch",
            "Begin Counter Batch",
            "begin batch apply ; batch",
            "begin batch apply batches",
        ] {
            assert!(is_within(open), "{open}");
        }
        for ended in [
            "",
            "begin",
            "begin transaction",
            "begin unlogged",
            "begin x batch",
            "insert begin batch",
            "begin batch insert ; apply batch",
            "Begin Unlogged Batch update ; Apply Batch",
            "begin counter batch apply apply batch",
            "begin logged unlogged batch",
            "begin batch apply batch begin batch",
        ] {
            assert!(!is_within(ended), "{ended}");
        }
    }
}

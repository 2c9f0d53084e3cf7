//! How large the window should be: a hill climber on the hit ratio.
//!
//! Invariant: the share stays within `LEAST..=MOST`.

const LEAST: f64 = 0.005;
const MOST: f64 = 0.8;
/// First step, and the step after the requests changed their nature.
const STEP: f64 = 1.0 / 32.0;
/// Each step is shorter than the one before, so that the climber comes to rest.
const SHORTER: f64 = 0.98;
/// Change of the hit ratio that tells that the requests changed their nature.
const RESTART: f64 = 0.05;

/// Moves the share of the window once a period: on while the hit ratio grows, else back.
#[derive(Debug)]
pub struct Climber {
    share: f64,
    adaptive: bool,
    step: f64,
    hits: u32,
    requests: u32,
    /// Hit ratio of the period before.
    before: Option<f64>,
}

impl Climber {
    /// Starts at a share, and stays there unless `adaptive`.
    pub fn new(share: f64, adaptive: bool) -> Self {
        Climber { share, adaptive, step: STEP, hits: 0, requests: 0, before: None }
    }

    /// What it found so far: the share and the next step.
    pub fn found(&self) -> [f64; 2] {
        [self.share, self.step]
    }

    /// Goes on where another one was.
    ///
    /// Errors: shares and steps that no climber has; this one is told to stay.
    pub fn go_on(&mut self, [share, step]: [f64; 2]) -> Result<(), String> {
        if !self.adaptive {
            return Err("the window is fixed by a parameter".to_owned());
        }
        let fits = (LEAST..=MOST).contains(&share) && step.abs() <= STEP;
        if !fits {
            // As whole numbers: printing floating point would be a third of the component.
            let percent = |of: f64| (of * 100.0) as i32;
            let (share, step) = (percent(share), percent(step));
            return Err(format!("a window of {share} % with a step of {step} %"));
        }
        (self.share, self.step) = (share, step);
        Ok(())
    }

    /// Share of the cache that the window should have.
    #[inline]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Takes in one request; a period is so many. True when the share may have changed.
    #[inline]
    pub fn note(&mut self, hit: bool, period: u32) -> bool {
        self.hits += u32::from(hit);
        self.requests += 1;
        let over = self.requests >= period;
        if over {
            self.climb();
        }
        over
    }

    fn climb(&mut self) {
        let ratio = f64::from(self.hits) / f64::from(self.requests);
        (self.hits, self.requests) = (0, 0);
        let before = self.before.replace(ratio);
        let Some(change) = before.map(|before| ratio - before).filter(|_| self.adaptive) else {
            return;
        };
        if change < 0.0 {
            self.step = -self.step;
        }
        self.step = match change.abs() >= RESTART {
            true => STEP.copysign(self.step),
            false => self.step * SHORTER,
        };
        self.share = (self.share + self.step).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(climber: &mut Climber, hits: u32) -> f64 {
        let climbed = (0..100).filter(|request| climber.note(*request < hits, 100)).count();
        assert_eq!(climbed, 1);
        (climber.share() * 10_000.0).round() / 10_000.0
    }

    #[test]
    fn it_goes_on_while_hits_grow_and_turns_when_they_fall() {
        let mut climber = Climber::new(0.1, true);
        assert_eq!(period(&mut climber, 50), 0.1, "one period says nothing");
        assert_eq!(period(&mut climber, 51), 0.1306, "0.98 of a 32nd more");
        assert_eq!(period(&mut climber, 51), 0.1606);
        assert_eq!(period(&mut climber, 49), 0.1312, "back");
        assert_eq!(period(&mut climber, 80), 0.1, "and with a full step");
        (0..4).for_each(|_| assert!(period(&mut climber, 80) < 0.1));
        assert_eq!(period(&mut climber, 80), 0.005, "not below the least");
    }

    #[test]
    fn it_can_be_told_to_stay() {
        let mut climber = Climber::new(0.25, false);
        for hits in [10, 90, 20] {
            assert_eq!(period(&mut climber, hits), 0.25);
        }
    }
}

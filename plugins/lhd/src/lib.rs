//! LHD, least hit density: of a few entries drawn at random the one leaves that will bring the fewest
//! hits for the room it takes. How many that are is surveyed: entries are sorted into classes by the
//! time between their last uses, and of each class it is known at what age they are read or leave.
//!
//! Source: N. Beckmann, H. Chen, A. Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit Density",
//! NSDI 2018.
//!
//! Memory: 24 bytes a slot for times, identity and place, 6 for the order while it is drained; and for
//! the classes what ages occur, up to 5 MB however small the cache is.
//!
//! Invariant: `members` holds exactly the resident slots, each at its `place`. Randomness comes from
//! the seed alone.

mod age;

use age::{AGES, AgeClass};
use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::shorten;

tidegate_plugin::export_eviction!(Lhd);

/// Classes by the time between the last uses, from longest to shortest.
const CLASSES: usize = 16;
/// Newcomers that are always looked at: the last that seemed worse than the usual victim.
const NEWCOMERS: usize = 8;
/// Entries drawn for a victim.
const DRAWN: u32 = 32;
/// The same before that many surveys, for quicker learning: less is known anyway.
const DRAWN_EARLY: u32 = 8;
const SURVEYS_EARLY: u32 = 50;
/// Surveys at which ages are fitted to the size of the cache.
const SURVEYS_FITTING: [u32; 2] = [5, 25];
/// One use of so many makes an entry an explorer: it stays until it is read, so that something is
/// learnt of ages at which entries of its class usually are gone.
const EXPLORER_EVERY: u64 = 32;
/// Share of the cache that explorers may take: one in so many.
const EXPLORERS_SHARE: u32 = 100;
/// Uses between two classes of a survey, so that no single event pays for all of them.
const SURVEY_SPREAD: u32 = 4096;
const DECAY: f32 = 0.9;
/// Not in `members`.
const OUT: u32 = u32::MAX;

/// One entry, resident or just given away.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// When it was used last, in uses of the cache.
    used: u32,
    /// Age at its last use and at the one before.
    ages: [u16; 2],
    /// Low half of its fingerprint.
    identity: u32,
    /// Where it stands in `members`, or `OUT`.
    place: u32,
    explorer: bool,
    given: bool,
}

const NOBODY: Entry =
    Entry { used: 0, ages: [0; 2], identity: 0, place: OUT, explorer: false, given: false };

/// The policy of one shard.
#[derive(Debug)]
pub struct Lhd {
    entries: Vec<Entry>,
    members: Vec<Slot>,
    classes: Vec<AgeClass>,
    newcomers: [Option<Slot>; NEWCOMERS],
    newest: usize,
    random: u64,
    /// Uses of the cache so far.
    now: u32,
    /// An age is so many bits of uses.
    age_shift: u32,
    /// The same when the survey under way is adopted.
    shift_next: u32,
    /// Uses between surveys.
    period: u32,
    until_survey: u32,
    surveys: u32,
    /// First class that the survey under way has not reached.
    class: usize,
    until_class: u32,
    explorers_left: i64,
    /// Density of the usual victim.
    victim_density: f32,
    /// Entries of the cache, and the weight of that figure.
    entries_average: [f32; 2],
}

impl Lhd {
    /// A number below `bound`.
    fn draw(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((mixed ^ mixed >> 31) >> 32) * bound) >> 32
    }

    #[inline]
    fn age(&self, entry: &Entry) -> usize {
        let age = self.now.wrapping_sub(entry.used) >> self.age_shift;
        (age as usize).min(AGES - 1)
    }

    #[inline]
    fn density(&self, slot: Slot) -> f32 {
        let entry = &self.entries[slot as usize];
        let age = self.age(entry);
        if age == AGES - 1 {
            return f32::MIN;
        }
        let density = self.classes[class(entry)].density(age);
        if entry.explorer { density + 1.0 } else { density }
    }

    /// A use of the cache: the entry is as of now, and it may become an explorer.
    fn used(&mut self, slot: Slot) -> bool {
        let explores = self.draw(EXPLORER_EVERY) == 0;
        let becomes = explores && self.explorers_left > 0 && self.surveys < SURVEYS_EARLY;
        let entry = &mut self.entries[slot as usize];
        (entry.used, entry.explorer) = (self.now, becomes);
        self.explorers_left -= i64::from(becomes);
        explores
    }

    fn insert(&mut self, slot: Slot, identity: u32) {
        let entry = &self.entries[slot as usize];
        if entry.given && entry.identity == identity {
            // Read before it was taken: it is who it was, and the read follows.
            self.put_back(slot);
            return;
        }
        self.remove(slot);
        // As if it had been used twice ages ago: the class of the longest times.
        self.entries[slot as usize] = Entry { identity, ages: [0, AGES as u16], ..NOBODY };
        self.join(slot);
        let explores = self.used(slot);
        if !explores && self.density(slot) < self.victim_density {
            self.newcomers[self.newest % NEWCOMERS] = Some(slot);
            self.newest += 1;
        }
        self.pass();
    }

    fn access(&mut self, slot: Slot) {
        let entry = self.entries[slot as usize];
        if entry.place == OUT {
            return;
        }
        let age = self.age(&entry);
        self.classes[class(&entry)].note_hit(age);
        self.explorers_left += i64::from(entry.explorer);
        self.entries[slot as usize].ages = [age as u16, entry.ages[0]];
        self.used(slot);
        self.pass();
    }

    fn join(&mut self, slot: Slot) {
        self.entries[slot as usize].place = self.members.len() as u32;
        self.members.push(slot);
    }

    /// Takes a slot out of `members`.
    fn remove(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let place = std::mem::replace(&mut entry.place, OUT);
        entry.given = false;
        if place == OUT {
            return;
        }
        self.explorers_left += i64::from(entry.explorer);
        self.members.swap_remove(place as usize);
        if let Some(moved) = self.members.get(place as usize) {
            self.entries[*moved as usize].place = place;
        }
        for newcomer in &mut self.newcomers {
            if *newcomer == Some(slot) {
                *newcomer = None;
            }
        }
    }

    /// Puts a victim back as it was.
    fn put_back(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        if !entry.given {
            return;
        }
        (entry.given, entry.explorer) = (false, false);
        let entry = *entry;
        let age = self.age(&entry);
        self.classes[class(&entry)].undo_eviction(age);
        self.join(slot);
    }

    /// Time goes on by one use; now and then a survey begins or goes on.
    fn pass(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.until_survey -= 1;
        if self.until_survey == 0 {
            self.until_survey = self.period;
            self.fit();
            self.surveys += 1;
            (self.class, self.until_class) = (0, 1);
        }
        if self.class < CLASSES {
            self.until_class -= 1;
            if self.until_class == 0 {
                self.until_class = SURVEY_SPREAD;
                let shift = self.shift_next as i32 - self.age_shift as i32;
                self.classes[self.class].rescale(shift);
                self.classes[self.class].survey();
                self.class += 1;
                if self.class == CLASSES {
                    self.classes.iter_mut().for_each(AgeClass::adopt);
                    self.age_shift = self.shift_next;
                }
            }
        }
    }

    /// Chooses the length of an age so that two hundred of them go by while each entry is used once:
    /// then the last age is for a hundred such times, which next to no entry reaches.
    fn fit(&mut self) {
        let [entries, weight] = &mut self.entries_average;
        *entries = *entries * DECAY + self.members.len() as f32;
        *weight = *weight * DECAY + 1.0;
        if SURVEYS_FITTING.contains(&self.surveys) {
            let uses = (*entries / *weight / (0.01 * AGES as f32)).ceil() as u32;
            self.shift_next = uses.max(2).next_power_of_two().trailing_zeros();
            // What was found now is to hold for a while.
            (*entries, *weight) = (*entries * 8.0, *weight * 8.0);
        }
    }
}

/// The shorter the time between the last uses, the higher the class; each is for half the time of the
/// one below.
#[inline]
fn class(entry: &Entry) -> usize {
    match u32::from(entry.ages[0]) + u32::from(entry.ages[1]) {
        0 => CLASSES - 1,
        // How often the age may be doubled and is below `AGES` still.
        age => (u32::BITS - ((AGES as u32 - 1) / age).leading_zeros()) as usize,
    }
}

impl EvictionPolicy for Lhd {
    const NAME: &'static str = "lhd";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 30;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["period", "age_shift"])?;
        let period = setup.number("period", 1 << 20)?;
        if !(1 << 16..=1 << 30).contains(&period) {
            return Err(format!("parameter period: {period} is not in 65536..=1073741824"));
        }
        let age_shift = setup.number("age_shift", 10)?;
        if !(1..=20).contains(&age_shift) {
            return Err(format!("parameter age_shift: {age_shift} is not in 1..=20"));
        }
        // Before the first survey, the class of the shortest times is worth about twice the other.
        let classes = (0..CLASSES).map(|class| AgeClass::new((CLASSES + 1 + class) as f32));
        Ok(Lhd {
            entries: vec![NOBODY; setup.max_slots as usize],
            members: Vec::with_capacity(setup.max_slots as usize),
            classes: classes.collect(),
            newcomers: [None; NEWCOMERS],
            newest: 0,
            random: setup.seed,
            now: 0,
            age_shift: age_shift as u32,
            shift_next: age_shift as u32,
            period: period as u32,
            until_survey: period as u32,
            surveys: 0,
            class: CLASSES,
            until_class: 0,
            explorers_left: i64::from(setup.max_slots / EXPLORERS_SHARE),
            victim_density: 0.0,
            entries_average: [0.0; 2],
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => self.access(slot),
            Op::Insert | Op::Restore => {
                self.insert(slot, attributes.map_or(0, |of| shorten(of.fingerprint())));
            }
            Op::Remove => self.remove(slot),
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn next_victim(&mut self) -> Option<Slot> {
        let mut victim = (f32::MAX, *self.members.first()?);
        let drawn = if self.surveys > SURVEYS_EARLY { DRAWN } else { DRAWN_EARLY };
        for _ in 0..drawn {
            let at = self.draw(self.members.len() as u64) as usize;
            let slot = self.members[at];
            let density = self.density(slot);
            if density < victim.0 {
                victim = (density, slot);
            }
        }
        for slot in self.newcomers.iter().flatten() {
            let density = self.density(*slot);
            if density < victim.0 {
                victim = (density, *slot);
            }
        }
        let (density, slot) = victim;
        self.victim_density = DECAY * self.victim_density + (1.0 - DECAY) * density;
        let entry = self.entries[slot as usize];
        let age = self.age(&entry);
        self.classes[class(&entry)].note_eviction(age);
        self.remove(slot);
        self.entries[slot as usize].given = true;
        Some(slot)
    }

    /// By density, roughly: counted into buckets, because sorting would cost too much at once.
    fn order(&self, slots: &mut Vec<Slot>) {
        // The upper bits of a float that is not negative sort like the float.
        let bucket = |slot: Slot| match self.density(slot) {
            density if density < 0.0 => 0,
            density => (density.to_bits() >> 19) as u16,
        };
        let buckets: Vec<u16> = self.members.iter().map(|slot| bucket(*slot)).collect();
        let mut starts = vec![0u32; 1 << 13];
        buckets.iter().for_each(|bucket| starts[usize::from(*bucket) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let first = slots.len();
        slots.resize(first + self.members.len(), 0);
        for (slot, bucket) in self.members.iter().zip(buckets) {
            let start = &mut starts[usize::from(bucket)];
            slots[first + *start as usize] = *slot;
            *start += 1;
        }
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        let slots = self.entries.len().max(max_slots as usize);
        self.explorers_left += ((slots - self.entries.len()) / EXPLORERS_SHARE as usize) as i64;
        self.entries.resize(slots, NOBODY);
        self.members.reserve(slots - self.members.len());
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("resident", self.members.len() as f64),
            ("surveys", f64::from(self.surveys)),
            ("age_uses", f64::from(1u32 << self.age_shift)),
            ("victim_density", f64::from(self.victim_density)),
            ("explorers_left", self.explorers_left as f64),
        ]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

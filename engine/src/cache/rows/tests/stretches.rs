//! Scans of a stretch of the ring.

use super::*;
use crate::schema::Token;

impl World {
    /// A scan of some stretch, and what it must give. Its ends lie at keys, beside them, or at the
    /// ends of the ring.
    pub(super) fn open_some(&mut self) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let end = |world: &mut World, outermost: Token| match world.below(4) {
            0 => outermost,
            aside => Token(world.key().token().0 + aside as i64 - 2),
        };
        let (one, other) = (end(self, Token::MIN), end(self, Token::MAX));
        let direction = if self.below(2) == 0 { Direction::Forward } else { Direction::Reversed };
        self.open_stretch((one.min(other), one.max(other)), direction)
    }

    /// A scan of a stretch, and what it must give.
    pub(super) fn open_stretch(
        &self,
        (min, max): (Token, Token),
        direction: Direction,
    ) -> (Vec<Fragment>, Box<dyn FragmentSource>) {
        let slice = Slice::full(direction);
        let is_within = |key: &PartitionKey| (min..=max).contains(&key.token());
        let within = self.disk.data.iter().filter(|(key, _)| is_within(key));
        let expected = within.flat_map(|(key, data)| data.read(&self.schema, key, &slice));
        let expected = expected.collect();
        (expected, self.rows.scan((min, max), direction, self.disk.clone(), self.generation))
    }
}

/// The pieces of a ring give each partition once. After two turns nobody asks the disk, not even
/// for the gaps in which they meet.
#[test]
fn pieces_side_by_side_are_the_ring() {
    for seed in 0..120 {
        let mut world = World::new(seed);
        world.pages.set_capacity_bytes(1 << 20);
        for _ in 0..seed % 7 {
            world.flush();
        }
        let mut ends: Vec<Token> = world.disk.data.keys().map(|key| key.token()).collect();
        // A piece between two neighbours, without any partition.
        ends.extend(ends.first().map(|end| Token(end.0 + 5)));
        ends.truncate(seed as usize % 5);
        ends.push(Token::MAX);
        ends.sort();
        for turn in 0..5 {
            let what = format!("seed {seed}, turn {turn}, ends {ends:?}");
            let before = world.disk.reads.get();
            let (mut start, mut found) = (Token::MIN, Vec::new());
            let direction = [Direction::Forward, Direction::Reversed][seed as usize % 2];
            for end in &ends {
                let (expected, source) = world.open_stretch((start, *end), direction);
                let given = read_all(source);
                same_scan(&given, &expected, &what);
                found.extend(given);
                start = Token(end.0.wrapping_add(1));
            }
            same_scan(&found, &world.open_stretch(WHOLE, direction).0, &what);
            world.check();
            let reads = world.disk.reads.get() - before;
            let most = if turn < 2 { 2 * ends.len() as u64 } else { 0 };
            assert!(reads <= most, "{what}: {reads} reads");
        }
        let before = world.disk.reads.get();
        for direction in [Direction::Forward, Direction::Reversed] {
            let (expected, whole) = world.open_stretch(WHOLE, direction);
            same_scan(&read_all(whole), &expected, &format!("seed {seed}"));
        }
        assert_eq!(world.disk.reads.get(), before, "seed {seed}: all was known");
    }
}

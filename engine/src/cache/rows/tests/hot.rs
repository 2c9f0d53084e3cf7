//! What readers come back to stays, also where they stop early.

use super::*;
use crate::mutation::{Filled, FragmentSink};

/// Takes fragments to the first row, as a reader with LIMIT 1 does.
struct FirstRow(bool);

impl FragmentSink for FirstRow {
    fn row(&mut self, _flat: &FlatRow) -> bool {
        self.0 = true;
        false
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.0 |= matches!(fragment, Fragment::Row { .. });
        !self.0
    }
}

fn read_first(mut source: Box<dyn FragmentSource>) {
    let mut first = FirstRow(false);
    loop {
        if matches!(source.pass_now(&mut first), Filled::End) || first.0 {
            return;
        }
        let mut fragments = VecDeque::new();
        block_on(source.fill(&mut fragments)).unwrap();
        if fragments.into_iter().any(|fragment| !first.fragment(fragment)) {
            return;
        }
    }
}

/// Under LRU nothing that a hot reader needs leaves for what is read once: neither rows nor what
/// says where known stretches begin and end.
#[test]
fn the_first_rows_of_hot_slices_are_never_read_again() {
    let schema = schema();
    let position = |ck: i32| Position::before(clustering(&schema, ck));
    let ranges = [
        ClusteringRange::full(),
        ClusteringRange { start: position(3), end: Position::end() },
        ClusteringRange { start: Position::start(), end: position(5) },
        ClusteringRange { start: position(2), end: position(6) },
        // Without a row of its own, and with none before it.
        ClusteringRange { start: position(-5), end: position(1) },
    ];
    let data = Data {
        exists: true,
        rows: (0..8)
            .map(|ck| (ck, Row { liveness: Some(Liveness::at(1)), ..Row::default() }))
            .collect(),
        ..Data::default()
    };
    let keys: Vec<_> = (0..60).map(|n| PartitionKey::from_bytes(i32::to_be_bytes(n))).collect();
    let disk = Rc::new(Disk {
        schema: schema.clone(),
        data: keys.iter().map(|key| (key.clone(), data.clone())).collect(),
        reads: Cell::new(0),
        chunk: 100,
    });
    for (range, direction) in ranges
        .iter()
        .flat_map(|range| [Direction::Forward, Direction::Reversed].map(|d| (range, d)))
    {
        let pages = PageCache::new(16 << 10, 1);
        let rows = RowCache::new(pages.clone(), schema.clone());
        let slice = Slice { ranges: vec![range.clone()], direction };
        let (hot, cold) = keys.split_at(4);
        for (turn, cold) in cold.iter().cycle().take(400).enumerate() {
            for hot in hot {
                read_first(rows.read(hot, &slice, disk.clone(), 0));
            }
            if turn == 0 {
                disk.reads.set(0);
            }
            read_all(rows.read(cold, &Slice::full(Direction::Forward), disk.clone(), 0));
        }
        assert!(rows.stats().evictions > 1000, "cold partitions push each other out");
        assert_eq!(rows.stats().gaps_read, 0, "{range:?} {direction:?}");
        assert_eq!(disk.reads.get(), 400, "{range:?} {direction:?}: each cold one once a turn");
    }
}

//! A reader, a flush and one that forgets, step by step in every order that there is.

use super::stops::Reading;
use super::*;
use crate::runtime::EachTurn;

/// Calls `run` with every order of so many steps of each.
fn each_order(counts: [usize; 3], run: &mut dyn FnMut(&[usize])) -> usize {
    fn go(left: [usize; 3], order: &mut Vec<usize>, run: &mut dyn FnMut(&[usize])) -> usize {
        if left == [0; 3] {
            run(order);
            return 1;
        }
        let mut orders = 0;
        for who in (0..3).filter(|who| left[*who] > 0) {
            let mut left = left;
            left[who] -= 1;
            order.push(who);
            orders += go(left, order, run);
            order.pop();
        }
        orders
    }
    go(counts, &mut Vec::new(), run)
}

/// What the third one does.
#[derive(Debug, Clone, Copy)]
enum Third {
    Invalidate,
    EvictAll,
    /// Reads everything, a step at a time.
    Read(Direction),
}

fn row(at: i64) -> Row {
    let mut row = Row { liveness: Some(Liveness::at(at)), ..Row::default() };
    row.put(ColumnId(2), RowCell::live(at, 5i32.to_be_bytes()));
    row
}

/// Rows and deletions of one partition.
fn data(schema: &SchemaRef, rows: &[i32], covered: Option<[i32; 2]>, at: i64) -> Data {
    let mut data = Data { exists: true, ..Data::default() };
    data.rows.extend(rows.iter().map(|ck| (*ck, row(at))));
    if let Some([first, last]) = covered {
        let start = Position::before(clustering(schema, first));
        let end = Position::after(clustering(schema, last));
        let tombstone = Tombstone { timestamp: at, deletion_time: 1 };
        data.ranges.add(RangeTombstone { range: ClusteringRange { start, end }, tombstone });
    }
    data
}

#[test]
fn a_reader_a_flush_and_one_that_forgets_in_every_order() {
    let turns = EachTurn::new();
    let schema = schema();
    let key = PartitionKey::from_bytes(i32::to_be_bytes(0));
    let stored = [data(&schema, &[0, 2], None, 3), data(&schema, &[0, 2], Some([1, 2]), 3)];
    let brought = [
        data(&schema, &[1, 2], None, 5),
        data(&schema, &[1], Some([0, 1]), 5),
        // Older than what is stored.
        data(&schema, &[3], Some([0, 2]), 1),
    ];
    let directions = [Direction::Forward, Direction::Reversed];
    let thirds = [
        (Third::Invalidate, [5, 3, 1]),
        (Third::EvictAll, [4, 4, 1]),
        (Third::Read(Direction::Reversed), [3, 3, 3]),
    ];
    let mut orders = 0;
    for (stored, brought) in stored.iter().flat_map(|a| brought.iter().map(move |b| (a, b))) {
        for direction in directions {
            for (third, steps) in thirds {
                let is_warm = matches!(third, Third::EvictAll);
                let mut run = |order: &[usize]| {
                    let mut world = World::new(1);
                    world.keys = 4;
                    world.pages.set_capacity_bytes(1 << 20);
                    world.replace(BTreeMap::from([(key.clone(), stored.clone())]), 1);
                    let asked = Asked::One(key.clone(), Slice::full(direction));
                    if is_warm {
                        world.read_now(asked.clone(), "warm");
                        world.evict_some(3);
                    }
                    let what =
                        format!("{stored:?}, {brought:?}, {direction:?}, {third:?}: {order:?}");
                    let (mut reading, mut flush, mut other) = (None, None, None);
                    for who in order {
                        match who {
                            0 => {
                                reading
                                    .get_or_insert_with(|| Reading::begin(&world, asked.clone()))
                                    .step(&turns);
                            }
                            1 => {
                                let begin =
                                    || Some(world.begin_flush(key.clone(), brought.clone()));
                                let work = flush.get_or_insert_with(begin);
                                if work
                                    .as_mut()
                                    .is_some_and(|work| turns.poll(work.as_mut()).is_ready())
                                {
                                    *work = None;
                                    world.forget_beside();
                                }
                            }
                            _ => match third {
                                Third::Invalidate => world.rows.invalidate(),
                                Third::EvictAll => world.evict_all(),
                                Third::Read(direction) => {
                                    let asked = Asked::One(key.clone(), Slice::full(direction));
                                    other
                                        .get_or_insert_with(|| Reading::begin(&world, asked))
                                        .step(&turns);
                                }
                            },
                        }
                    }
                    world.check();
                    if let Some(Some(mut work)) = flush {
                        while turns.poll(work.as_mut()).is_pending() {}
                        world.forget_beside();
                    }
                    world.check();
                    for reading in [reading, other].into_iter().flatten() {
                        reading.finish(&turns, &what);
                    }
                    world.check();
                    world.read_now(asked, &what);
                    world.check();
                };
                orders += each_order(steps, &mut run);
            }
        }
    }
    assert!(orders > 10_000, "{orders} orders");
}

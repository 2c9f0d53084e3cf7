//! Lives on disks that lie, and files of which a bit turned.

use tidegate_engine::disk::Faults;
use tidegate_engine::{Database, Direction, Durability};
use tokio::task::LocalSet;

use super::reference::{Range, Write, differ, invention};
use super::world::{self, Life, PARTITIONS, Tables, now};
use super::{Player, STEPS_MAX, any_like};

impl Player {
    /// A life on a disk that acknowledges writes and loses them or puts them elsewhere, and a look
    /// at what it left. What was acknowledged may be gone; what nobody wrote never shows.
    pub(super) fn lie(&mut self, durability: Durability) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for is_lying in [true, false] {
            let mut faults = Faults::default();
            if is_lying && self.random.one_in(2) {
                faults.lost_write_one_in = 1 + self.random.below(30);
            } else if is_lying {
                faults.misdirected_write_one_in = 1 + self.random.below(30);
            }
            let keeping = self.keeping();
            let life = Life::draw(&mut self.random, durability, keeping);
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                let opened = world::open(&self.disk, &self.clock, life).await;
                let Ok((database, tables)) = opened else {
                    self.met.damage_told += 1;
                    return;
                };
                self.set_faults(faults);
                for _ in 0..STEPS_MAX / 2 {
                    let write = self.draw_write();
                    let _ = database.apply(world::mutation(&tables, &write)).await;
                    self.unsure.entry(write.partition).or_default().push(write);
                    if self.random.one_in(10) {
                        let _ = database.flush(None).await;
                    }
                }
                for partition in 0..2 * PARTITIONS {
                    self.look_for_inventions(&database, &tables, partition).await;
                }
                let _ = database.close().await;
            });
            drop(local);
            self.disk.set_faults(Faults::default());
        }
    }

    /// Every value that a partition shows was once written to its row.
    async fn look_for_inventions(&mut self, database: &Database, tables: &Tables, partition: i32) {
        let slice = (&[Range::FULL][..], Direction::Forward);
        let read = world::read(database, tables, partition, slice, (None, false)).await;
        let Ok(found) = read else {
            self.met.damage_told += 1;
            return;
        };
        self.met.damage_passed += 1;
        let known = self.reference.writes.get(&partition).into_iter().flatten();
        let unsure = self.unsure.get(&partition).into_iter().flatten();
        let writes: Vec<&Write> = known.chain(unsure).collect();
        for row in found {
            if let Some(what) = invention(&writes, &row) {
                panic!("partition {partition} shows {row:?}: nobody wrote its {what}");
            }
        }
    }

    /// Turns a bit of an SSTable. Reads are refused, or right.
    pub(super) fn turn_a_bit(&mut self, durability: Durability) {
        // What was under way stays unsure: nothing can be said of it.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keeping = self.keeping();
        let life = Life::draw(&mut self.random, durability, keeping);
        let local = LocalSet::new();
        let is_whole = local.block_on(&runtime, async {
            let (database, tables) = world::open(&self.disk, &self.clock, life).await.unwrap();
            self.settle(&database, &tables).await;
            let closed = database.close().await;
            closed.is_ok()
        });
        drop(local);
        assert!(is_whole, "a database closes without a fault");
        let mut files = self.disk.files();
        files.retain(|(path, bytes)| *bytes > 0 && path.to_string_lossy().contains("-big-"));
        if files.is_empty() {
            return;
        }
        let (path, bytes) = &files[self.random.below(files.len() as u64) as usize];
        let offset = self.random.below(*bytes);
        self.disk.corrupt(path, offset, 1 << self.random.below(8));
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            // What other files tell as well costs no row.
            let indispensable = ["Data.db", "Index.db", "CompressionInfo.db"];
            let may_refuse =
                indispensable.iter().any(|name| path.to_string_lossy().ends_with(name));
            let opened = world::open(&self.disk, &self.clock, life).await;
            let (database, tables) = opened.expect("a bit of an SSTable refuses no database");
            for partition in 0..2 * PARTITIONS {
                let slice = (&[Range::FULL][..], Direction::Forward);
                let before = now(&self.clock);
                let read = world::read(&database, &tables, partition, slice, (None, false)).await;
                let found = match read {
                    Ok(found) => found,
                    Err(error) => {
                        assert!(may_refuse, "{}, byte {offset}: {error}", path.display());
                        self.met.damage_told += 1;
                        continue;
                    }
                };
                let rows = |now| self.reference.read(partition, &[Range::FULL], now);
                let (is_right, wanted) = any_like((before..=now(&self.clock)).map(rows), &found);
                if !is_right {
                    let place = format!("{}, byte {offset}", path.display());
                    differ(&format!("{partition}, a bit turned in {place}"), &found, &wanted);
                }
                self.met.damage_passed += 1;
            }
            // Its memtables are empty: there is nothing that it could fail to write.
            let _ = database.close().await;
        });
    }
}

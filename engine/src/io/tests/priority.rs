//! Shares that a policy plans: what it is told, that they act, and what follows a failure.

use futures::future::{join, join_all};

use super::*;
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy};
use crate::policy::{FailureKind, PolicyFailure};

const MS: u64 = 1_000_000;

/// What a policy is told once.
type Told = (DiskLoad, Vec<ClassLoad>);

/// Shares that tests set; without any it fails. And what it was told.
#[derive(Default, Clone)]
struct Script {
    plan: Rc<RefCell<Option<Vec<u32>>>>,
    told: Rc<RefCell<Vec<Told>>>,
}

impl IoPriorityPolicy for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn plan(
        &mut self,
        _: u64,
        disk: &DiskLoad,
        classes: &[ClassLoad],
        shares: &mut [u32],
    ) -> Result<(), PolicyFailure> {
        self.told.borrow_mut().push((*disk, classes.to_vec()));
        let plan = self.plan.borrow().clone().ok_or_else(|| PolicyFailure {
            kind: FailureKind::Trap,
            message: "on purpose".into(),
            backtrace: Vec::new(),
        })?;
        shares.iter_mut().zip(plan).for_each(|(shares, planned)| *shares = planned);
        Ok(())
    }
}

/// Looks at the time of a queue every few milliseconds, as a shard does.
async fn ticks(time: &Rc<Time>, queue: &IoQueue, until_ns: u64) {
    while time.now_ns() < until_ns {
        time.sleep_until(time.now_ns() + 10 * MS).await;
        queue.tick();
    }
}

fn shares(queue: &IoQueue) -> [u32; Class::COUNT] {
    Class::ALL.map(|class| queue.shares(class))
}

#[test]
fn planned_shares_act_on_their_shard_and_go_with_the_policy() {
    simulate(|time| async move {
        let scheduler = Scheduler::new(DiskModel::measured(&DISK), 2, time.now_ns());
        let (queue, served) = (time.queue(&scheduler), Served::new(&time));
        let other = time.queue(&scheduler);
        let script = Script::default();
        *script.plan.borrow_mut() = Some(vec![0, 0, 900, 5000, 100]);
        queue.set_policy(Some(("p".to_owned(), Box::new(script.clone()))));
        scheduler.set(Class::Flush, ClassSettings { shares: 100, bandwidth: None });
        let classes = [Class::Flush, Class::Maintenance];
        let page = |class| (class, Kind::Read, 4096);
        let loads = classes.into_iter().flat_map(|class| (0..16).map(move |_| page(class)));
        let until_ns = 2000 * MS;
        let loads: Vec<_> = loads.map(|load| served.load(&queue, load, until_ns)).collect();
        let had = || classes.map(|class| served.disk_seconds(class));
        let watch = async {
            assert_eq!(shares(&queue), [1000, 1000, 100, 100, 100], "not asked yet");
            ticks(&time, &queue, 200 * MS).await;
            // 0 is what is set, and more than the most is the most.
            assert_eq!(shares(&queue), [1000, 1000, 900, 1000, 100]);
            assert_eq!(shares(&other), [1000, 1000, 100, 100, 100], "another shard");
            let before = had();
            ticks(&time, &queue, 1000 * MS).await;
            let planned = [had()[0] - before[0], had()[1] - before[1]];
            queue.set_policy(None);
            assert_eq!(shares(&queue), [1000, 1000, 100, 100, 100]);
            let before = had();
            ticks(&time, &queue, 1800 * MS).await;
            [planned, [had()[0] - before[0], had()[1] - before[1]]]
        };
        let ([planned, set], _) = join(watch, join_all(loads)).await;
        let ratio = |had: [f64; 2]| had[0] / had[1];
        assert!((8.5..=9.5).contains(&ratio(planned)), "{planned:?}");
        assert!((0.95..=1.05).contains(&ratio(set)), "{set:?}");
        check_told(&script.told.borrow());
    });
}

/// Of two classes with sixteen pages under way each.
fn check_told(told: &[Told]) {
    assert_eq!(told.len(), 10, "once each 100 ms");
    for (at, (disk, classes)) in told.iter().enumerate() {
        assert_eq!((disk.read_iops, disk.write_iops), (DISK.read_iops, DISK.write_iops));
        assert_eq!(disk.read_bandwidth, DISK.read_bandwidth);
        assert_eq!(disk.write_bandwidth, DISK.write_bandwidth);
        assert_eq!(disk.elapsed_us, 100_000);
        assert!((1..=10).contains(&disk.in_disk), "{disk:?}");
        assert!(disk.p50_us >= 80 && disk.p99_us >= disk.p50_us, "{disk:?}");
        let started: u64 = classes.iter().map(|load| load.started).sum();
        assert!((1_000..=1_300).contains(&started), "pages of 86 µs, a tenth of a second");
        for (class, load) in Class::ALL.into_iter().zip(classes) {
            if class != Class::Flush && class != Class::Maintenance {
                let ClassLoad { shares, .. } = *load;
                assert_eq!(*load, ClassLoad { shares, ..ClassLoad::default() }, "{class:?}");
                continue;
            }
            assert_eq!(load.bytes, load.started * 4096, "{class:?}");
            assert_eq!(load.queued_bytes, load.queued * 4096, "{class:?}");
            assert!(load.arrived.abs_diff(load.started) <= 16 && load.queued <= 16, "{load:?}");
            let wanted = if at == 0 || class == Class::Maintenance { 100 } else { 900 };
            assert_eq!(load.shares, wanted, "{class:?} at {at}");
        }
        let [flush, .., maintenance] = &classes[2..] else { panic!("five classes") };
        if at > 0 {
            assert!(flush.p50_us < maintenance.p50_us, "who has more shares waits for less");
        }
    }
}

#[test]
fn after_a_failure_the_last_plan_holds_for_ten_intervals() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(1);
        let queue = time.queue(&scheduler);
        let script = Script::default();
        *script.plan.borrow_mut() = Some(vec![7; 5]);
        queue.set_policy(Some(("p".to_owned(), Box::new(script.clone()))));
        let request = async || drop(queue.admit(Class::Query, Kind::Read, 4096).await);
        request().await;
        ticks(&time, &queue, 150 * MS).await;
        assert_eq!(shares(&queue), [7; 5]);
        let (disk, _) = script.told.borrow()[0].clone();
        assert_eq!((disk.read_iops, disk.write_bandwidth), (0, 0), "nobody measured it");
        // Without I/O nobody asks.
        ticks(&time, &queue, 1000 * MS).await;
        assert_eq!(queue.policy_status().asked, 1);
        *script.plan.borrow_mut() = None;
        request().await;
        ticks(&time, &queue, 1200 * MS).await;
        let status = queue.policy_status();
        assert_eq!((status.asked, status.name.as_deref()), (2, Some("p")));
        assert_eq!(status.failure.map(|failure| failure.message), Some("on purpose".to_owned()));
        ticks(&time, &queue, 1900 * MS).await;
        assert_eq!(shares(&queue), [7; 5], "the last plan");
        ticks(&time, &queue, 2400 * MS).await;
        assert_eq!(shares(&queue), Class::ALL.map(Class::default_shares));
        request().await;
        ticks(&time, &queue, 3000 * MS).await;
        assert_eq!(queue.policy_status().asked, 2, "it is not asked again");
    });
}

/// Each shard finds its own shares right for compaction.
#[test]
fn shares_of_the_engine_give_way_to_statements_and_those_to_plans() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(1);
        let (queue, other) = (time.queue(&scheduler), time.queue(&scheduler));
        let (class, default) = (Class::Compaction, Class::ALL.map(Class::default_shares));
        let with = |own: u32| {
            let mut all = default;
            all[class.index()] = own;
            all
        };
        let set = |shares| scheduler.set(class, ClassSettings { shares, bandwidth: None });
        queue.set_native(class, 400);
        assert_eq!((shares(&queue), shares(&other)), (with(400), default), "of one shard");
        set(250);
        assert_eq!((shares(&queue), shares(&other)), (with(250), with(250)), "of a statement");
        let script = Script::default();
        let mut plan = vec![0; Class::COUNT];
        plan[class.index()] = 700;
        *script.plan.borrow_mut() = Some(plan);
        queue.set_policy(Some(("p".to_owned(), Box::new(script))));
        drop(queue.admit(Class::Query, Kind::Read, 4096).await);
        ticks(&time, &queue, 150 * MS).await;
        assert_eq!((shares(&queue), shares(&other)), (with(700), with(250)), "of a policy");
        queue.set_policy(None);
        assert_eq!(shares(&queue), with(250));
        // The default is no number that somebody set.
        set(class.default_shares());
        assert_eq!((shares(&queue), shares(&other)), (with(400), default));
        queue.set_native(class, 0);
        assert_eq!(shares(&queue), default);
    });
}

//! Groups of tasks: what each gets of a shard, in simulated time, where each turn counts the same.

use std::cell::RefCell;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::*;
use crate::clock::Random;

/// Turns of each group, by its number.
type Turns = Rc<RefCell<[u64; 3]>>;

/// A shard on this thread whose state counts turns.
async fn start_counting(seed: u64) -> ShardHandle<RefCell<[u64; 3]>> {
    let timer = SimulatedTimer::new(SimulatedClock::new(0));
    let context = local_context(0, &timer, seed);
    start_local(context, |_| Box::pin(async { Ok(Turns::default()) })).await.unwrap()
}

/// A task of a group that has so many turns.
async fn work(handle: &ShardHandle<RefCell<[u64; 3]>>, group: usize, turns: u64) {
    let of_group = move |counts: Turns| async move {
        for _ in 0..turns {
            counts.borrow_mut()[group] += 1;
            yield_now().await;
        }
    };
    let call =
        handle.call("work", move |counts| in_group(group as u64, of_group(counts)).boxed_local());
    call.await.unwrap();
}

async fn set(handle: &ShardHandle<RefCell<[u64; 3]>>, shares: [u32; 3]) {
    let groups: Vec<(u64, u32)> = (0..).zip(shares).collect();
    let set = handle.call("set", move |_| async move { set_groups(&groups) }.boxed_local());
    set.await.unwrap();
}

async fn counts(handle: &ShardHandle<RefCell<[u64; 3]>>) -> [u64; 3] {
    handle.call("counts", |counts| async move { *counts.borrow() }.boxed_local()).await.unwrap()
}

#[test]
fn turns_go_by_shares_however_many_tasks_a_group_has() {
    for (shares, tasks, wanted) in [
        ([1000, 100, 1], [1, 8, 0], [1000, 100, 0]),
        ([100, 100, 100], [1, 3, 9], [367, 367, 367]),
        ([1000, 500, 100], [3, 3, 3], [687, 344, 69]),
        ([1, 1, 1000], [4, 4, 1], [1, 1, 1000]),
    ] {
        run_local(async {
            let handle = start_counting(3).await;
            set(&handle, shares).await;
            let all = FuturesUnordered::new();
            for (group, count) in tasks.into_iter().enumerate() {
                (0..count).for_each(|_| all.push(work(&handle, group, 10_000)));
            }
            let mut all = std::pin::pin!(all.collect::<Vec<()>>());
            let total = wanted.iter().sum::<u64>();
            // Until there were so many turns; each of these polls is one round of all tasks.
            let counted = loop {
                let counted = std::pin::pin!(counts(&handle));
                let counted = match futures::future::select(&mut all, counted).await {
                    futures::future::Either::Right((counted, _)) => counted,
                    futures::future::Either::Left(_) => panic!("tasks have ended"),
                };
                if counted.iter().sum::<u64>() >= total {
                    break counted;
                }
            };
            for (got, wanted) in counted.iter().zip(wanted) {
                // Nobody waits for a first turn.
                let near = 2 + wanted / 20 + tasks.iter().max().unwrap();
                assert!(got.abs_diff(wanted) <= near, "{shares:?}: {counted:?}");
            }
        });
    }
}

#[test]
fn time_that_a_group_did_not_use_is_nobodys() {
    run_local(async {
        let handle = start_counting(5).await;
        set(&handle, [1000, 100, 1]).await;
        work(&handle, 1, 2000).await;
        let mut long = std::pin::pin!(work(&handle, 1, 1_000_000));
        // The first had nothing to do for as long as 20,000 turns of its own take.
        let short = std::pin::pin!(work(&handle, 0, 1000));
        let ended = futures::future::select(short, &mut long).await;
        assert!(matches!(ended, futures::future::Either::Left(_)));
        let [_, others, _] = counts(&handle).await;
        assert!((90..=115).contains(&(others - 2000)), "{}", others - 2000);
    });
}

/// Whoever waits goes on, whichever of the others are dropped while they wait or are next.
#[test]
fn tasks_that_are_dropped_leave_their_places() {
    for seed in 0..40 {
        run_local(async {
            let handle = start_counting(seed).await;
            let mut random = Random::new(seed);
            let mut dropped: Vec<_> =
                (0..12_usize).map(|task| Box::pin(work(&handle, task % 3, 1_000_000))).collect();
            let mut kept: FuturesUnordered<_> =
                (0..3).map(|group| work(&handle, group, 300)).collect();
            while !kept.is_empty() {
                for task in &mut dropped {
                    let _ = (&mut *task).now_or_never();
                }
                let _ = kept.next().now_or_never();
                if random.one_in(20) && !dropped.is_empty() {
                    let at = random.below(dropped.len() as u64) as usize;
                    drop(dropped.swap_remove(at));
                }
                tokio::task::yield_now().await;
            }
            drop(dropped);
            handle.stop().await.unwrap();
        });
    }
}

/// A question whose answer takes a turn's time of the first group.
struct Charged;

impl Ask<RefCell<[u64; 3]>> for Charged {
    type Answer = ();
    const NAME: &'static str = "charged";

    fn ask(self, counts: &Turns) -> Answering<()> {
        counts.borrow_mut()[0] += 1;
        charge_group(0, 1000);
        Answering::Now(())
    }
}

#[test]
fn mail_of_a_group_with_more_shares_comes_first() {
    for (shares, least) in [([1000, 100, 1], 9.0), ([100, 1000, 1], 0.0)] {
        run_local(async {
            let handle = start_counting(7).await;
            set(&handle, shares).await;
            let batch: FuturesUnordered<_> = (0..4).map(|_| work(&handle, 1, 1_000_000)).collect();
            let mut batch = std::pin::pin!(batch.collect::<Vec<()>>());
            let ask = |_| handle.ask(Charged);
            let mail = futures::stream::iter(0..20_000).map(ask).buffer_unordered(256);
            let mut mail = std::pin::pin!(mail.for_each(|answer| {
                answer.unwrap();
                futures::future::ready(())
            }));
            futures::future::select(&mut mail, &mut batch).await;
            let [answers, turns, _] = counts(&handle).await;
            assert_eq!(answers, 20_000);
            assert!(turns > 100, "{turns} turns: somebody starves");
            assert!(answers as f64 / turns as f64 >= least, "{answers} answers, {turns} turns");
        });
    }
}

#[test]
fn a_group_that_was_not_named_has_a_thousand_shares() {
    for (named, least, most) in [(100, 90, 115), (1000, 900, 1150)] {
        run_local(async {
            let handle = start_counting(9).await;
            let groups = [(0, named)];
            let set = handle.call("set", move |_| async move { set_groups(&groups) }.boxed_local());
            set.await.unwrap();
            let mut long = std::pin::pin!(work(&handle, 0, 1_000_000));
            let short = std::pin::pin!(work(&handle, 1, 1000));
            let ended = futures::future::select(short, &mut long).await;
            assert!(matches!(ended, futures::future::Either::Left(_)));
            let [others, own, _] = counts(&handle).await;
            assert_eq!(own, 1000);
            assert!((least..=most).contains(&others), "{others} turns of one with {named} shares");
        });
    }
}

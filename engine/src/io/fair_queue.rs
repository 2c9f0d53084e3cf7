//! Which class is next: of those that wait, the one that had least for its shares.
//!
//! Each class has a sum of what its requests cost, divided by its shares; the least sum is next. A
//! class that had nothing to do cannot save up: when it comes back its sum is raised to that of the
//! class served last, less a bounded credit. Start-time fair queueing (Goyal et al. 1996) with the
//! credit of ScyllaDB's fair queue.

use std::collections::VecDeque;

/// Requests of numbered classes. See the head of this file.
#[derive(Debug)]
pub struct FairQueue<T> {
    classes: Vec<ClassQueue<T>>,
    /// The sum of the class served last.
    last: f64,
    /// Cost that a class which comes back has for itself.
    credit: u64,
    waiting: usize,
    waiting_cost: u64,
}

#[derive(Debug)]
struct ClassQueue<T> {
    shares: f64,
    sum: f64,
    requests: VecDeque<(u64, T)>,
}

impl<T> FairQueue<T> {
    /// A queue of so many classes as there are shares.
    pub fn new(shares: &[u32], credit: u64) -> Self {
        let class = |shares: &u32| ClassQueue {
            shares: f64::from((*shares).max(1)),
            sum: 0.0,
            requests: VecDeque::new(),
        };
        let classes = shares.iter().map(class).collect();
        FairQueue { classes, last: 0.0, credit, waiting: 0, waiting_cost: 0 }
    }

    /// What a class is charged from now on.
    pub fn set_shares(&mut self, class: usize, shares: u32) {
        self.classes[class].shares = f64::from(shares.max(1));
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Requests of a class that wait.
    pub fn len_of(&self, class: usize) -> usize {
        self.classes[class].requests.len()
    }

    /// Cost of all that wait.
    pub fn cost(&self) -> u64 {
        self.waiting_cost
    }

    pub fn push(&mut self, class: usize, cost: u64, request: T) {
        if self.classes[class].requests.is_empty() {
            self.wake(class);
        }
        self.classes[class].requests.push_back((cost, request));
        self.waiting += 1;
        self.waiting_cost += cost;
    }

    fn wake(&mut self, class: usize) {
        let class = &mut self.classes[class];
        class.sum = class.sum.max(self.last - self.credit as f64 / class.shares);
    }

    /// The class that is next of those that `may` go, and what its first request costs.
    pub fn next(&self, may: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
        let waiting = self.classes.iter().enumerate();
        let waiting =
            waiting.filter_map(|(at, class)| Some((at, class.sum, class.requests.front()?.0)));
        let next = waiting.filter(|(at, ..)| may(*at)).min_by(|a, b| a.1.total_cmp(&b.1));
        next.map(|(at, _, cost)| (at, cost))
    }

    /// Takes the first request of a class and charges the class for it.
    pub fn pop(&mut self, class: usize) -> Option<(u64, T)> {
        let (cost, request) = self.classes[class].requests.pop_front()?;
        self.waiting -= 1;
        self.waiting_cost -= cost;
        self.charge(class, cost);
        Some((cost, request))
    }

    /// Charges a class for a request that did not have to wait.
    pub fn pass(&mut self, class: usize, cost: u64) {
        self.wake(class);
        self.charge(class, cost);
    }

    fn charge(&mut self, class: usize, cost: u64) {
        let class = &mut self.classes[class];
        self.last = self.last.max(class.sum);
        // A request that costs nothing is none that others must wait for for ever.
        class.sum += cost.max(1) as f64 / class.shares;
    }

    /// Takes a request out that is given up; its class is charged nothing.
    pub fn remove(&mut self, class: usize, is_it: impl Fn(&T) -> bool) -> Option<(u64, T)> {
        let requests = &mut self.classes[class].requests;
        let at = requests.iter().position(|(_, request)| is_it(request))?;
        let (cost, request) = requests.remove(at)?;
        self.waiting -= 1;
        self.waiting_cost -= cost;
        Some((cost, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many requests; returns how many of each class.
    fn serve(queue: &mut FairQueue<()>, count: usize) -> Vec<usize> {
        let mut served = vec![0; queue.classes.len()];
        for _ in 0..count {
            let Some((class, _)) = queue.next(|_| true) else { break };
            queue.pop(class);
            served[class] += 1;
        }
        served
    }

    fn filled(shares: &[u32], costs: &[u64], credit: u64) -> FairQueue<()> {
        let mut queue = FairQueue::new(shares, credit);
        for (class, cost) in costs.iter().enumerate() {
            (0..100).for_each(|_| queue.push(class, *cost, ()));
        }
        queue
    }

    /// Shares and costs of each class, requests that are served, and how many of each class. Each
    /// count may be off by one.
    type Case = (&'static str, &'static [u32], &'static [u64], usize, &'static [usize]);

    const CASES: &[Case] = &[
        ("two equal", &[10, 10], &[1, 1], 100, &[50, 50]),
        ("four equal", &[10, 10, 10, 10], &[1, 1, 1, 1], 100, &[25, 25, 25, 25]),
        ("shares 1:2", &[10, 20], &[1, 1], 120, &[40, 80]),
        ("shares 1:3:4", &[10, 30, 40], &[1, 1, 1], 80, &[10, 30, 40]),
        ("costs 2:1", &[10, 10], &[2, 1], 120, &[40, 80]),
        ("costs and shares 2:1", &[20, 10], &[2, 1], 100, &[50, 50]),
        ("no shares are one", &[0, 2], &[1, 1], 90, &[30, 60]),
    ];

    #[test]
    fn classes_get_what_their_shares_say() {
        for (name, shares, costs, count, wanted) in CASES {
            let mut queue = filled(shares, costs, 0);
            let served = serve(&mut queue, *count);
            let is_near = |(found, wanted): (&usize, &usize)| found.abs_diff(*wanted) <= 1;
            assert!(served.iter().zip(*wanted).all(is_near), "{name}: {served:?}");
        }
    }

    /// The rest of a queue that ran dry goes to whoever asks.
    #[test]
    fn an_idle_class_gives_up_all() {
        let mut queue = filled(&[1000, 1], &[1, 1], 0);
        assert_eq!(serve(&mut queue, 1000), [100, 100]);
        assert!(queue.is_empty() && queue.cost() == 0);
    }

    #[test]
    fn who_had_all_has_to_wait_when_others_come() {
        let mut queue = FairQueue::new(&[1, 1], 1000);
        (0..100).for_each(|_| queue.push(0, 1, ()));
        assert_eq!(serve(&mut queue, 100), [100, 0]);
        (0..100).for_each(|_| queue.push(1, 1, ()));
        (0..20).for_each(|_| queue.push(0, 1, ()));
        assert_eq!(serve(&mut queue, 20), [0, 20]);
    }

    #[test]
    fn a_newcomer_has_its_credit_and_no_more() {
        let mut queue = FairQueue::new(&[1, 1], 50);
        (0..100).for_each(|_| queue.push(0, 1, ()));
        serve(&mut queue, 100);
        for class in [0, 1] {
            (0..100).for_each(|_| queue.push(class, 1, ()));
        }
        let served = serve(&mut queue, 100);
        assert!(served[0].abs_diff(25) <= 1 && served[1].abs_diff(75) <= 1, "{served:?}");
    }

    #[test]
    fn what_goes_through_at_once_is_charged_all_the_same() {
        let mut queue = FairQueue::new(&[1, 1], 1000);
        (0..100).for_each(|_| queue.pass(0, 1));
        for class in [0, 1] {
            (0..100).for_each(|_| queue.push(class, 1, ()));
        }
        assert_eq!(serve(&mut queue, 20), [0, 20]);
    }

    #[test]
    fn shares_change_live() {
        let mut queue = filled(&[10, 10], &[1, 1], 0);
        serve(&mut queue, 40);
        queue.set_shares(1, 40);
        let served = serve(&mut queue, 100);
        assert!(served[0].abs_diff(20) <= 1, "{served:?}");
    }

    #[test]
    fn who_may_not_go_holds_nobody_up() {
        let mut queue = filled(&[10, 10], &[1, 1], 0);
        assert_eq!(queue.next(|class| class != 0), Some((1, 1)));
        assert_eq!(queue.next(|_| false), None);
        assert!(queue.remove(0, |_| true).is_some() && queue.remove(0, |_| false).is_none());
        assert_eq!((queue.len(), queue.len_of(0), queue.cost()), (199, 99, 199));
    }
}

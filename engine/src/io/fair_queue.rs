//! Which class is next: of those that wait, the one that had least for its shares.
//!
//! Each class has a sum of what its requests cost, divided by its shares; the least sum is next. A
//! class that had nothing to do cannot save up: when it comes back its sum is raised to that of the
//! class served last, less a bounded credit. Start-time fair queueing (Goyal et al. 1996) with the
//! credit of ScyllaDB's fair queue. Within a class, flows divide what the class gets by the same
//! rule, without a credit.

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
    requests: Flows<T>,
}

/// Requests of one class that go together, and their part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub id: u64,
    pub shares: u32,
}

impl Default for Flow {
    /// That of whatever names none.
    fn default() -> Self {
        Flow { id: 0, shares: 1000 }
    }
}

/// Flows that are remembered while they have nothing to do.
const IDLE_FLOWS_MAX: usize = 16;

/// The requests of one class.
#[derive(Debug)]
struct Flows<T> {
    all: Vec<FlowQueue<T>>,
    /// The sum of the flow served last.
    last: f64,
}

#[derive(Debug)]
struct FlowQueue<T> {
    flow: Flow,
    sum: f64,
    requests: VecDeque<(u64, T)>,
}

impl<T> FlowQueue<T> {
    fn charge(&mut self, cost: u64) {
        self.sum += cost.max(1) as f64 / f64::from(self.flow.shares.max(1));
    }
}

impl<T> Flows<T> {
    fn new() -> Self {
        Flows { all: Vec::new(), last: 0.0 }
    }

    fn len(&self) -> usize {
        self.all.iter().map(|flow| flow.requests.len()).sum()
    }

    /// The flow, which begins where it had nothing to do.
    fn awake(&mut self, flow: Flow) -> &mut FlowQueue<T> {
        let known = self.all.iter().position(|known| known.flow.id == flow.id);
        let at = known.unwrap_or_else(|| {
            if self.all.len() >= IDLE_FLOWS_MAX {
                self.all.retain(|flow| !flow.requests.is_empty());
            }
            self.all.push(FlowQueue { flow, sum: 0.0, requests: VecDeque::new() });
            self.all.len() - 1
        });
        let own = &mut self.all[at];
        own.flow = flow;
        if own.requests.is_empty() {
            own.sum = own.sum.max(self.last);
        }
        own
    }

    /// Where the flow is that had least for its shares.
    fn next(&self) -> Option<usize> {
        let waiting = (0..self.all.len()).filter(|at| !self.all[*at].requests.is_empty());
        waiting.min_by(|a, b| self.all[*a].sum.total_cmp(&self.all[*b].sum))
    }

    fn front_cost(&self) -> Option<u64> {
        self.all[self.next()?].requests.front().map(|(cost, _)| *cost)
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let at = self.next()?;
        let (cost, request) = self.all[at].requests.pop_front()?;
        self.last = self.last.max(self.all[at].sum);
        self.all[at].charge(cost);
        Some((cost, request))
    }

    /// Charges a flow for a request that did not have to wait.
    fn pass(&mut self, flow: Flow, cost: u64) {
        let own = self.awake(flow);
        let sum = own.sum;
        own.charge(cost);
        self.last = self.last.max(sum);
    }

    fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<(u64, T)> {
        self.all.iter_mut().find_map(|flow| {
            let at = flow.requests.iter().position(|(_, request)| is_it(request))?;
            flow.requests.remove(at)
        })
    }
}

impl<T> FairQueue<T> {
    /// A queue of so many classes as there are shares.
    pub fn new(shares: &[u32], credit: u64) -> Self {
        let class = |shares: &u32| ClassQueue {
            shares: f64::from((*shares).max(1)),
            sum: 0.0,
            requests: Flows::new(),
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

    /// Adds a request of a flow of a class, with its cost.
    pub fn push(&mut self, (class, flow): (usize, Flow), cost: u64, request: T) {
        if self.classes[class].requests.len() == 0 {
            self.wake(class);
        }
        self.classes[class].requests.awake(flow).requests.push_back((cost, request));
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
            waiting.filter_map(|(at, class)| Some((at, class.sum, class.requests.front_cost()?)));
        let next = waiting.filter(|(at, ..)| may(*at)).min_by(|a, b| a.1.total_cmp(&b.1));
        next.map(|(at, _, cost)| (at, cost))
    }

    /// Takes the first request of a class and charges the class for it.
    pub fn pop(&mut self, class: usize) -> Option<(u64, T)> {
        let (cost, request) = self.classes[class].requests.pop()?;
        self.waiting -= 1;
        self.waiting_cost -= cost;
        self.charge(class, cost);
        Some((cost, request))
    }

    /// Charges a flow of a class for a request that did not have to wait.
    pub fn pass(&mut self, (class, flow): (usize, Flow), cost: u64) {
        self.wake(class);
        self.charge(class, cost);
        self.classes[class].requests.pass(flow, cost);
    }

    fn charge(&mut self, class: usize, cost: u64) {
        let class = &mut self.classes[class];
        self.last = self.last.max(class.sum);
        // A request that costs nothing is none that others must wait for for ever.
        class.sum += cost.max(1) as f64 / class.shares;
    }

    /// Takes a request out that is given up; its class is charged nothing.
    pub fn remove(&mut self, class: usize, is_it: impl Fn(&T) -> bool) -> Option<(u64, T)> {
        let (cost, request) = self.classes[class].requests.remove(is_it)?;
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
            (0..100).for_each(|_| queue.push((class, Flow::default()), *cost, ()));
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

    /// Two flows of one class; the shares of the first change while both have requests.
    #[test]
    fn a_flow_has_the_shares_that_it_was_given_last() {
        let mut queue: FairQueue<u64> = FairQueue::new(&[10], 0);
        let push = |queue: &mut FairQueue<u64>, id, shares| {
            (0..200).for_each(|_| queue.push((0, Flow { id, shares }), 1, id));
        };
        let of_first = |queue: &mut FairQueue<u64>| {
            let served = (0..120).filter_map(|_| queue.pop(0).map(|(_, id)| id));
            served.filter(|id| *id == 1).count()
        };
        push(&mut queue, 1, 100);
        push(&mut queue, 2, 100);
        assert!(of_first(&mut queue).abs_diff(60) <= 1);
        push(&mut queue, 1, 300);
        assert!(of_first(&mut queue).abs_diff(90) <= 1);
    }

    #[test]
    fn classes_get_what_their_shares_say() {
        for (name, shares, costs, count, wanted) in CASES {
            let mut queue = filled(shares, costs, 0);
            let served = serve(&mut queue, *count);
            let is_near = |(found, wanted): (&usize, &usize)| found.abs_diff(*wanted) <= 1;
            assert!(served.iter().zip(*wanted).all(is_near), "{name}: {served:?}");
        }
    }

    #[test]
    fn flows_divide_what_their_class_gets() {
        for (shares, wanted) in [([1000, 100], [91, 9]), ([500, 500], [50, 50]), ([1, 3], [25, 75])]
        {
            let mut queue = FairQueue::new(&[10, 10], 0);
            let flow = |at: usize| Flow { id: at as u64, shares: shares[at] };
            for number in 0..200 {
                queue.push((0, flow(number % 2)), 1, number % 2);
                queue.push((1, Flow::default()), 1, 2);
            }
            // Of one class alone, then beside another that has as many shares.
            let mut served = [0; 3];
            for turn in 0..300 {
                let class = if turn < 100 { 0 } else { queue.next(|_| true).unwrap().0 };
                served[queue.pop(class).unwrap().1] += 1;
                if turn == 99 {
                    let found = [served[0], served[1]];
                    let is_near = |at: usize| u64::abs_diff(found[at], wanted[at]) <= 1;
                    assert!(is_near(0) && is_near(1), "{shares:?}: {found:?}");
                }
            }
            assert_eq!(served.iter().sum::<u64>(), 300);
            assert!(served[2] >= 100, "the flows of another class take nothing of it: {served:?}");
        }
    }

    #[test]
    fn a_flow_with_one_request_at_a_time_pays_for_what_it_had() {
        let mut queue = FairQueue::new(&[1], 0);
        let (scan, reads) = (Flow { id: 1, shares: 100 }, Flow { id: 2, shares: 1000 });
        (0..200).for_each(|_| queue.push((0, reads), 1, 'r'));
        queue.push((0, scan), 1, 's');
        let mut scanned = 0;
        for _ in 0..110 {
            if queue.pop(0).unwrap().1 == 's' {
                scanned += 1;
                queue.push((0, scan), 1, 's');
            }
        }
        assert!((9..=12).contains(&scanned), "{scanned}");
        queue.pass((0, scan), 1000);
        assert!((0..90).all(|_| queue.pop(0).unwrap().1 == 'r'), "what passed is paid for");
    }

    /// The rest of a queue that ran dry goes to whoever asks.
    #[test]
    fn a_flow_saves_nothing_up_while_it_has_nothing_to_do() {
        let mut queue = FairQueue::new(&[10], 0);
        let flow = |id| Flow { id, shares: 10 };
        queue.push((0, flow(1)), 1, 1);
        assert_eq!(queue.pop(0), Some((1, 1)));
        (0..200).for_each(|_| queue.push((0, flow(2)), 1, 2));
        for _ in 0..100 {
            queue.pop(0).unwrap();
        }
        (0..100).for_each(|_| queue.push((0, flow(1)), 1, 1));
        let of_first = (0..40).filter(|_| queue.pop(0) == Some((1, 1))).count();
        assert!(of_first.abs_diff(20) <= 1, "{of_first} of 40 behind 100 of the other flow");
    }

    #[test]
    fn an_idle_class_gives_up_all() {
        let mut queue = filled(&[1000, 1], &[1, 1], 0);
        assert_eq!(serve(&mut queue, 1000), [100, 100]);
        assert!(queue.is_empty() && queue.cost() == 0);
    }

    #[test]
    fn who_had_all_has_to_wait_when_others_come() {
        let mut queue = FairQueue::new(&[1, 1], 1000);
        (0..100).for_each(|_| queue.push((0, Flow::default()), 1, ()));
        assert_eq!(serve(&mut queue, 100), [100, 0]);
        (0..100).for_each(|_| queue.push((1, Flow::default()), 1, ()));
        (0..20).for_each(|_| queue.push((0, Flow::default()), 1, ()));
        assert_eq!(serve(&mut queue, 20), [0, 20]);
    }

    #[test]
    fn a_newcomer_has_its_credit_and_no_more() {
        let mut queue = FairQueue::new(&[1, 1], 50);
        (0..100).for_each(|_| queue.push((0, Flow::default()), 1, ()));
        serve(&mut queue, 100);
        for class in [0, 1] {
            (0..100).for_each(|_| queue.push((class, Flow::default()), 1, ()));
        }
        let served = serve(&mut queue, 100);
        assert!(served[0].abs_diff(25) <= 1 && served[1].abs_diff(75) <= 1, "{served:?}");
    }

    #[test]
    fn what_goes_through_at_once_is_charged_all_the_same() {
        let mut queue = FairQueue::new(&[1, 1], 1000);
        (0..100).for_each(|_| queue.pass((0, Flow::default()), 1));
        for class in [0, 1] {
            (0..100).for_each(|_| queue.push((class, Flow::default()), 1, ()));
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

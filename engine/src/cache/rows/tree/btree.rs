//! The entries of a cached partition in the order of their places: a B+ tree that is copied in
//! constant time and shares with its copies what none of them changed.
//!
//! An entry takes 14 bytes and a bit beside its row, two of them of its key (`heads.rs`): most
//! searches look at one row only. Not here: how entries lie in a leaf (`leaf.rs`).
//!
//! Invariant: separators are at or before all entries behind them and after those before them; no
//! node but a root is empty.

use std::rc::Rc;

use super::heads::{Common, Heads, WIDTH, below, head_of};
use super::leaf::{Claim, Leaf, Run, View};
use super::place::PlaceRef;
use crate::mutation::{FlatRow, Tombstone, Weight};
use crate::prefetch::{LINE_BYTES, Memory};

#[derive(Debug, Clone)]
struct Inner {
    /// Of each separator, as a leaf has of its entries: no separator is looked at on most ways
    /// down.
    heads: Heads,
    /// One less than children.
    separators: Vec<FlatRow>,
    children: Vec<Node>,
    common: Common,
}

/// A part of a tree, which copies may have as well.
#[derive(Debug, Clone)]
enum Node {
    Leaf(Leaf),
    Inner(Rc<Inner>),
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Node,
}

/// An entry that is changed; its place stays.
pub(super) struct EntryMut<'a> {
    leaf: &'a mut Leaf,
    at: usize,
}

impl EntryMut<'_> {
    pub(super) fn claim(&self) -> Claim {
        self.leaf.claim(self.at)
    }

    pub(super) fn flat(&self) -> &FlatRow {
        &self.leaf.rows()[self.at]
    }

    pub(super) fn set_known_before(&mut self, is_known: bool) {
        self.leaf.set_known_before(self.at, is_known);
    }

    pub(super) fn set_tombstone(&mut self, tombstone: Option<Tombstone>) {
        self.leaf.set_tombstone(self.at, tombstone);
    }

    /// Exchanges the row, the place being the same.
    pub(super) fn set_row(&mut self, row: FlatRow) {
        let (was, place) = (PlaceRef::of_flat(self.flat()), PlaceRef::of_flat(&row));
        debug_assert!(was == place, "an entry stays where it is");
        self.leaf.set_row(self.at, row);
    }
}

impl Inner {
    fn new(separators: Vec<FlatRow>, children: Vec<Node>) -> Self {
        debug_assert_eq!(separators.len() + 1, children.len(), "a separator between two children");
        let common = Common::default();
        let mut inner = Inner { heads: Heads::NONE, separators, children, common };
        inner.find_common();
        inner
    }

    /// The child where a place stands, or would; with `is_before` that of what is just before it.
    #[inline(always)]
    fn child_of(&self, place: PlaceRef<'_>, is_before: bool) -> usize {
        let head = head_of(self.common.bytes(), place);
        let low = below(&self.heads.0, head);
        if self.heads.0.get(low) != Some(&head) {
            return low;
        }
        self.child_behind(low, head, place, is_before)
    }

    /// Among the separators with this head from `low` on.
    #[cold]
    fn child_behind(&self, low: usize, head: u16, place: PlaceRef<'_>, is_before: bool) -> usize {
        let heads = &self.heads.0[low..self.separators.len()];
        let count = heads.partition_point(|own| *own == head);
        let is_left = |separator: &FlatRow| {
            let separator = PlaceRef::of_flat(separator);
            if is_before { separator < place } else { separator <= place }
        };
        low + self.separators[low..low + count].partition_point(is_left)
    }

    /// Finds anew what separators have in common, and the heads behind it.
    fn find_common(&mut self) {
        let first = self.separators.first().map_or(&[][..], FlatRow::key);
        let last = self.separators.last().map_or(&[][..], FlatRow::key);
        self.common = Common::of(first, last);
        // One alone has all in common with itself, and a head should tell it from others.
        let shorter = first.len().min(last.len()).saturating_sub(2);
        self.common.length = self.common.length.min(shorter.min(14) as u8);
        self.heads = Heads::of(&self.common, self.separators.iter().map(PlaceRef::of_flat));
    }

    /// Puts a child in behind `at`; what this node cannot hold goes into another.
    fn grow(&mut self, at: usize, (separator, child): Split) -> Option<Split> {
        debug_assert!(self.is_between(at, &separator), "separators are in order");
        let is_apart = !separator.key().starts_with(self.common.bytes());
        self.heads.insert(at, head_of(self.common.bytes(), PlaceRef::of_flat(&separator)));
        self.separators.insert(at, separator);
        self.children.insert(at + 1, child);
        if self.children.len() <= WIDTH {
            // A node that was split off with one child had nothing that its keys could share.
            if is_apart || self.separators.len() == 1 {
                self.find_common();
            }
            return None;
        }
        // Behind the last one of all, the next ones will follow there.
        let keep = if at + 2 == self.children.len() { WIDTH } else { WIDTH / 2 };
        let children = self.children.split_off(keep);
        let separators = self.separators.split_off(keep);
        let separator = self.separators.pop().expect("between two children stands one");
        self.find_common();
        Some((separator, Node::Inner(Rc::new(Inner::new(separators, children)))))
    }

    /// Whether a place lies between the separators beside a child.
    fn is_between(&self, child: usize, place: &FlatRow) -> bool {
        let place = PlaceRef::of_flat(place);
        let lower = child.checked_sub(1).map(|at| PlaceRef::of_flat(&self.separators[at]));
        let upper = self.separators.get(child).map(PlaceRef::of_flat);
        lower.is_none_or(|lower| lower < place) && upper.is_none_or(|upper| place < upper)
    }

    /// A child has become smaller: joins it with a neighbour, or drops it where it is empty.
    fn shrink(&mut self, at: usize) {
        if self.children[at].is_empty() {
            self.children.remove(at);
            if !self.separators.is_empty() {
                self.remove_separator(at.saturating_sub(1));
            }
            return;
        }
        let left = if at > 0 { at - 1 } else { 0 };
        let Some(right) = self.children.get(left + 1) else { return };
        if self.children[left].len() + right.len() > WIDTH / 2 {
            return;
        }
        let separator = self.remove_separator(left);
        let right = self.children.remove(left + 1);
        match (&mut self.children[left], right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.make_own().append(&right),
            (Node::Inner(left), Node::Inner(right)) => {
                let left = Rc::make_mut(left);
                let right = Rc::unwrap_or_clone(right);
                left.separators.push(separator);
                left.separators.extend(right.separators);
                left.children.extend(right.children);
                left.find_common();
            }
            _ => unreachable!("all leaves are at one depth"),
        }
    }

    fn remove_separator(&mut self, at: usize) -> FlatRow {
        debug_assert!(at < self.separators.len(), "there is no separator {at}");
        self.heads.remove(at);
        self.separators.remove(at)
    }
}

/// A node that was split off, and where it begins.
type Split = (FlatRow, Node);

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.children.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn insert(&mut self, row: FlatRow, claim: Claim) -> Option<Split> {
        let place = PlaceRef::of_flat(&row);
        match self {
            Node::Inner(inner) => {
                let inner = Rc::make_mut(inner);
                let at = inner.child_of(place, false);
                let split = inner.children[at].insert(row, claim)?;
                inner.grow(at, split)
            }
            Node::Leaf(leaf) => {
                let leaf = leaf.make_own();
                let Err(at) = leaf.search(place) else {
                    panic!("an entry is put in where none stands")
                };
                if leaf.len() < WIDTH {
                    leaf.insert(at, row, claim);
                    return None;
                }
                // Rows mostly come in order, from either end; what is full is left full.
                let keep = match at {
                    0 => 0,
                    WIDTH => WIDTH,
                    _ => WIDTH / 2,
                };
                let mut right = leaf.split_off(keep);
                if at > keep || at == WIDTH {
                    right.insert(at - keep, row, claim);
                } else {
                    leaf.insert(at, row, claim);
                }
                debug_assert!(leaf.len() > 0 && right.len() > 0, "a split leaves no leaf empty");
                let separator = PlaceRef::of_flat(&right.rows()[0]).flat();
                Some((separator, Node::Leaf(right)))
            }
        }
    }

    fn remove(&mut self, place: PlaceRef<'_>) -> Option<(FlatRow, Claim)> {
        match self {
            Node::Inner(inner) => {
                let inner = Rc::make_mut(inner);
                let at = inner.child_of(place, false);
                let gone = inner.children[at].remove(place);
                inner.shrink(at);
                gone
            }
            Node::Leaf(leaf) => {
                let leaf = leaf.make_own();
                let at = leaf.search(place).ok()?;
                Some(leaf.remove(at))
            }
        }
    }
}

impl Node {
    /// Checks what holds of every node between two separators; its height.
    fn check(&self, lower: Option<PlaceRef<'_>>, upper: Option<PlaceRef<'_>>) -> usize {
        match self {
            Node::Leaf(leaf) => {
                leaf.check();
                let places = || leaf.rows().iter().map(PlaceRef::of_flat);
                let is_behind = |place: PlaceRef<'_>| lower.is_none_or(|lower| lower <= place);
                assert!(places().all(is_behind), "an entry stands before its separator: {leaf:?}");
                let is_before = |place: PlaceRef<'_>| upper.is_none_or(|upper| place < upper);
                assert!(places().all(is_before), "an entry stands behind the next: {leaf:?}");
                0
            }
            Node::Inner(inner) => inner.check(lower, upper),
        }
    }
}

impl Inner {
    /// See [`Node::check`].
    fn check(&self, lower: Option<PlaceRef<'_>>, upper: Option<PlaceRef<'_>>) -> usize {
        let count = self.children.len();
        assert!((1..=WIDTH).contains(&count), "a node has {count} children");
        assert_eq!(self.separators.len() + 1, count, "a separator between two children");
        let places: Vec<_> = self.separators.iter().map(PlaceRef::of_flat).collect();
        assert!(places.is_sorted_by(|a, b| a < b), "separators are in order");
        let heads = Heads::of(&self.common, places.iter().copied());
        assert_eq!(self.heads.0, heads.0, "heads are of separators");
        let mut heights = self.children.iter().enumerate().map(|(at, child)| {
            assert!(!child.is_empty(), "no node but a root is empty");
            let lower = at.checked_sub(1).map(|at| places[at]).or(lower);
            child.check(lower, places.get(at).copied().or(upper))
        });
        let first = heights.next().expect("a node has children");
        assert!(heights.all(|height| height == first), "all leaves are at one depth");
        first + 1
    }
}

/// A leaf with the separators before and behind it.
#[derive(Debug, Clone, Copy)]
struct Spot<'a> {
    leaf: &'a Leaf,
    lower: Option<&'a FlatRow>,
    upper: Option<&'a FlatRow>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { root: Node::Leaf(Leaf::new(0)) }
    }
}

impl Tree {
    /// The memory in which a search begins, for prefetching.
    #[inline]
    pub(super) fn searched(&self) -> Memory {
        match &self.root {
            Node::Leaf(leaf) => leaf.searched(),
            Node::Inner(inner) => Memory::of_shared(inner),
        }
    }

    /// Where the root's memory starts, and a line of it.
    pub(super) fn root_start(&self) -> Memory {
        match &self.root {
            Node::Leaf(leaf) => leaf.start(),
            Node::Inner(inner) => Memory { bytes: LINE_BYTES, ..Memory::of_shared(inner) },
        }
    }

    /// The memory of the root, for prefetching before a change.
    pub(super) fn root_memory(&self) -> Memory {
        match &self.root {
            Node::Leaf(leaf) => leaf.memory(),
            Node::Inner(inner) => Memory::of_shared(inner),
        }
    }

    /// Has the first rows fetched, where they stand in the root.
    pub(super) fn prefetch_rows(&self, max: usize) {
        if let Node::Leaf(leaf) = &self.root {
            leaf.rows().iter().take(max).for_each(FlatRow::prefetch_start);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// All rows, where they stand in the root and nothing but them does, beside perhaps an entry at
    /// the start of the partition, and nothing is unknown between them; and whether nothing is
    /// unknown before them either. A tombstone makes them `None`.
    pub(super) fn plain_rows(&self) -> Option<(Run<'_>, bool)> {
        let Node::Leaf(leaf) = &self.root else { return None };
        let (all, continuity) = (leaf.rows(), leaf.continuity());
        let is_start = |flat: &FlatRow| flat.key().is_empty() && flat.weight() == Weight::Before;
        let first = usize::from(all.first().is_some_and(is_start));
        let rows = all.get(first..).filter(|rows| !rows.is_empty())?;
        let is_plain = continuity.tombstone(first).is_none()
            && continuity.plain_from(first + 1, all.len()) == rows.len() - 1
            && rows.iter().all(FlatRow::has_row);
        is_plain.then(|| (leaf.run(first..all.len()), continuity.is_known_before(first)))
    }

    /// The leaf in whose stretch a place is; with `is_before` that of what is just before it.
    #[inline(always)]
    fn spot(&self, place: PlaceRef<'_>, is_before: bool) -> Spot<'_> {
        let (mut node, mut lower, mut upper) = (&self.root, None, None);
        loop {
            match node {
                Node::Leaf(leaf) => return Spot { leaf, lower, upper },
                Node::Inner(inner) => {
                    let at = inner.child_of(place, is_before);
                    lower = at.checked_sub(1).map(|at| &inner.separators[at]).or(lower);
                    upper = inner.separators.get(at).or(upper);
                    node = &inner.children[at];
                }
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, place: PlaceRef<'_>) -> Option<View<'_>> {
        let leaf = self.spot(place, false).leaf;
        leaf.search(place).ok().map(|at| leaf.view(at))
    }

    /// The entry at a place, else a cursor where it would stand.
    #[inline]
    pub(super) fn seek(&self, place: PlaceRef<'_>) -> Result<View<'_>, Cursor<'_>> {
        let spot = self.spot(place, false);
        match spot.leaf.search(place) {
            Ok(at) => Ok(spot.leaf.view(at)),
            Err(at) => Err(Cursor { tree: self, spot, at }),
        }
    }

    /// The entry at a place, else the first behind it: mostly in the same leaf, where that needs no
    /// cursor.
    #[inline]
    pub(super) fn find(&self, place: PlaceRef<'_>) -> Result<View<'_>, Option<View<'_>>> {
        let spot = self.spot(place, false);
        match spot.leaf.search(place) {
            Ok(at) => Ok(spot.leaf.view(at)),
            Err(at) if at < spot.leaf.len() => Err(Some(spot.leaf.view(at))),
            Err(at) => Err(Cursor { tree: self, spot, at }.next()),
        }
    }

    /// Stands before the first entry at `place` or behind it.
    #[inline]
    pub(super) fn at(&self, place: PlaceRef<'_>) -> Cursor<'_> {
        let spot = self.spot(place, false);
        let at = spot.leaf.search(place).unwrap_or_else(|at| at);
        Cursor { tree: self, spot, at }
    }

    /// Stands before the first entry behind `place`.
    #[inline]
    pub(super) fn behind(&self, place: PlaceRef<'_>) -> Cursor<'_> {
        let spot = self.spot(place, false);
        let at = spot.leaf.search(place).map_or_else(|at| at, |at| at + 1);
        Cursor { tree: self, spot, at }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> Cursor<'_> {
        self.at(PlaceRef { prefix: &[], weight: Weight::Before })
    }

    /// Puts an entry in where none stands.
    pub(super) fn insert(&mut self, row: FlatRow, claim: Claim) {
        if let Some((separator, right)) = self.root.insert(row, claim) {
            let inner = Inner::new(vec![separator], vec![self.root.clone(), right]);
            self.root = Node::Inner(Rc::new(inner));
        }
    }

    /// Takes the entry at a place out.
    pub(super) fn remove(&mut self, place: PlaceRef<'_>) -> Option<(FlatRow, Claim)> {
        let gone = self.root.remove(place);
        while let Node::Inner(inner) = &self.root
            && let [only] = inner.children.as_slice()
        {
            self.root = only.clone();
        }
        debug_assert!(self.get(place).is_none(), "an entry stands once");
        gone
    }

    /// Gives up room for further entries where a place is, unless copies share it.
    pub(super) fn fit(&mut self, place: PlaceRef<'_>) {
        let mut node = &mut self.root;
        while let Node::Inner(inner) = node {
            let Some(inner) = Rc::get_mut(inner) else { return };
            let at = inner.child_of(place, false);
            node = &mut inner.children[at];
        }
        if let Node::Leaf(leaf) = node
            && !leaf.is_shared()
        {
            leaf.fit();
        }
    }

    /// Walks all of it: the order of entries and separators, heads, continuity, depth.
    pub(super) fn check(&self) {
        self.root.check(None, None);
    }

    /// Changes the entry at a place.
    pub(super) fn change<T>(
        &mut self,
        place: PlaceRef<'_>,
        change: impl FnOnce(EntryMut<'_>) -> T,
    ) -> Option<T> {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let leaf = leaf.make_own();
                    let at = leaf.search(place).ok()?;
                    return Some(change(EntryMut { leaf, at }));
                }
                Node::Inner(inner) => {
                    let inner = Rc::make_mut(inner);
                    let at = inner.child_of(place, false);
                    node = &mut inner.children[at];
                }
            }
        }
    }
}

/// A place between entries; the next one and the one before are on its two sides.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    tree: &'a Tree,
    spot: Spot<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Entries behind that lie side by side and before `limit`, the gaps before them known and
    /// without tombstones; perhaps not all of them.
    #[inline]
    pub(super) fn run(&self, limit: PlaceRef<'_>) -> Run<'a> {
        let Spot { leaf, .. } = self.spot;
        let end = match leaf.rows().last() {
            Some(last) if PlaceRef::of_flat(last) >= limit => {
                leaf.search(limit).unwrap_or_else(|at| at)
            }
            _ => leaf.len(),
        };
        let count = leaf.continuity().plain_from(self.at, end.max(self.at));
        leaf.run(self.at..self.at + count)
    }

    /// The entry before, where it stands in the same leaf.
    #[inline]
    pub(super) fn neighbour(&self) -> Option<&'a FlatRow> {
        self.at.checked_sub(1).map(|at| &self.spot.leaf.rows()[at])
    }

    /// Passes this many following entries of this run.
    pub(super) fn pass(&mut self, count: usize) {
        debug_assert!(self.at + count <= self.spot.leaf.len(), "a run ends with its leaf");
        self.at += count;
    }

    /// Entries before that lie side by side and behind `limit`, as in [`run`](Self::run).
    #[inline]
    pub(super) fn run_before(&self, limit: PlaceRef<'_>) -> Run<'a> {
        let Spot { leaf, .. } = self.spot;
        let start = match leaf.rows().first() {
            Some(first) if PlaceRef::of_flat(first) <= limit => {
                leaf.search(limit).map_or_else(|at| at, |at| at + 1)
            }
            _ => 0,
        };
        let count = leaf.continuity().plain_until(start.min(self.at), self.at);
        leaf.run(self.at - count..self.at)
    }

    /// Passes this many preceding entries of this run.
    pub(super) fn pass_before(&mut self, count: usize) {
        debug_assert!(count <= self.at, "a run begins with its leaf");
        self.at -= count;
    }

    /// Passes the entry before.
    #[inline]
    pub(super) fn previous(&mut self) -> Option<View<'a>> {
        while self.at == 0 {
            let lower = PlaceRef::of_flat(self.spot.lower?);
            self.spot = self.tree.spot(lower, true);
            self.at = self.spot.leaf.len();
        }
        self.at -= 1;
        Some(self.spot.leaf.view(self.at))
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = View<'a>;

    /// Passes the entry behind.
    #[inline]
    fn next(&mut self) -> Option<View<'a>> {
        while self.at == self.spot.leaf.len() {
            let upper = PlaceRef::of_flat(self.spot.upper?);
            self.spot = self.tree.spot(upper, false);
            self.at = 0;
        }
        self.at += 1;
        Some(self.spot.leaf.view(self.at - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::clock::Random;
    use crate::mutation::Position;
    use crate::policy::Slot;

    fn claim(slot: u64) -> Claim {
        // Many of them, so that leaves forget some.
        let tombstone = (!slot.is_multiple_of(3))
            .then_some(Tombstone { timestamp: slot as i64 / 2, deletion_time: 0 });
        Claim { tombstone, slot: slot as Slot, is_known_before: slot.is_multiple_of(2) }
    }

    fn position(random: &mut Random, spread: u64) -> Position {
        let number = random.below(spread);
        // Keys of several lengths, prefixes of each other among them, with bytes at both ends.
        let mut bytes: Vec<u8> = (0..1 + random.below(2)).map(|_| 7).collect();
        bytes.extend(number.to_be_bytes());
        bytes.truncate(bytes.len() - random.below(3) as usize);
        if random.one_in(20) {
            bytes = vec![[0, 7, 0xff][random.below(3) as usize]; random.below(4) as usize];
        }
        let key = crate::schema::ClusteringKey::from_ordered(bytes);
        match random.below(6) {
            0 => Position::before(key),
            1 => Position::after(key),
            _ => Position::at(key),
        }
    }

    fn check(tree: &Tree, model: &BTreeMap<Position, Claim>) {
        let forward: Vec<_> = tree.iter().map(|view| (view.flat.position(), view.claim)).collect();
        let wanted: Vec<_> = model.iter().map(|(place, claim)| (place.clone(), *claim)).collect();
        assert_eq!(forward, wanted);
        let mut backward = Vec::new();
        let mut cursor = tree.behind(PlaceRef::END);
        while let Some(view) = cursor.previous() {
            backward.push((view.flat.position(), view.claim));
        }
        backward.reverse();
        assert_eq!(backward, wanted);
        check_node(&tree.root, true);
    }

    fn check_node(node: &Node, is_root: bool) {
        assert!(is_root || !node.is_empty());
        match node {
            Node::Inner(inner) => {
                assert_eq!(inner.separators.len() + 1, inner.children.len());
                assert!(
                    inner.children.len() <= WIDTH
                        && inner.children.len() > 1 - usize::from(!is_root)
                );
                let places = inner.separators.iter().map(PlaceRef::of_flat);
                assert_eq!(Heads::of(&inner.common, places).0, inner.heads.0);
                assert!(inner.heads.0.is_sorted(), "{inner:?}");
                inner.children.iter().for_each(|child| check_node(child, false));
            }
            Node::Leaf(leaf) => {
                leaf.check();
            }
        }
    }

    /// Nodes that have just been split off with one child, too.
    #[test]
    fn heads_of_rows_in_order_tell_them_apart() {
        let mut tree = Tree::default();
        for number in 0..20_000_u64 {
            let key = crate::schema::ClusteringKey::from_ordered(number.to_be_bytes());
            tree.insert(PlaceRef::of(&Position::at(key)).flat(), claim(number));
        }
        let Node::Inner(root) = &tree.root else { panic!("there are many rows") };
        let inner = |node: &Node| match node {
            Node::Inner(inner) => inner.heads.0[..inner.separators.len()].to_vec(),
            Node::Leaf(_) => panic!("there are more rows than one node has"),
        };
        let all: Vec<_> = root.children.iter().map(inner).collect();
        assert!(all.len() > 1 && all[1].len() > 1, "{all:?}");
        assert!(all.iter().all(|heads| heads.is_sorted_by(|a, b| a < b)), "{all:?}");
    }

    #[test]
    fn it_does_what_a_sorted_map_does_and_copies_stay_as_they_were() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let spread = [30, 300, 100_000][seed as usize % 3];
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            let mut copies = Vec::new();
            let mut next = 0;
            for step in 0..1500 {
                let place = position(&mut random, spread);
                let at = PlaceRef::of(&place);
                next += 1;
                // It grows, and shrinks again.
                let adds = if step < 900 { 4 } else { 1 };
                if random.below(6) < adds {
                    if model.insert(place.clone(), claim(next)).is_none() {
                        tree.insert(at.flat(), claim(next));
                    } else {
                        let new = claim(next);
                        tree.remove(at).unwrap();
                        tree.insert(at.flat(), new);
                    }
                } else if random.one_in(3) {
                    let other = model.range(place.clone()..).next().map(|(place, _)| place.clone());
                    if let Some(other) = other {
                        let was = model.remove(&other).unwrap();
                        let (_, gone) = tree.remove(PlaceRef::of(&other)).unwrap();
                        assert_eq!(gone, was);
                    }
                } else {
                    let changed = tree.change(at, |mut entry| {
                        entry.set_tombstone(claim(next).tombstone);
                        entry.set_known_before(true);
                    });
                    let known = model.get_mut(&place);
                    assert_eq!(changed.is_some(), known.is_some());
                    if let Some(known) = known {
                        known.tombstone = claim(next).tombstone;
                        known.is_known_before = true;
                    }
                }
                let probe = position(&mut random, spread);
                let probe_at = PlaceRef::of(&probe);
                assert_eq!(tree.get(probe_at).map(|view| view.claim), model.get(&probe).copied());
                let here = tree.at(probe_at).next().map(|view| view.claim);
                assert_eq!(here, model.range(&probe..).next().map(|(_, claim)| *claim));
                let before = tree.at(probe_at).previous().map(|view| view.claim);
                assert_eq!(before, model.range(..&probe).next_back().map(|(_, claim)| *claim));
                if step % 10 == 0 {
                    tree.fit(probe_at);
                }
                if step % 100 == 0 {
                    check(&tree, &model);
                    copies.push((tree.clone(), model.clone()));
                }
            }
            check(&tree, &model);
            copies.iter().for_each(|(tree, model)| check(tree, model));
            for place in model.keys() {
                tree.remove(PlaceRef::of(place)).unwrap();
            }
            assert!(tree.is_empty() && tree.iter().next().is_none());
        }
    }

    #[test]
    fn heads_tell_rows_apart_behind_a_bound_too() {
        let mut tree = Tree::default();
        tree.insert(PlaceRef { prefix: &[], weight: Weight::Before }.flat(), claim(0));
        for number in 0..200u64 {
            let place = PlaceRef { prefix: &number.to_be_bytes(), weight: Weight::At };
            tree.insert(place.flat(), claim(number));
        }
        let mut next = Some(PlaceRef { prefix: &[], weight: Weight::Before });
        while let Some(place) = next {
            let spot = tree.spot(place, false);
            let first = usize::from(spot.lower.is_none());
            let rows = &spot.leaf.heads()[first..spot.leaf.len()];
            assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", spot.leaf);
            next = spot.upper.map(PlaceRef::of_flat);
        }
    }

    #[test]
    fn rows_that_come_in_order_leave_full_leaves() {
        for is_reversed in [false, true] {
            let mut tree = Tree::default();
            for number in 0..10_000u64 {
                let number = if is_reversed { 10_000 - number } else { number };
                let place = PlaceRef { prefix: &number.to_be_bytes(), weight: Weight::At };
                tree.insert(place.flat(), claim(number));
            }
            let mut leaves = 0;
            let mut upper = Some(PlaceRef { prefix: &[], weight: Weight::Before });
            while let Some(place) = upper {
                let spot = tree.spot(place, false);
                leaves += 1;
                upper = spot.upper.map(PlaceRef::of_flat);
            }
            assert!(leaves <= 10_000 / WIDTH + 2, "{leaves} leaves, reversed {is_reversed}");
        }
    }

    #[test]
    fn nodes_of_few_children_are_joined_and_lose_nothing_of_what_is_left() {
        let place = |number: u64| {
            let key = crate::schema::ClusteringKey::from_ordered(number.to_be_bytes());
            Position::at(key)
        };
        // More than leaves below one node have room for.
        let count = (WIDTH * (WIDTH + 4)) as u64;
        let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
        for number in 0..count {
            tree.insert(PlaceRef::of(&place(number)).flat(), claim(number));
            model.insert(place(number), claim(number));
        }
        assert_eq!(tree.root.check(None, None), 2, "nodes stand over nodes");
        let (full, full_model) = (tree.clone(), model.clone());
        for number in (0..count).filter(|number| number % 100 != 0) {
            let (_, gone) = tree.remove(PlaceRef::of(&place(number))).unwrap();
            assert_eq!(Some(gone), model.remove(&place(number)));
        }
        assert_eq!(tree.root.check(None, None), 1, "one node has all leaves");
        check(&tree, &model);
        for number in (0..count).step_by(100) {
            let found = tree.get(PlaceRef::of(&place(number))).map(|view| view.claim);
            assert_eq!(found, Some(claim(number)));
        }
        check(&full, &full_model);
        for number in (0..count).step_by(100) {
            tree.remove(PlaceRef::of(&place(number))).unwrap();
        }
        assert!(tree.is_empty() && tree.iter().next().is_none());
    }
}

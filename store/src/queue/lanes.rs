//! The lanes of a doorbell in process: whose turn it is.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::lane::{Lane, Priority, Weights};

/// What waits, by tenant and priority.
///
/// **Invariant:** `tenants` and `ring` name the same tenants, each of whom has something that waits.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    tenants: BTreeMap<Arc<str>, [VecDeque<T>; Priority::ALL.len()]>,
    /// Whose turn it is, and who comes after them.
    ring: VecDeque<Arc<str>>,
    /// How much is left of the turn of the first in the ring; all of it, if nothing is said.
    credit: Option<u32>,
    weights: Weights,
    len: usize,
}

impl<T> Lanes<T> {
    pub(super) fn new(weights: Weights) -> Self {
        Self { tenants: BTreeMap::new(), ring: VecDeque::new(), credit: None, weights, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, lane: &Lane, item: T) {
        let lanes = self.tenants.entry(Arc::clone(&lane.tenant)).or_insert_with(|| {
            self.ring.push_back(Arc::clone(&lane.tenant));
            Default::default()
        });
        lanes[usize::from(lane.priority.rank())].push_back(item);
        self.len += 1;
    }

    /// The next one: of the tenant whose turn it is, the first of the most urgent.
    pub(super) fn pop(&mut self) -> Option<(Lane, T)> {
        let tenant = Arc::clone(self.ring.front()?);
        let lanes = self.tenants.get_mut(&tenant)?;
        let (priority, item) = Priority::ALL
            .into_iter()
            .find_map(|it| lanes[usize::from(it.rank())].pop_front().map(|item| (it, item)))?;
        self.len -= 1;
        let left = self.credit.take().unwrap_or_else(|| self.weights.of(&tenant)) - 1;
        if lanes.iter().all(VecDeque::is_empty) {
            self.tenants.remove(&tenant);
            self.ring.pop_front();
        } else if left == 0 {
            self.ring.rotate_left(1);
        } else {
            self.credit = Some(left);
        }
        Some((Lane { tenant, priority }, item))
    }

    /// Everything that waits, with its lane and how many stand before it there; tenants in the order of their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Lane, usize, &T)> {
        let lanes = self.ring.iter().filter_map(move |it| self.tenants.get(it).map(|lanes| (it, lanes)));
        let lanes = lanes.flat_map(|(tenant, lanes)| {
            let lane = move |priority| Lane { tenant: Arc::clone(tenant), priority };
            Priority::ALL.into_iter().map(lane).zip(lanes)
        });
        lanes.flat_map(|(lane, items)| {
            items.iter().enumerate().map(move |(nth, item)| (lane.clone(), nth, item))
        })
    }
}

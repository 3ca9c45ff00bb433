//! Deficit round robin over the tenants of an in-process queue.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::lane::{Lane, Priority, Weights};

/// Waiting items by tenant and priority.
///
/// **Invariant:** `tenants` and `turns` contain the same tenants, and each has at least one waiting item.
#[derive(Debug)]
pub(super) struct RoundRobin<T> {
    tenants: BTreeMap<Arc<str>, [VecDeque<T>; Priority::ALL.len()]>,
    /// Tenants in the order of their turns; the first has the current turn.
    turns: VecDeque<Arc<str>>,
    /// Items left in the current turn; `None` if the turn has not begun.
    deficit: Option<u32>,
    weights: Weights,
    len: usize,
}

impl<T> RoundRobin<T> {
    pub(super) fn new(weights: Weights) -> Self {
        Self { tenants: BTreeMap::new(), turns: VecDeque::new(), deficit: None, weights, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, lane: &Lane, item: T) {
        let lanes = self.tenants.entry(Arc::clone(&lane.tenant)).or_insert_with(|| {
            self.turns.push_back(Arc::clone(&lane.tenant));
            Default::default()
        });
        lanes[usize::from(lane.priority.rank())].push_back(item);
        self.len += 1;
    }

    /// Removes the oldest item of the highest priority, of the tenant that has the current turn.
    pub(super) fn pop(&mut self) -> Option<(Lane, T)> {
        let tenant = Arc::clone(self.turns.front()?);
        let lanes = self.tenants.get_mut(&tenant)?;
        let (priority, item) = Priority::ALL.into_iter().find_map(|priority| {
            lanes[usize::from(priority.rank())].pop_front().map(|item| (priority, item))
        })?;
        self.len -= 1;
        let left = self.deficit.take().unwrap_or_else(|| self.weights.of(&tenant)) - 1;
        if lanes.iter().all(VecDeque::is_empty) {
            self.tenants.remove(&tenant);
            self.turns.pop_front();
        } else if left == 0 {
            self.turns.rotate_left(1);
        } else {
            self.deficit = Some(left);
        }
        Some((Lane { tenant, priority }, item))
    }

    /// Iterates over all items with their lane and position in it, tenants in the order of their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Lane, usize, &T)> {
        let lanes =
            self.turns.iter().filter_map(move |tenant| self.tenants.get(tenant).map(|lanes| (tenant, lanes)));
        let lanes = lanes.flat_map(|(tenant, lanes)| {
            let lane = move |priority| Lane { tenant: Arc::clone(tenant), priority };
            Priority::ALL.into_iter().map(lane).zip(lanes)
        });
        lanes.flat_map(|(lane, items)| {
            items.iter().enumerate().map(move |(position, item)| (lane.clone(), position, item))
        })
    }
}

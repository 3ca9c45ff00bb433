//! The fewest threads that show what no fixture has seen yet: a greedy set cover over more threads than fit into
//! memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::coverage::{Point, Seen};

/// A thread, and the wanted points that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<K> {
    /// Identifies the thread.
    pub key: K,
    /// Length of the log in events.
    pub events: usize,
}

/// A chosen thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<K> {
    /// The thread and its points.
    pub thread: Candidate<K>,
    /// Strategy and points that no thread chosen earlier shows.
    pub shows: Vec<(String, Point)>,
}

/// The wanted points, and the candidate threads.
///
/// **Invariant:** of threads that show the same points only the shortest is kept, and a thread that shows a subset of
/// another is dropped. At most [`MOST`](Self::MOST) are kept; every point of a dropped thread is shown by a kept one.
#[derive(Debug)]
pub struct Cover<K> {
    wanted: Vec<(String, Point)>,
    kept: BTreeMap<BTreeSet<usize>, Candidate<K>>,
    most: usize,
}

impl<K: Ord + Clone> Cover<K> {
    /// Maximum number of candidates, unless more points are wanted.
    pub const MOST: usize = 4_096;

    /// Creates a cover of these points, each with its strategy.
    pub fn new(wanted: BTreeSet<(String, Point)>) -> Self {
        Self::within(wanted, Self::MOST)
    }

    fn within(wanted: BTreeSet<(String, Point)>, most: usize) -> Self {
        // With more candidates than points, at least one candidate is redundant.
        let most = most.max(wanted.len());
        Self { wanted: wanted.into_iter().collect(), kept: BTreeMap::new(), most }
    }

    /// Adds a thread to the candidates if it shows a wanted point.
    pub fn offer(&mut self, key: K, seen: Seen) {
        let Some(strategy) = seen.strategy else { return };
        let place = |point: Point| self.wanted.binary_search(&(strategy.clone(), point)).ok();
        let shows: BTreeSet<usize> = seen.points.into_iter().filter_map(place).collect();
        let candidate = Candidate { key, events: seen.events };
        if shows.is_empty() {
            return;
        }
        if let Some(same) = self.kept.get_mut(&shows) {
            if (candidate.events, &candidate.key) < (same.events, &same.key) {
                *same = candidate;
            }
            return;
        }
        if self.kept.keys().any(|set| shows.is_subset(set)) {
            return;
        }
        self.kept.retain(|set, _| !set.is_subset(&shows));
        self.kept.insert(shows, candidate);
        if self.most < self.kept.len() {
            self.drop_one();
        }
    }

    /// Drops the candidate with the fewest points among those that show no point alone.
    fn drop_one(&mut self) {
        let mut shown = vec![0_usize; self.wanted.len()];
        self.kept.keys().flatten().for_each(|nth| shown[*nth] += 1);
        let spare = self.kept.keys().filter(|set| set.iter().all(|nth| 1 < shown[*nth]));
        if let Some(least) = spare.min_by_key(|set| set.len()).cloned() {
            self.kept.remove(&least);
        }
    }

    /// Number of candidates.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the threads to take, those with most new points first, and the points that no thread shows.
    pub fn choose(mut self) -> (Vec<Chosen<K>>, Vec<(String, Point)>) {
        let mut open: BTreeSet<usize> = (0..self.wanted.len()).collect();
        let mut chosen = Vec::new();
        loop {
            let new = |set: &BTreeSet<usize>| set.intersection(&open).count();
            let most = self
                .kept
                .iter()
                .max_by_key(|(set, of)| (new(set), std::cmp::Reverse((of.events, of.key.clone()))));
            let Some((set, _)) = most.filter(|(set, _)| 0 < new(set)) else { break };
            let set = set.clone();
            let Some(thread) = self.kept.remove(&set) else { break };
            let shows = set.intersection(&open).map(|nth| self.wanted[*nth].clone()).collect();
            open.retain(|nth| !set.contains(nth));
            chosen.push(Chosen { thread, shows });
        }
        (chosen, open.into_iter().map(|nth| self.wanted[nth].clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(n: u32) -> Point {
        Point::Version(n)
    }

    fn wanted(n: u32) -> BTreeSet<(String, Point)> {
        (0..n).map(|it| ("s".to_owned(), point(it))).collect()
    }

    fn seen(points: &[u32], events: usize) -> Seen {
        Seen {
            strategy: Some("s".to_owned()),
            events,
            points: points.iter().map(|it| point(*it)).collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn the_fewest_are_chosen_and_the_shortest_of_equals() {
        let mut cover = Cover::new(wanted(6));
        for (key, points, events) in [
            ("long", &[0, 1, 2][..], 90),
            ("short", &[0, 1, 2], 9),
            ("part", &[0, 1], 1),
            ("other", &[2, 3], 5),
            ("last", &[4], 7),
            ("nothing", &[99], 1),
        ] {
            cover.offer(key, seen(points, events));
        }
        assert_eq!(cover.kept(), 3);
        let (chosen, rest) = cover.choose();
        let told: Vec<_> = chosen.iter().map(|it| (it.thread.key, it.shows.len())).collect();
        assert_eq!(told, [("short", 3), ("other", 1), ("last", 1)]);
        assert_eq!(rest, [("s".to_owned(), point(5))]);
    }

    #[test]
    fn no_more_are_kept_than_fit_and_what_one_alone_shows_is_never_dropped() {
        let mut cover = Cover::within(wanted(12), 12);
        cover.offer(0, seen(&[11], 1));
        let mut key = 0;
        for a in 0..11 {
            for b in 0..a {
                for c in 0..b {
                    key += 1;
                    cover.offer(key, seen(&[a, b, c], 10));
                    assert!(cover.kept() <= 12);
                }
            }
        }
        let (chosen, rest) = cover.choose();
        assert!(rest.is_empty() && chosen.iter().any(|it| it.thread.key == 0), "{rest:?}");
    }
}

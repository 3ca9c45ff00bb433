//! The threads that are rung for.

use uuid::Uuid;

/// The threads that are rung for: their names and next to nothing besides, as very many may wait.
///
/// ## Why pages
///
/// They come by pages, many of them twice. Small pages of sorted names take 16 bytes a thread, half of what a tree takes;
/// and none of them is ever moved to a larger place, as one long list would be, whose old place the process keeps.
#[derive(Clone, Debug, Default)]
pub struct Rung(Vec<Vec<Uuid>>);

impl Rung {
    /// Adds those that are not there.
    pub(super) fn add(&mut self, threads: impl IntoIterator<Item = Uuid>) {
        let mut page: Vec<Uuid> = threads.into_iter().filter(|it| !self.contains(*it)).collect();
        page.sort_unstable();
        page.dedup();
        page.shrink_to_fit();
        if !page.is_empty() {
            self.0.push(page);
        }
    }

    /// Adds those that are there and not here: of another part of the queue, as no thread is in two.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Whether it is rung for.
    pub fn contains(&self, thread: Uuid) -> bool {
        let may_have = |page: &&Vec<Uuid>| page.first() <= Some(&thread) && Some(&thread) <= page.last();
        self.0.iter().filter(may_have).any(|page| page.binary_search(&thread).is_ok())
    }

    /// Each of them once, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Uuid> {
        self.0.iter().flatten().copied()
    }
}

impl FromIterator<Uuid> for Rung {
    fn from_iter<I: IntoIterator<Item = Uuid>>(threads: I) -> Self {
        let mut this = Self::default();
        this.add(threads);
        this
    }
}

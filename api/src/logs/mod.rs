//! Reading threads: their rows, the fold of their logs, and notifications of changes.

pub(crate) mod end_cache;
pub(crate) mod fold_cache;
pub(crate) mod folded;
pub(crate) mod folded_log;
pub(crate) mod live_answer;
pub(crate) mod lookup;
pub(crate) mod subscription;

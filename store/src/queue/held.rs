//! What holds a ring back, for whoever looks.

use std::fmt;

use super::WHY_MAX;

/// What holds a ring back, and that in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What.
    pub held: HeldBy,
    /// For people: which limit, which pause, which error.
    pub words: String,
}

/// What can hold a ring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// Something faltered, and has its pause.
    Retry,
    /// An operator lets nothing of this begin.
    Pause,
    /// There is no room under the limits.
    Limit,
    /// A worker is at the thread.
    Worker,
}

impl HeldBy {
    const ALL: [Self; 4] = [Self::Retry, Self::Pause, Self::Limit, Self::Worker];

    /// What this holds back, in words.
    pub fn because(self, words: impl Into<String>) -> Why {
        Why { held: self, words: words.into() }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Pause => "pause",
            Self::Limit => "limit",
            Self::Worker => "worker",
        }
    }
}

impl Why {
    /// With as much of its words as is kept.
    pub(super) fn cut(&self) -> Self {
        self.held.because(&self.words[..self.words.floor_char_boundary(WHY_MAX)])
    }

    /// As it was written by [`Display`](fmt::Display); none, if nothing was said.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (held, words) = text.split_once(' ')?;
        let held = HeldBy::ALL.into_iter().find(|it| it.as_str() == held)?;
        Some(held.because(words))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.held.as_str(), self.words)
    }
}

//! Where a thread stands, for those who only look, and what it asks of a person by itself: what became of a call in
//! doubt, and what a tool wants to hear.

use super::{
    At, Progress, name,
    slot::{Slot, Stand},
};
use crate::{
    event::{Interrupt, InterruptKind},
    form::Form,
    request::Request,
    strategy::Strategy,
};

/// Where a thread stands, for those who only look.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// A person may speak.
    Idle,
    /// It can move.
    Busy,
    /// A person is asked.
    Waiting(Interrupt),
    /// A node gave up: an operator may retry, a person may say something new.
    Failed {
        /// Which node.
        node: String,
        /// Why.
        reason: String,
    },
}

impl<S: Strategy> Progress<S> {
    /// Where it stands, for those who only look.
    pub fn standing(&self) -> Standing {
        match &self.at {
            At::Rest => Standing::Idle,
            At::Asking(interrupt, _) => Standing::Waiting(interrupt.clone()),
            At::Before(_) => Standing::Busy,
            At::Failed(place, _, _, reason) => Standing::Failed { node: name(place), reason: reason.clone() },
            At::Within(place, _, slots) => {
                let doubted = |(n, it): (usize, &Slot)| match &it.stand {
                    Stand::Doubted(reason) => Some((n, it.request.clone(), reason.clone())),
                    Stand::Open
                    | Stand::Attempted
                    | Stand::Wanting(_)
                    | Stand::Hopeless
                    | Stand::Answered(_) => None,
                };
                if slots.iter().any(Slot::can_move) {
                    return Standing::Busy;
                }
                if let Some((slot, request, reason)) = slots.iter().enumerate().find_map(doubted) {
                    return Standing::Waiting(in_doubt(name(place), slot, &request, &reason));
                }
                self.wish().map_or(Standing::Busy, |wish| Standing::Waiting(input(name(place), &wish)))
            }
        }
    }

    /// What a tool wants to hear next, if the thread waits for that. What is in doubt is settled first.
    pub(super) fn wish(&self) -> Option<Wish<'_>> {
        let At::Within(_, _, slots) = &self.at else { return None };
        if slots.iter().any(|it| it.can_move() || matches!(it.stand, Stand::Doubted(_))) {
            return None;
        }
        slots.iter().enumerate().find_map(|(slot, it)| {
            let Stand::Wanting(forms) = &it.stand else { return None };
            let (name, form) = forms.first_key_value()?;
            Some(Wish { slot, request: &it.request, name, form })
        })
    }

    /// Whether the thread waits for what a tool wants to hear.
    pub(super) fn is_wanting(&self) -> bool {
        self.wish().is_some()
    }
}

fn in_doubt(node: String, slot: usize, request: &Request, reason: &str) -> Interrupt {
    Interrupt {
        kind: InterruptKind::InDoubt,
        question: format!("[{slot}] {request} may or may not have happened: {reason}. Did it?"),
        options: ["happened", "did not", "skip"].map(str::to_owned).to_vec(),
        form: None,
        resume: node,
    }
}

/// Something that a tool wants to hear.
pub(super) struct Wish<'a> {
    pub(super) slot: usize,
    pub(super) request: &'a Request,
    pub(super) name: &'a str,
    pub(super) form: &'a Form,
}

/// **Invariant:** the words say who asks, as they are a server's and might pretend to be ours.
fn input(node: String, wish: &Wish<'_>) -> Interrupt {
    let who = match wish.request {
        Request::CallTool { server, call } => format!("{} of {server}", call.name),
        Request::GetPrompt { server, name, .. } => format!("the prompt {name} of {server}"),
        other @ (Request::Chat { .. }
        | Request::ListTools { .. }
        | Request::ListPrompts { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Rehearse(_)) => other.to_string(),
    };
    Interrupt {
        kind: InterruptKind::Input,
        question: format!("{who} asks: {} ({})", wish.form.question, wish.form.wants()),
        options: Vec::new(),
        form: Some(Box::new(wish.form.clone())),
        resume: node,
    }
}

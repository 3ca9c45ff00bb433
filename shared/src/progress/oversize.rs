//! Limits to assume after a refusal that may be for the size of a request.
//!
//! ## Why a refusal is not judged by its wording
//!
//! Every endpoint has its own, and new ones appear. The status and the largest request that the model took decide whether
//! a smaller one is worth a try, and the answer to it decides what is learned.

use super::{
    Progress,
    limits::RequestSize,
    phase::{Phase, Place},
};
use crate::{
    context::{CONTEXT_TOKENS_MIN, MIN_SHOWN_TOKENS},
    request::{FaultKind, Oversize, Request},
    strategy::Strategy,
};

/// Smallest context window, in tokens, that is believed if an endpoint names it in an error.
const NAMED_MIN: u64 = 256;

/// Bytes of a prompt that count as one token where sizes are only compared.
const BYTES_PER_TOKEN: u64 = 4;

/// Limits of the request that follows a refused one. At least one is set.
pub(super) struct SmallerLimits {
    pub(super) context_tokens: Option<u64>,
    pub(super) attachments_max: Option<u64>,
    /// True if the refusal named no limit.
    pub(super) is_trial: bool,
}

impl SmallerLimits {
    fn attachments(max: u64, is_trial: bool) -> Self {
        Self { context_tokens: None, attachments_max: Some(max), is_trial }
    }

    fn tokens(window: u64, is_trial: bool) -> Self {
        Self { context_tokens: Some(window), attachments_max: None, is_trial }
    }
}

impl<S: Strategy> Progress<S> {
    /// Returns the limits of the next request after a refusal of this kind. `None` if no smaller request is worth a try.
    pub(super) fn smaller_limits(
        &self,
        place: Place<S::NodeName>,
        asked: usize,
        request: &Request,
        kind: FaultKind,
    ) -> Option<SmallerLimits> {
        let Request::Chat { .. } = request else { return None };
        match kind {
            FaultKind::ContextExceeded { context_tokens } => {
                let window = self.learned_window(place, request, context_tokens)?;
                Some(SmallerLimits::tokens(window, false))
            }
            FaultKind::Oversized(sign) => self.trial_limits(place, asked, request, sign),
            FaultKind::Transient { .. }
            | FaultKind::Unavailable { .. }
            | FaultKind::InDoubt { .. }
            | FaultKind::Permanent => None,
        }
    }

    /// Images and files go first: an endpoint that counts bytes, or them, takes the same text without them.
    fn trial_limits(
        &self,
        place: Place<S::NodeName>,
        asked: usize,
        request: &Request,
        sign: Oversize,
    ) -> Option<SmallerLimits> {
        let Request::Chat { model, .. } = request else { return None };
        let (limits, size) = (&self.window.limits, self.request_size(place, request));
        let (taken, tried) = (limits.taken(model), limits.tried(model, asked));
        let half = size.attachments / 2;
        let (fewer_attachments, fewer_tokens) = match sign {
            Oversize::Attachments { max } if 0 < size.attachments => {
                let named = max.filter(|max| *max < size.attachments);
                // One of them may be too large, and it may be the newest.
                let fewer = if self.window.is_refused_again() { 0 } else { half };
                return Some(SmallerLimits::attachments(named.unwrap_or(fewer), false));
            }
            Oversize::Status => (0 < size.attachments, true),
            Oversize::Attachments { .. } | Oversize::Unknown => {
                (taken.attachments < size.attachments, taken.tokens.max(CONTEXT_TOKENS_MIN) < size.tokens)
            }
        };
        if fewer_attachments && !tried.attachments {
            return Some(SmallerLimits::attachments(half, true));
        }
        let window = self.learned_window(place, request, None).filter(|_| fewer_tokens && !tried.tokens)?;
        self.can_fit(place, request, window).then_some(SmallerLimits::tokens(window, true))
    }

    /// Returns the context window to assume after a refusal. `None` if prompt and tools alone take as much as the request.
    ///
    /// It is the one that the endpoint names, if the request has more tokens than that by estimate. Otherwise the estimate
    /// was too low, and the window is set so that the next request is smaller by a known part.
    fn learned_window(
        &self,
        place: Place<S::NodeName>,
        request: &Request,
        named: Option<u64>,
    ) -> Option<u64> {
        let node = match place {
            Place::Node(node) => Some(node),
            Place::Summarise(_) => None,
        };
        let issued = self.issued_tokens(node, request);
        let least = self.least_window(node, request);
        let window = match named.filter(|length| NAMED_MIN <= *length) {
            // The number is no window: prompt and tools alone take more.
            Some(named) if named < least => issued * 2 / 3,
            Some(named) if named < issued => named,
            Some(_) => issued * 3 / 4,
            None => issued * 2 / 3,
        };
        (least < issued || window == least).then_some(window.max(least))
    }

    /// Returns the smallest context window that leaves room for a message beside prompt and tools.
    fn least_window(&self, node: Option<S::NodeName>, request: &Request) -> u64 {
        let fixed = self.fixed_tokens(node, request) + MIN_SHOWN_TOKENS;
        crate::context::window_for(fixed, super::fit::reply_tokens(request))
    }

    /// Returns the size of a request as far as it costs nothing to compute: schemas and a node's own tools do not count. A request for
    /// a summary is one text, without images and files.
    pub(super) fn request_size(&self, place: Place<S::NodeName>, request: &Request) -> RequestSize {
        let Request::Chat { system, tool_servers, .. } = request else { return RequestSize::default() };
        let servers: u64 = tool_servers.iter().map(|server| self.window.tools(server)).sum();
        let shown = self.shown(request);
        RequestSize {
            tokens: shown.tokens + system.len() as u64 / BYTES_PER_TOKEN + servers,
            attachments: if let Place::Node(_) = place { shown.attachments } else { 0 },
        }
    }

    /// Records the size of a request that its model answered.
    pub(super) fn record_taken(&mut self, nth: usize) {
        let Phase::AwaitingResponses(place @ Place::Node(_), asked, slots) = &self.at else { return };
        let Some(request @ Request::Chat { model, .. }) = slots.get(nth).map(|slot| &slot.request) else {
            return;
        };
        let (asked, size, model) = (*asked, self.request_size(*place, request), model.clone());
        self.window.limits.take(&model, size, asked);
    }
}

//! Searches the index for candidate servers.

use crate::retriever::{Candidate, Ending, Fact, NodeName, Retriever, listing::LISTED_MAX};
use shared::{Hit, Node, Search, Thread, Transition};

pub(in crate::retriever) struct Retrieve;

/// Maximum length of a server's text that a model receives, in characters.
const TEXT_MAX: usize = 4_000;

impl Node<Retriever> for Retrieve {
    type Effect = Search;

    /// The limit grows by the number of servers that refused, because those are removed from the results.
    fn ask(&self, thread: &Thread<Retriever>) -> Search {
        let query = thread.state.queries.last().map_or(thread.last_user_message(), String::as_str).to_owned();
        let limit = thread.config.candidates + thread.state.refused.len();
        Search { query, limit, options: thread.config.search.clone() }
    }

    /// If nothing fits, a model writes other words, once. An index that cannot be searched is replaced by the one-line
    /// descriptions of the servers.
    fn learn(&self, thread: &Thread<Retriever>, found: Result<Vec<Hit>, String>) -> Transition<Retriever> {
        let hits = match found {
            Ok(hits) => hits,
            Err(reason) => {
                let why = format!(
                    "the index cannot be searched: {reason}; routed over the one-line descriptions of all servers instead"
                );
                let candidates = everyone(thread);
                return Transition::to(NodeName::Route).learn(Fact::Retrieved { candidates }).because(why);
            }
        };
        let (candidates, left_out) = sift(thread, hits);
        if candidates.is_empty() {
            let why =
                if left_out.is_empty() { "the index found nothing".to_owned() } else { left_out.join("; ") };
            return nothing(thread, &why);
        }
        let next = Transition::to(NodeName::Route).learn(Fact::Retrieved { candidates });
        if left_out.is_empty() { next } else { next.because(left_out.join("; ")) }
    }
}

/// Continues after a search without a usable result.
fn nothing(thread: &Thread<Retriever>, why: &str) -> Transition<Retriever> {
    if thread.state.searched_again {
        let ended = Fact::Ended(Ending::NothingRelevant);
        return Transition::to(NodeName::Respond).learn(ended).because(why).declined("no server fits");
    }
    let next =
        Transition::to(NodeName::RoutingQuery).because(format!("{why}; searched once more in other words"));
    // The person's own words were no query of a model yet.
    let next = match thread.state.queries.last() {
        Some(_) => next,
        None => next.learn(Fact::Queried { query: thread.last_user_message().to_owned() }),
    };
    next.learn(Fact::Missed)
}

/// Returns the usable hits, and the reasons for leaving out the others.
fn sift(thread: &Thread<Retriever>, hits: Vec<Hit>) -> (Vec<Candidate>, Vec<String>) {
    let mut left_out = Vec::new();
    let mut usable = Vec::new();
    for hit in hits {
        if !thread.servers.contains_key(&hit.server) {
            left_out.push(format!("{} is in the index and not at hand", hit.server));
        } else if thread.state.is_excluded(&hit.server) {
            left_out.push(format!("{} was tried already", hit.server));
        } else {
            usable.push(hit);
        }
    }
    let best = usable.iter().map(|hit| hit.score).fold(f64::NEG_INFINITY, f64::max);
    let ratio = thread.config.score;
    let mut candidates = Vec::new();
    for hit in usable {
        // Fractions of a negative score have no meaning.
        if best > 0.0 && hit.score < ratio * best {
            left_out.push(format!("{} scored {:.2} < {ratio} of {best:.2}", hit.server, hit.score));
        } else {
            candidates.push(Candidate { server: hit.server, text: cut(&hit.text) });
        }
    }
    candidates.truncate(thread.config.candidates);
    (candidates, left_out)
}

/// Returns the servers that may be chosen, at most [`LISTED_MAX`], each with its one-line description.
fn everyone(thread: &Thread<Retriever>) -> Vec<Candidate> {
    let open = thread.servers.iter().filter(|(name, _)| !thread.state.is_excluded(name)).take(LISTED_MAX);
    open.map(|(name, what)| Candidate { server: name.clone(), text: what.clone() }).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text.to_owned(),
    }
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let long = "ä".repeat(TEXT_MAX + 1);
    assert_eq!(cut(&long), format!("{} …", "ä".repeat(TEXT_MAX)));
    assert_eq!(cut(&long[..2 * TEXT_MAX]), "ä".repeat(TEXT_MAX));
}

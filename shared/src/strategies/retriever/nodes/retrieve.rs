//! Searches the index for candidate servers.

use crate::{
    Hit, Node, Search, Thread, Transition,
    strategies::retriever::{Candidate, Fact, NodeName, Retriever},
};

pub(in crate::strategies::retriever) struct Retrieve;

/// Maximum length of a server's text that a model receives, in characters.
const TEXT_MAX: usize = 4_000;

impl Node<Retriever> for Retrieve {
    type Effect = Search;

    /// The limit grows by the number of servers that refused, because those are removed from the results.
    fn ask(&self, thread: &Thread<Retriever>) -> Search {
        let query = thread.state.queries.last().map_or(thread.last_user_message(), String::as_str).to_owned();
        Search { query, limit: thread.config.candidates + thread.state.refused.len() }
    }

    fn learn(&self, thread: &Thread<Retriever>, found: Result<Vec<Hit>, String>) -> Transition<Retriever> {
        let next = Transition::to(NodeName::Route);
        let (candidates, left_out) = match found {
            Ok(hits) => sift(thread, hits),
            Err(reason) => (Vec::new(), vec![format!("the index cannot be searched: {reason}")]),
        };
        if candidates.is_empty() {
            let candidates = everyone(thread);
            let because =
                if left_out.is_empty() { "the index found nothing".to_owned() } else { left_out.join("; ") };
            let why = format!("{because}; routed over the one-line descriptions of all servers instead");
            return next.learn(Fact::Retrieved { candidates }).because(why);
        }
        let next = next.learn(Fact::Retrieved { candidates });
        if left_out.is_empty() { next } else { next.because(left_out.join("; ")) }
    }
}

/// Returns the usable hits, and the reasons for leaving out the others.
fn sift(thread: &Thread<Retriever>, hits: Vec<Hit>) -> (Vec<Candidate>, Vec<String>) {
    let mut left_out = Vec::new();
    let mut usable = Vec::new();
    for hit in hits {
        if !thread.servers.contains_key(&hit.server) {
            left_out.push(format!("{} is in the index and not at hand", hit.server));
        } else if thread.state.has_refused(&hit.server) {
            left_out.push(format!("{} was tried already", hit.server));
        } else {
            usable.push(hit);
        }
    }
    let best = usable.iter().map(|it| it.score).fold(f64::NEG_INFINITY, f64::max);
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

/// Returns every available server that has not refused, with its one-line description.
fn everyone(thread: &Thread<Retriever>) -> Vec<Candidate> {
    let fresh = thread.servers.iter().filter(|(name, _)| !thread.state.has_refused(name));
    fresh.map(|(name, what)| Candidate { server: name.clone(), text: what.clone() }).collect()
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

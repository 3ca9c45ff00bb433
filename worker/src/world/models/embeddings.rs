//! Texts as vectors, by an endpoint that speaks OpenAI's embeddings.

use serde::Deserialize;
use serde_json::json;
use shared::Fault;

use super::endpoint::Endpoint;
use crate::world::cut;

/// How many texts go into one request: endpoints limit the number, and all of them together.
const TEXTS_MAX: usize = 64;

/// How much of a text is looked at, in characters: models take some 8,000 tokens, and refuse more.
const TEXT_MAX: usize = 16_000;

/// A text that is refused even though it is as short as this is not refused for its length.
const TEXT_MIN: usize = 500;

/// What endpoints speak of that find a text too long.
const LENGTH_WORDS: [&str; 4] = ["too large", "too long", "context length", "context size"];

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// A vector for each text, all of one length.
    ///
    /// ## Why texts are shortened
    ///
    /// Small models take 512 tokens, and say so only by refusing more. What a server is good for stands at the
    /// beginning of its text.
    pub(super) async fn embed(&self, model: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Fault> {
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for some in texts.chunks(TEXTS_MAX) {
            let longest = some.iter().map(|it| it.chars().count()).max().unwrap_or(0);
            let mut limit = longest.min(TEXT_MAX);
            let answer = loop {
                let input: Vec<String> = some.iter().map(|it| cut(it, limit)).collect();
                let body = json!({ "model": model, "input": input, "encoding_format": "float" });
                match self.post("/embeddings", &body).await {
                    Err(fault) if TEXT_MIN < limit && is_about_length(&fault) => limit = limit * 3 / 4,
                    answer => break answer?,
                }
            };
            let mut answer: Answer =
                serde_json::from_value(answer).map_err(|_| self.strange("holds no embeddings"))?;
            answer.data.sort_by_key(|it| it.index);
            if !answer.data.iter().map(|it| it.index).eq(0..some.len()) {
                return Err(self.strange("does not hold one embedding for each text"));
            }
            vectors.extend(answer.data.into_iter().map(|it| it.embedding));
        }
        let length = vectors.first().map_or(0, Vec::len);
        let whole =
            |it: &Vec<f32>| it.len() == length && !it.is_empty() && it.iter().all(|it| it.is_finite());
        if !vectors.iter().all(whole) {
            return Err(self.strange("holds embeddings that cannot be compared"));
        }
        Ok(vectors)
    }
}

fn is_about_length(fault: &Fault) -> bool {
    let error = fault.error.to_lowercase();
    LENGTH_WORDS.iter().any(|it| error.contains(it))
}

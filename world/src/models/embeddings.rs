//! Embeddings: converts texts to vectors with OpenAI's embeddings API.

use serde::Deserialize;
use serde_json::json;
use shared::Fault;

use super::endpoint::Endpoint;
use crate::text::truncate;

/// Maximum texts per request; endpoints limit their number and their total size.
const MAX_TEXTS: usize = 64;

/// Maximum characters of a text; models take about 8,000 tokens and reject more.
const MAX_TEXT_CHARS: usize = 16_000;

/// Minimum characters to which a text is shortened. A shorter text is not rejected for its length.
const MIN_TEXT_CHARS: usize = 500;

/// Phrases of endpoints that reject a text for its length.
const LENGTH_PHRASES: [&str; 4] = ["too large", "too long", "context length", "context size"];

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// Returns a vector for each text, all of one length.
    ///
    /// ## Why texts are shortened
    ///
    /// Small models accept 512 tokens and reject longer texts; nothing announces the limit. The purpose of a server is
    /// at the beginning of its text.
    pub(super) async fn embed(&self, model: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Fault> {
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_TEXTS) {
            let longest = batch.iter().map(|text| text.chars().count()).max().unwrap_or(0);
            let mut limit = longest.min(MAX_TEXT_CHARS);
            let response = loop {
                let input: Vec<String> = batch.iter().map(|text| truncate(text, limit)).collect();
                let body = json!({ "model": model, "input": input, "encoding_format": "float" });
                match self.post("/embeddings", &body).await {
                    Err(fault) if MIN_TEXT_CHARS < limit && is_about_length(&fault) => limit = limit * 3 / 4,
                    response => break response?,
                }
            };
            let mut response: EmbeddingsResponse = serde_json::from_value(response)
                .map_err(|_| self.unusable_response("holds no embeddings"))?;
            response.data.sort_by_key(|embedding| embedding.index);
            if !response.data.iter().map(|embedding| embedding.index).eq(0..batch.len()) {
                return Err(self.unusable_response("does not hold one embedding for each text"));
            }
            vectors.extend(response.data.into_iter().map(|embedding| embedding.embedding));
        }
        let length = vectors.first().map_or(0, Vec::len);
        let is_comparable = |vector: &Vec<f32>| {
            vector.len() == length && !vector.is_empty() && vector.iter().all(|number| number.is_finite())
        };
        if !vectors.iter().all(is_comparable) {
            return Err(self.unusable_response("holds embeddings that cannot be compared"));
        }
        Ok(vectors)
    }
}

fn is_about_length(fault: &Fault) -> bool {
    let error = fault.error.to_lowercase();
    LENGTH_PHRASES.iter().any(|phrase| error.contains(phrase))
}

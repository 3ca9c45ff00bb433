//! `turnfold thread search`.

use api_types::{SaidBy, SearchHit, SearchResults};
use reqwest::Url;
use serde_json::{Value, json};

use crate::{
    client::Client,
    commands::Context,
    exit::Exit,
    output::{self, Format},
};

pub(super) async fn run(ctx: &Context, client: &Client, words: &str, limit: u16) -> anyhow::Result<Exit> {
    // The URL type does the escaping.
    let url = Url::parse_with_params("http://api/", [("q", words), ("limit", &limit.to_string())])?;
    let found: SearchResults = client.get(&format!("/v1/search?{}", url.query().unwrap_or_default())).await?;
    let things: Vec<Value> = found.data.iter().map(|hit| json!(hit)).collect();
    output::many(ctx.format, &things, || {
        if found.data.is_empty() {
            return "no event has all these words".to_owned();
        }
        let row = |hit: &SearchHit| {
            let marked = marked(hit);
            let said_by = said_by(hit);
            vec![hit.thread.id.to_string(), hit.seq.to_string(), output::when(&hit.at), said_by, marked]
        };
        output::table(&["thread", "event", "at", "by", "text"], found.data.iter().map(row))
    })?;
    if found.has_more {
        output::note("(there are more; see --limit)");
    }
    if found.is_behind && found.indexed_until.starts_with("1970") {
        output::note("(the index is not filled yet; there may be more)");
    } else if found.is_behind {
        output::note(&format!(
            "(events after {} may be missing: they are not indexed yet)",
            found.indexed_until
        ));
    }
    if ctx.format == Format::Text && !found.data.is_empty() {
        output::note("hint: turnfold thread events ID --from EVENT shows what stands around it");
    }
    Ok(Exit::Ok)
}

fn said_by(hit: &SearchHit) -> String {
    match (&hit.author, hit.said_by) {
        (Some(author), _) => author.clone(),
        (None, SaidBy::User) => "user".to_owned(),
        (None, SaidBy::System) => "system".to_owned(),
        (None, SaidBy::Assistant) => "assistant".to_owned(),
        (None, SaidBy::Arguments) => "arguments".to_owned(),
        (None, SaidBy::Tool) => "tool".to_owned(),
    }
}

/// Returns the snippet on one line, with the words in brackets.
fn marked(hit: &SearchHit) -> String {
    let mut text = String::new();
    for (nth, char) in hit.snippet.chars().enumerate() {
        if hit.marks.iter().any(|mark| mark.end == nth) {
            text.push(']');
        }
        if hit.marks.iter().any(|mark| mark.start == nth) {
            text.push('[');
        }
        text.push(if char.is_whitespace() { ' ' } else { char });
    }
    if hit.marks.iter().any(|mark| mark.end == hit.snippet.chars().count()) {
        text.push(']');
    }
    text
}

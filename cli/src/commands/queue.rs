//! `turnfold queue`: what is paused, through the api.

use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::{Given, turn::name};
use crate::{
    args::{Paused, Queue},
    client::Client,
    exit::Exit,
    output,
};

/// The header that says who does it.
const USER_HEADER: &str = "x-turnfold-user";

pub(crate) async fn run(given: Given, command: Queue) -> anyhow::Result<Exit> {
    let client = Client::new(&given.settings, given.url.as_deref())?;
    match command {
        Queue::Pauses => list(&given, &client).await,
        Queue::Pause { what, reason } => {
            let request = client.request(Method::PUT, &path(&what)?).json(&json!({ "reason": reason }));
            let request = match std::env::var("USER") {
                Ok(user) if !user.is_empty() => request.header(USER_HEADER, user),
                Ok(_) | Err(_) => request,
            };
            let pause: Value = client.send(request).await?.json().await?;
            output::one(given.format, &pause, || {
                let (kind, name) = (name(&pause, "kind"), name(&pause, "name"));
                format!("{kind} {name} is paused: what is under way is finished, and nothing new is begun")
            })?;
            Ok(Exit::Ok)
        }
        Queue::Resume { what } => {
            let request = client.request(Method::DELETE, &path(&what)?);
            let pause: Value = client.send(request).await?.json().await?;
            output::one(given.format, &pause, || {
                format!("{} {} goes on", name(&pause, "kind"), name(&pause, "name"))
            })?;
            Ok(Exit::Ok)
        }
    }
}

async fn list(given: &Given, client: &Client) -> anyhow::Result<Exit> {
    let page = client.get("/v1/pauses").await?;
    let pauses = page["data"].as_array().cloned().unwrap_or_default();
    output::many(given.format, &pauses, || {
        if pauses.is_empty() {
            return "nothing is paused".to_owned();
        }
        let columns = ["kind", "name", "reason", "by", "at"];
        let row = |it: &Value| columns.map(|column| name(it, column).to_owned()).to_vec();
        output::table(&["kind", "name", "reason", "paused by", "since"], pauses.iter().map(row))
    })?;
    Ok(Exit::Ok)
}

/// Where the pause of something is.
fn path(what: &Paused) -> anyhow::Result<String> {
    let (kind, name) = match (&what.strategy, &what.model, &what.of_tenant) {
        (Some(name), _, _) => ("strategy", name.as_str()),
        (None, Some(name), _) => ("model", name.as_str()),
        (None, None, name) => ("tenant", name.as_deref().unwrap_or_default()),
    };
    // Only for its way of writing a slash within a name.
    let mut url = Url::parse("http://api/v1/pauses")?;
    if let Ok(mut parts) = url.path_segments_mut() {
        parts.push(kind).push(name);
    }
    Ok(url.path().to_owned())
}

//! `turnfold webhook`: who is told of the ends of batches, what they were told, and whether it was turnfold that told it.

use std::io::Read as _;

use anyhow::Context as _;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderValue},
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Given, turn::no_id};
use crate::{
    args::{Webhook, word},
    client::{Client, listed, name, path},
    config::SecretRef,
    exit::{Exit, Stop},
    output,
};

/// The longest body that is verified, in bytes.
const BODY_MAX: u64 = 16 << 20;

pub(crate) async fn run(given: Given, command: Webhook) -> anyhow::Result<Exit> {
    match command {
        Webhook::Ls => ls(&given, &given.client()?).await,
        Webhook::Add { at, types } => {
            let types = if types.is_empty() { Value::Null } else { json!(types) };
            let client = given.client()?;
            warn_of_another(&client, &at).await?;
            let webhook = client.post("/v1/webhooks", &json!({"url": at, "types": types})).await?;
            output::one(given.format, &webhook, || added(&webhook))?;
            Ok(Exit::Ok)
        }
        Webhook::Rm { id } => {
            let client = given.client()?;
            let request =
                client.request(Method::DELETE, &path(&["webhooks", &an_id(&id, "webhook", "webhook ls")?])?);
            let webhook: Value = client.send(request).await?.json().await?;
            output::one(given.format, &webhook, || {
                format!("{} is told nothing more", name(&webhook, "url"))
            })?;
            Ok(Exit::Ok)
        }
        Webhook::Deliveries { webhook, state, limit } => {
            let webhook = match webhook {
                Some(id) => format!("&webhook_id={}", an_id(&id, "webhook", "webhook ls")?),
                None => String::new(),
            };
            let state = state.map(|it| format!("&state={}", word(&it))).unwrap_or_default();
            let page = given.client()?.get(&format!("/v1/deliveries?limit={limit}{webhook}{state}")).await?;
            let all = listed(&page);
            output::many(given.format, all, || deliveries(all))?;
            Ok(Exit::Ok)
        }
        Webhook::Redeliver { id } => {
            let id = an_id(&id, "delivery", "webhook deliveries")?;
            let delivery =
                given.client()?.post(&path(&["deliveries", &id, "redeliver"])?, &json!({})).await?;
            output::one(given.format, &delivery, || {
                format!("{} is sent again, as {}", name(&delivery, "type"), name(&delivery, "name"))
            })?;
            Ok(Exit::Ok)
        }
        Webhook::Verify { secret, id, timestamp, signature } => {
            let headers =
                [("webhook-id", id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
            verify(&given, &secret, headers)
        }
    }
}

fn an_id(text: &str, what: &str, list: &str) -> anyhow::Result<String> {
    let id: Result<Uuid, _> = text.parse();
    id.map(|it| it.to_string()).map_err(|_| no_id(text, what, list))
}

/// Two webhooks of one URL are right while a secret is changed for another, and else a mistake.
async fn warn_of_another(client: &Client, at: &str) -> anyhow::Result<()> {
    let all = client.get("/v1/webhooks").await?;
    let known = listed(&all).iter().filter(|it| name(it, "url") == at);
    for id in known.map(|it| name(it, "id")) {
        output::remark(&format!(
            "{at} is told by the webhook {id} already, and by each of them from now on: `turnfold webhook rm {id}` ends that one"
        ));
    }
    Ok(())
}

async fn ls(given: &Given, client: &Client) -> anyhow::Result<Exit> {
    let page = client.get("/v1/webhooks").await?;
    let all = listed(&page);
    output::many(given.format, all, || {
        let row = |it: &Value| {
            let types: Vec<&str> =
                it["types"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let whose = it["tenant"].as_str().unwrap_or("(everybody's)").to_owned();
            let disabled =
                it["disabled_why"].as_str().map(|it| format!("disabled: {it}")).unwrap_or_default();
            vec![name(it, "id").to_owned(), name(it, "url").to_owned(), whose, types.join(" "), disabled]
        };
        match all.is_empty() {
            true => "nobody is told anything: add a webhook with `turnfold webhook add URL`".to_owned(),
            false => output::table(&["webhook", "url", "batches of", "types", ""], all.iter().map(row)),
        }
    })?;
    Ok(Exit::Ok)
}

fn added(webhook: &Value) -> String {
    format!(
        "{} is told from now on (webhook {})\nits secret, which is not shown again: {}",
        name(webhook, "url"),
        name(webhook, "id"),
        name(webhook, "secret")
    )
}

fn deliveries(all: &[Value]) -> String {
    if all.is_empty() {
        return "nothing was told, and nothing is to be".to_owned();
    }
    let row = |it: &Value| {
        let text = |field: &str| name(it, field).to_owned();
        let of = name(&it["payload"]["data"], "id").to_owned();
        let next = it["due_at"].as_str().map(|at| format!("next at {at}")).unwrap_or_default();
        vec![
            text("id"),
            text("webhook_id"),
            text("type"),
            of,
            text("state"),
            it["attempts"].to_string(),
            text("error"),
            next,
        ]
    };
    output::table(
        &["delivery", "webhook", "type", "of", "state", "attempts", "error", ""],
        all.iter().map(row),
    )
}

fn verify(given: &Given, secret: &str, headers: [(&'static str, String); 3]) -> anyhow::Result<Exit> {
    let place = SecretRef::parse("--secret", secret)
        .map_err(|why| Stop::because(Exit::Usage, format!("--secret {why}")))?;
    let secret = place.resolve().map_err(|err| Stop::because(Exit::Usage, err.to_string()))?;
    let webhook = standardwebhooks::Webhook::new(secret.expose_secret())
        .map_err(|_| Stop::because(Exit::Usage, "--secret: it is not `whsec_` followed by Base64"))?;
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value)
            .map_err(|_| Stop::because(Exit::Usage, format!("{name}: it is no header's text")))?;
        map.insert(name, value);
    }
    let mut body = Vec::new();
    std::io::stdin()
        .lock()
        .take(BODY_MAX)
        .read_to_end(&mut body)
        .context("cannot read the body from stdin")?;
    let verified = webhook.verify(&body, &map);
    let thing =
        json!({"verified": verified.is_ok(), "why": verified.as_ref().err().map(ToString::to_string)});
    output::one(given.format, &thing, || match &verified {
        Ok(()) => "verified: whoever has the secret signed this body".to_owned(),
        Err(why) => format!("not verified: {why}"),
    })?;
    Ok(if verified.is_ok() { Exit::Ok } else { Exit::Finding })
}

//! `turnfold webhook`: manages webhooks and their deliveries, and verifies signatures.

use std::io::Read as _;

use anyhow::Context as _;
use api_types::{Delivery, NewWebhook, Page};
use reqwest::{
    Method,
    header::{HeaderMap, HeaderValue},
};
use secrecy::ExposeSecret as _;
use serde_json::json;
use uuid::Uuid;

use super::Context;
use crate::{
    args::{Webhook, value_name},
    client::{Client, path, with_reason},
    config::SecretRef,
    exit::{CliError, Exit},
    output,
};

/// Maximum size of a body to verify, in bytes.
const BODY_MAX: u64 = 16 << 20;

pub(crate) async fn run(ctx: Context, command: Webhook) -> anyhow::Result<Exit> {
    match command {
        Webhook::List => list(&ctx, &ctx.client()?).await,
        Webhook::Add { at, types, strategy, metadata } => {
            let client = ctx.client()?;
            note_same_url(&client, &at).await?;
            let types = (!types.is_empty()).then_some(types);
            let metadata = metadata.into_iter().collect();
            let new = NewWebhook { url: at, types, strategy, metadata };
            let webhook: api_types::Webhook = client.post("/v1/webhooks", &new).await?;
            if let Some(warning) = &webhook.warning {
                output::note(&format!("warning: {warning}"));
            }
            output::one(ctx.format, &webhook, || {
                format!(
                    "added webhook {} for {}\nsecret, not shown again: {}",
                    webhook.id,
                    webhook.url,
                    webhook.secret.as_deref().unwrap_or_default()
                )
            })?;
            Ok(Exit::Ok)
        }
        Webhook::Remove { id, reason } => {
            let client = ctx.client()?;
            let request = client
                .request(Method::DELETE, &path(&["webhooks", &parse_id(&id, "webhook", "webhook list")?])?);
            let request = with_reason(request, reason.as_deref())?;
            let webhook: api_types::Webhook = client.fetch(request).await?;
            output::one(ctx.format, &webhook, || format!("removed the webhook for {}", webhook.url))?;
            Ok(Exit::Ok)
        }
        Webhook::Deliveries { webhook, state, limit } => {
            let webhook = match webhook {
                Some(id) => format!("&webhook_id={}", parse_id(&id, "webhook", "webhook list")?),
                None => String::new(),
            };
            let state = state.map(|state| format!("&state={}", value_name(&state))).unwrap_or_default();
            let path = format!("/v1/deliveries?limit={limit}{webhook}{state}");
            let all = ctx.client()?.get::<Page<Delivery>>(&path).await?.data;
            output::many(ctx.format, &all, || deliveries(&all))?;
            Ok(Exit::Ok)
        }
        Webhook::Redeliver { id } => {
            let id = parse_id(&id, "delivery", "webhook deliveries")?;
            let delivery: Delivery =
                ctx.client()?.post(&path(&["deliveries", &id, "redeliver"])?, &json!({})).await?;
            output::one(ctx.format, &delivery, || {
                format!("{} will be sent again with webhook-id {}", delivery.kind, delivery.name)
            })?;
            Ok(Exit::Ok)
        }
        Webhook::Verify { secret, id, timestamp, signature } => {
            let headers =
                [("webhook-id", id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
            verify(&ctx, &secret, headers)
        }
    }
}

fn parse_id(text: &str, what: &str, list: &str) -> anyhow::Result<String> {
    let id: Result<Uuid, _> = text.parse();
    id.map(|id| id.to_string()).map_err(|_| {
        let message = format!("{text:?} is not the id of a {what}\nhint: list them with: turnfold {list}");
        CliError::with_exit(Exit::Usage, message)
    })
}

/// Notes that a webhook with the same URL exists. Two are right while a secret is being replaced; otherwise they are a
/// mistake.
async fn note_same_url(client: &Client, url: &str) -> anyhow::Result<()> {
    let all: Page<api_types::Webhook> = client.get("/v1/webhooks").await?;
    for webhook in all.data.iter().filter(|webhook| webhook.url == url) {
        output::note(&format!(
            "webhook {0} already sends to {url}; both will send from now on\nhint: remove it with: turnfold webhook remove {0}",
            webhook.id
        ));
    }
    Ok(())
}

async fn list(ctx: &Context, client: &Client) -> anyhow::Result<Exit> {
    let all = client.get::<Page<api_types::Webhook>>("/v1/webhooks").await?.data;
    output::many(ctx.format, &all, || {
        let row = |webhook: &api_types::Webhook| {
            let tenant = webhook.tenant.clone().unwrap_or_else(|| "(all)".to_owned());
            let disabled = webhook
                .disabled_reason
                .as_ref()
                .map(|reason| format!("disabled: {reason}"))
                .unwrap_or_default();
            let types = webhook.types.join(" ");
            vec![webhook.id.to_string(), webhook.url.clone(), tenant, types, filter(webhook), disabled]
        };
        match all.is_empty() {
            true => "no webhooks; add one with: turnfold webhook add URL".to_owned(),
            false => output::table(&["webhook", "url", "tenant", "types", "only", ""], all.iter().map(row)),
        }
    })?;
    Ok(Exit::Ok)
}

/// Condition of a webhook, as its options.
fn filter(webhook: &api_types::Webhook) -> String {
    let strategy = webhook.strategy.iter().map(|name| format!("strategy={name}"));
    let pairs = webhook.metadata.iter().map(|(name, value)| format!("{name}={value}"));
    strategy.chain(pairs).collect::<Vec<_>>().join(" ")
}

fn deliveries(all: &[Delivery]) -> String {
    if all.is_empty() {
        return "no deliveries".to_owned();
    }
    let row = |delivery: &Delivery| {
        let subject = delivery.payload["data"]["id"].as_str().unwrap_or_default().to_owned();
        let next =
            delivery.due_at.as_ref().map(|at| format!("next {}", output::when(at))).unwrap_or_default();
        vec![
            delivery.id.to_string(),
            delivery.webhook_id.to_string(),
            delivery.kind.clone(),
            subject,
            output::json_name(&delivery.state),
            delivery.attempts.to_string(),
            delivery.error.clone().unwrap_or_default(),
            next,
        ]
    };
    output::table(
        &["delivery", "webhook", "type", "subject", "state", "attempts", "error", ""],
        all.iter().map(row),
    )
}

fn verify(ctx: &Context, secret: &str, headers: [(&'static str, String); 3]) -> anyhow::Result<Exit> {
    let reference = SecretRef::parse("--secret", secret)
        .map_err(|why| CliError::with_exit(Exit::Usage, format!("--secret {why}")))?;
    let secret = reference.resolve().map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))?;
    let webhook = standardwebhooks::Webhook::new(secret.expose_secret())
        .map_err(|_| CliError::with_exit(Exit::Usage, "--secret: expected `whsec_` followed by Base64"))?;
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value)
            .map_err(|_| CliError::with_exit(Exit::Usage, format!("{name}: not valid in a header")))?;
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
        json!({"verified": verified.is_ok(), "problem": verified.as_ref().err().map(ToString::to_string)});
    output::one(ctx.format, &thing, || match &verified {
        Ok(()) => "verified: the body was signed with this secret".to_owned(),
        Err(why) => format!("not verified: {why}"),
    })?;
    Ok(if verified.is_ok() { Exit::Ok } else { Exit::Finding })
}

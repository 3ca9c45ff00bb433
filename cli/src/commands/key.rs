//! `turnfold key`: manages API keys.

use api_types::{NewKey, RotateKey};
use reqwest::Method;
use shared::MultitaskStrategy;

use super::Context;
use crate::{
    args::Key,
    client::{path, with_reason},
    exit::Exit,
    output,
};

pub(crate) async fn run(ctx: Context, command: Key) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    match command {
        Key::Create { scopes, expires, multitask_strategy, name } => {
            let expires_in_seconds = expires.map(|lifetime| lifetime.as_secs());
            let new = NewKey { name, scopes, expires_in_seconds, multitask_strategy };
            show_secret(&ctx, "created", &client.post("/v1/keys", &new).await?)?;
        }
        Key::List { limit } => {
            let all = client.all("/v1/keys", limit, |key: &api_types::Key| key.id.clone()).await?;
            output::many(ctx.format, &all, || match all.is_empty() {
                true => "no keys; create one with: turnfold key create --scope read".to_owned(),
                false => output::table(
                    &[
                        "key",
                        "name",
                        "tenant",
                        "scopes",
                        "status",
                        "created",
                        "expires",
                        "last used",
                        "busy thread",
                    ],
                    all.iter().map(row),
                ),
            })?;
        }
        Key::Revoke { id, reason } => {
            let request = client.request(Method::DELETE, &path(&["keys", id_of(&id)])?);
            let request = with_reason(request, reason.as_deref())?;
            let key: api_types::Key = client.fetch(request).await?;
            output::one(ctx.format, &key, || format!("revoked key {}", key.id))?;
        }
        Key::Rotate { id, overlap, reason } => {
            let id = id_of(&id);
            let body = RotateKey { overlap_seconds: overlap.as_secs() };
            let request = client.request(Method::POST, &path(&["keys", id, "rotate"])?).json(&body);
            let new: api_types::Key = client.fetch(with_reason(request, reason.as_deref())?).await?;
            show_secret(&ctx, &format!("replaced key {id}: created"), &new)?;
        }
    }
    Ok(Exit::Ok)
}

/// Returns the id of a key, also if the person gave the whole key: its secret part must not be sent as a part of a path.
fn id_of(text: &str) -> &str {
    match text.rsplit_once('_') {
        Some((id, secret)) if id.contains('_') && secret.len() > 16 => id,
        Some(_) | None => text,
    }
}

fn show_secret(ctx: &Context, done: &str, key: &api_types::Key) -> anyhow::Result<()> {
    output::one(ctx.format, key, || {
        format!(
            "{done} key {} of {} with {}{}\nkey, not shown again: {}",
            key.id,
            key.tenant.as_ref().map_or_else(|| "an operator".to_owned(), |tenant| format!("tenant {tenant}")),
            scopes(key),
            key.expires_at.as_ref().map(|at| format!(", expires at {at}")).unwrap_or_default(),
            key.key.as_deref().unwrap_or_default()
        )
    })
}

fn row(key: &api_types::Key) -> Vec<String> {
    vec![
        key.id.clone(),
        key.name.clone(),
        key.tenant.clone().unwrap_or_else(|| "(operator)".to_owned()),
        scopes(key),
        output::json_name(&key.status),
        output::when(&key.created_at),
        output::when(key.expires_at.as_deref().unwrap_or("never")),
        output::when(key.last_used_at.as_deref().unwrap_or("never")),
        key.multitask_strategy.map_or("-", MultitaskStrategy::as_str).to_owned(),
    ]
}

fn scopes(key: &api_types::Key) -> String {
    key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

#[test]
fn the_secret_part_of_a_key_is_left_out_of_paths() {
    let key = format!("tf_5d0f6a2b9c1e4873_{}", "a".repeat(64));
    for (text, id) in
        [(key.as_str(), "tf_5d0f6a2b9c1e4873"), ("tf_5d0f6a2b9c1e4873", "tf_5d0f6a2b9c1e4873"), ("x", "x")]
    {
        assert_eq!(id_of(text), id);
    }
}

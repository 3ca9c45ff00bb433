//! Routes that list the prompts in use, and show the text of one.

use api_types::{
    Page, Problem, PromptTurns, PromptUse, PromptVersion, PromptVersions, RatingCounts, StrategyRatings,
};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use shared::{is_template_hash, prompt_hash, usd, visible_start};
use store::Ratings;

use crate::{
    logs::folded::Folded,
    server::{
        extract::Path,
        pagination::page,
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Maximum number of uses that are shown.
const USES_MAX: u64 = 1_000;

/// Minimum number of digits by which a prompt is named.
const DIGITS_MIN: usize = 8;

/// Maximum characters of a hash in an error.
const SHOWN_CHARS: usize = 64;

/// List prompts
///
/// Returns the prompts that were used, with the nodes and models that used them, since when, how their turns ended, what they cost and
/// how people rated them. Shown are the 1,000 combinations of strategy, node, prompt and model that were used last; `has_more` says whether
/// there are others. At most 10,000 of them are counted for a tenant.
#[utoipa::path(
    get, path = "/v1/prompts", tag = "strategies", operation_id = "list_prompts",
    responses((status = 200, description = "The prompts and the ratings by strategy.", body = PromptVersions))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
) -> Result<Json<PromptVersions>, ApiError> {
    let uses = app.backends.store.prompt_uses(principal.only(), "", USES_MAX + 1).await?;
    let Page { data: uses, has_more } = page(uses, USES_MAX);
    let mut shown = PromptVersions { has_more, ..PromptVersions::default() };
    for used in uses {
        if used.asked.node.is_empty() {
            let (strategy, ratings) = (used.strategy, counts(used.ratings));
            shown.ratings.push(StrategyRatings { strategy, ratings });
        } else if !used.asked.prompt.is_empty() {
            add(&mut shown.prompts, used);
        }
    }
    Ok(Json(shown))
}

/// Show a prompt
///
/// Returns the text of a prompt and its use. The text of a built-in prompt is kept also after a newer version replaced it; that of a
/// configured prompt stands in the logs of its threads and is gone with the last of them.
#[utoipa::path(
    get, path = "/v1/prompts/{hash}", tag = "strategies", operation_id = "get_prompt",
    params(("hash" = String, Path, description = "Hash of the prompt, or at least its first 8 digits.", example = "3f9a0c21")),
    responses(
        (status = 200, description = "The prompt.", body = PromptVersion),
        (status = 404, description = "No such prompt was used.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The hash is too short, or several prompts begin with it.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(hash): Path<String>,
) -> Result<Json<PromptVersion>, ApiError> {
    let shown = visible_start(&hash, SHOWN_CHARS);
    if hash.len() < DIGITS_MIN || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let detail = format!("{shown:?} is not the hash of a prompt, nor its first {DIGITS_MIN} digits");
        return Err(Kind::Invalid.because(detail).hint("GET /v1/prompts lists the prompts"));
    }
    let hash = hash.to_ascii_lowercase();
    let mut found = Vec::new();
    for used in app.backends.store.prompt_uses(principal.only(), &hash, USES_MAX).await? {
        add(&mut found, used);
    }
    if 1 < found.len() {
        let names: Vec<&str> = found.iter().map(|prompt| &*prompt.hash).collect();
        let detail = format!("several prompts begin with {shown}: {}", names.join(", "));
        return Err(Kind::Invalid.because(detail).hint("give more digits"));
    }
    let prompt = found.pop().ok_or_else(|| {
        Kind::UnknownPrompt
            .because(format!("no prompt with the hash {shown} was used"))
            .hint("GET /v1/prompts lists the prompts")
    })?;
    let text = text_of(&app, &principal, &prompt.hash).await?;
    Ok(Json(PromptVersion { text, ..prompt }))
}

/// Adds a use to its prompt.
fn add(prompts: &mut Vec<PromptVersion>, used: store::PromptUse) {
    let hash = used.asked.prompt.clone();
    let prompt = match prompts.iter_mut().position(|prompt| prompt.hash == hash) {
        Some(nth) => &mut prompts[nth],
        None => {
            let origin = if is_template_hash(&hash) { "built-in" } else { "configured" }.to_owned();
            prompts.push(PromptVersion { hash, origin, text: None, uses: Vec::new() });
            let last = prompts.len() - 1;
            &mut prompts[last]
        }
    };
    prompt.uses.push(shown(used));
}

fn shown(used: store::PromptUse) -> PromptUse {
    let [answered, partial, declined, failed] = used.turns;
    PromptUse {
        strategy: used.strategy,
        node: used.asked.node,
        model: used.asked.model,
        first_used: rfc3339(used.used.0),
        last_used: rfc3339(used.used.1),
        responses: used.responses,
        input_tokens: used.tokens.0,
        output_tokens: used.tokens.1,
        usd: usd(used.micro_usd),
        responses_without_price: used.without_price,
        turns: PromptTurns { answered, partial, declined, failed },
        ratings: counts(used.ratings),
    }
}

fn counts(Ratings { good, bad }: Ratings) -> RatingCounts {
    RatingCounts { good, bad }
}

/// Returns the text of a prompt: of a built-in one from its table, of a configured one from a thread that used it.
async fn text_of(app: &AppState, principal: &Principal, hash: &str) -> Result<Option<String>, ApiError> {
    if is_template_hash(hash) {
        return Ok(app.backends.store.template(hash).await?);
    }
    for thread in app.backends.store.threads_of_prompt(principal.only(), hash).await? {
        let Ok(folded) = Folded::load(app, thread, None).await else { continue };
        let config = folded.thread.config().unwrap_or_default();
        let nodes = config["nodes"].as_object().into_iter().flatten();
        let texts = nodes.filter_map(|(_, node)| node["prompt"].as_str());
        if let Some(text) = texts.into_iter().find(|text| prompt_hash(text) == hash) {
            return Ok(Some(text.to_owned()));
        }
    }
    Ok(None)
}

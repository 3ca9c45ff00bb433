//! Budgets, prices and limits.

use shared::{Budget, Limits};
use turnfold::config::{LimitSettings, ModelLimits, PriceSettings, ProviderSettings};

use super::{error_of, toml};

#[test]
fn budgets_and_prices_are_validated() {
    let (settings, _) = toml(
        "budget.turn = { tokens = 9, usd = 0.5 }\nbudget.thread.seconds = 60\n\
         [providers.x]\nbase_url = 'http://x'\nprices = { 'a-1.5' = { input = 2.5, output = 10, cached_input = 1.25 } }",
    );
    let turn = Limits { tokens: Some(9), usd: Some(0.5), seconds: None };
    let thread = Limits { seconds: Some(60), ..Limits::default() };
    assert_eq!(settings.budget, Budget { turn, thread });
    let ProviderSettings::Http(provider) = &settings.providers["x"] else { panic!("it has a base_url") };
    assert_eq!(
        provider.prices["a-1.5"],
        PriceSettings { input: 2.5, output: 10.0, cached_input: Some(1.25), cache_write: None }
    );
    assert!(toml("").0.budget.is_none());
    for (text, message) in [
        ("budget.turn.tokens = 0", "budget.turn.tokens in turnfold.toml must be at least 1"),
        ("budget.thread.usd = 0", "budget.thread.usd in turnfold.toml must be at least 0.000001"),
        (
            "budget.turn.minutes = 1",
            "unknown key budget.turn.minutes in turnfold.toml: available keys: seconds, tokens, usd",
        ),
    ] {
        assert_eq!(error_of(text), message);
    }
    let refused =
        error_of("providers.x = { base_url = 'http://x', prices = { m = { input = -1, output = 1 } } }");
    assert_eq!(refused, "providers.x.prices.m.input in turnfold.toml must be at least 0");
}

#[test]
fn limits_are_validated() {
    let (settings, _) = toml(
        "[limits.models.'x/a-1.5']\nconcurrency = 2\nrequests_per_minute = 3\ntokens_per_minute = 4\nusd_per_day = 0.5\n\
         [limits.providers.x]\nusd_per_day = 40\n[limits.servers]\nmail.concurrency = 5\ncommands.requests_per_minute = 6\n\
         [providers.x]\nbase_url = 'http://x'\nprices = { 'a-1.5' = { input = 2.5, output = 10 } }\n\
         [mcp.mail]\ndescription = 'x'\ncommand = 'x'\n[commands.page]\ndescription = 'x'\nurl = 'http://x'",
    );
    let model = ModelLimits {
        concurrency: Some(2),
        requests_per_minute: Some(3),
        tokens_per_minute: Some(4),
        usd_per_day: Some(0.5),
    };
    assert_eq!(settings.limits.models["x/a-1.5"], model);
    assert_eq!(settings.limits.providers["x"].usd_per_day, Some(40.0));
    assert_eq!(settings.limits.servers["mail"].concurrency, Some(5));
    assert_eq!(settings.limits.servers["commands"].requests_per_minute, Some(6));
    let LimitSettings { models, providers, servers } = toml("").0.limits;
    assert!(models.is_empty() && providers.is_empty() && servers.is_empty());
    for (text, message) in [
        (
            "limits.models.gpt.concurrency = 1",
            "limits.models.gpt in turnfold.toml must be written as provider/model",
        ),
        (
            "limits.models.'opnai/gpt'.concurrency = 1",
            "limits.models.\"opnai/gpt\" in turnfold.toml names an unknown provider (configured: openai); add [providers.opnai]",
        ),
        (
            "limits.models.'openai/gpt'.usd_per_day = 1",
            "limits.models.\"openai/gpt\" in turnfold.toml has a limit in US dollars but no price: set \
             providers.openai.prices for \"gpt\"",
        ),
        (
            "limits.providers.opnai.concurrency = 1",
            "limits.providers.opnai in turnfold.toml names an unknown provider (configured: openai); add [providers.opnai]",
        ),
        (
            "limits.providers.openai.usd_per_day = 1",
            "limits.providers.openai in turnfold.toml has a limit in US dollars but no prices: set \
             providers.openai.prices",
        ),
        (
            "limits.servers.mail.concurrency = 1",
            "limits.servers.mail in turnfold.toml names an unknown MCP server (none is configured); add [mcp.mail]",
        ),
        (
            "limits.servers.commands.concurrency = 1",
            "limits.servers.commands in turnfold.toml names an unknown MCP server (none is configured); add [mcp.commands]",
        ),
        (
            "limits.providers.openai.concurrency = 0",
            "limits.providers.openai.concurrency in turnfold.toml must be at least 1",
        ),
        (
            "limits.servers.mail.usd_per_day = 1",
            "unknown key limits.servers.mail.usd_per_day in turnfold.toml: did you mean limits.models.NAME.usd_per_day?",
        ),
    ] {
        assert_eq!(error_of(text), message);
    }
    assert_eq!(toml("").0.worker.node_timeout_seconds, None);
    assert_eq!(toml("worker.node_timeout_seconds = 9").0.worker.node_timeout_seconds, Some(9));
    assert_eq!(
        error_of("worker.node_timeout_seconds = 0"),
        "worker.node_timeout_seconds in turnfold.toml must be at least 1"
    );
}

/// A section applies to one tenant, and `*` to the keys that it does not set.
#[test]
fn limits_of_tenants_are_validated() {
    let prices = "[providers.x]\nbase_url = 'http://x'\nprices = { m = { input = 1, output = 1 } }\n";
    let (settings, _) = toml(&format!(
        "{prices}[tenants.acme]\nweight = 3\nusd_per_day = 0.5\nmax_waiting_turns = 9\n\
         [tenants.'*']\nusd_per_day = 1\nrequests_per_minute = 5\ntokens_per_minute = 6"
    ));
    let acme = &settings.tenants["acme"];
    assert_eq!((acme.weight, acme.usd_per_day, acme.max_waiting_turns), (Some(3), Some(0.5), Some(9)));
    let every = &settings.tenants["*"];
    assert_eq!((every.requests_per_minute, every.tokens_per_minute), (Some(5), Some(6)));
    for (text, message) in [
        (
            "tenants.acme.usd_per_day = 1",
            "tenants.acme.usd_per_day in turnfold.toml is a limit in US dollars, but no model has a price: set providers.NAME.prices",
        ),
        (
            "tenants.'*'.keys = ['env:X']",
            "tenants.\"*\" in turnfold.toml holds for every tenant, so it can have neither keys nor a weight",
        ),
        (
            "tenants.acme.strategies = ['planer']",
            "tenants.acme.strategies in turnfold.toml names \"planer\", which is not a strategy (available: action_plan, chat, planner, \
             planner_with_prompts, research, retriever, index_builder, probe)",
        ),
        (
            "tenants.acme.models = ['opnai/*']",
            "tenants.acme.models in turnfold.toml does not begin with the name of a provider (configured: openai); use one of them, or add \
             [providers.NAME]",
        ),
        (
            "[tenants.acme.config.planner]\nrounds = 0",
            "tenants.acme.config.planner.rounds in turnfold.toml must be at least 1",
        ),
        (
            "[tenants.acme.config.planner]\nround = 1",
            "unknown key tenants.acme.config.planner.round in turnfold.toml: did you mean tenants.acme.config.planner.rounds?",
        ),
        (
            "[tenants.acme.config.planner]\nnodes.plan.model = 'x/y'",
            "tenants.acme.config.planner.nodes.plan.model in turnfold.toml does not begin with the name of a provider (configured: openai); \
             use one of them, or add [providers.NAME]",
        ),
        (
            "tenants.acme.requests_per_minute = 0",
            "tenants.acme.requests_per_minute in turnfold.toml must be at least 1",
        ),
    ] {
        assert_eq!(error_of(text), message);
    }
}

#[test]
fn a_budget_in_dollars_needs_prices() {
    let provider = "[providers.x]\nbase_url = 'http://x'\n";
    let priced = format!("{provider}prices = {{ m = {{ input = 1, output = 2 }} }}\n");
    let planner = |model: &str| format!("strategies.planner.model = '{model}'\n");
    assert_eq!(
        error_of("budget.turn.usd = 1"),
        "budget.turn.usd in turnfold.toml is a limit in US dollars, but no model has a price: set providers.NAME.prices \
         (`turnfold init` writes those of public providers), or limit tokens"
    );
    let unpriced = "is a limit in US dollars, but \"x/n\" of strategies.planner.model has no price: set \
                    providers.x.prices.\"n\" = { input = …, output = … } in US dollars per million tokens (0 for a model \
                    that costs nothing), or limit tokens";
    for key in ["budget.turn.usd", "budget.thread.usd"] {
        let text = format!("{key} = 1\n{}{priced}", planner("x/n"));
        assert_eq!(error_of(&text), format!("{key} in turnfold.toml {unpriced}"));
    }
    for at in ["tenants.acme.config.planner.nodes.plan.model", "context.summary_model"] {
        let refused = error_of(&format!("budget.turn.usd = 1\n{at} = 'x/n'\n{}{priced}", planner("x/m")));
        assert!(refused.contains(&format!("\"x/n\" of {at} has no price")), "{refused}");
    }
    toml(&format!("budget.turn.usd = 1\n{}{priced}", planner("x/m")));
    toml(&format!("budget.turn.tokens = 1\n{}{provider}", planner("x/n")));
    toml(&format!("budget.turn.usd = 1\n{}providers.x.script = 'x.json'", planner("x/n")));
}

/// `turnfold init` offers prices and applies none. Those that it offers are valid.
#[test]
fn the_first_configuration_offers_prices() {
    let starter = include_str!("../../../src/starter.toml");
    let (settings, _) = toml(starter);
    assert!(settings.budget.is_none());
    let prices = |settings: &turnfold::config::Settings| -> usize {
        let of_provider = |provider: &ProviderSettings| match provider {
            ProviderSettings::Http(http) => http.prices.len(),
            ProviderSettings::Script { .. } => 0,
        };
        settings.providers.values().map(of_provider).sum()
    };
    assert_eq!(prices(&settings), 0, "no price is applied silently");
    let line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    let (settings, _) = toml(&starter.lines().map(line).collect::<String>());
    assert_eq!((prices(&settings), settings.budget.turn.usd), (20, Some(0.5)));
    assert!(starter.contains("Public list prices of 20"), "they have a date");
}

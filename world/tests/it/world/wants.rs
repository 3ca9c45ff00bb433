//! Estimates of the shared capacity that a request will use.

use std::{collections::BTreeMap, time::Duration};

use queue::rate_limits::{Demand, RateLimit, Subject};
use shared::{Message, PendingRequest, Request, Safety, ToolCall};
use uuid::Uuid;
use world::{
    DiscardDeltas, LiveWorld, OpenAi, Price, Provider, RateLimitConfig, RequestContext, TenantLimit,
    TenantLimits, World as _,
};

use super::{Stage, chat, due, live, nobody};

fn priced() -> Provider {
    let prices = BTreeMap::from([("gpt".to_owned(), Price::new(2.0, 10.0))]);
    Provider::OpenAi(OpenAi { prices, ..OpenAi::new("http://127.0.0.1:1/v1", Duration::from_secs(1)) })
}

fn cap(concurrency: u64) -> RateLimit {
    RateLimit { concurrency: Some(concurrency), ..RateLimit::default() }
}

fn named(name: &str, concurrency: u64) -> BTreeMap<String, RateLimit> {
    BTreeMap::from([(name.to_owned(), cap(concurrency))])
}

fn wants(world: &LiveWorld, stage: &Stage, request: Request) -> Vec<Demand> {
    let due = due(request);
    world.demands(
        stage,
        &RequestContext { thread: Uuid::nil(), due: &due, key: "", node: "node", deltas: &DiscardDeltas },
    )
}

#[tokio::test]
async fn a_model_is_wanted_with_its_provider_by_what_is_sent() {
    let caps = RateLimitConfig {
        models: named("local/gpt", 1),
        providers: named("local", 2),
        servers: named("calendar", 3),
        tenants: TenantLimits::default(),
    };
    let world = live([("local", priced())], nobody()).with_rate_limits(caps);
    let stage = Stage::hearing([Message::user("x".repeat(4_000))]);
    let asked = wants(&world, &stage, chat("local/gpt", 0..1));
    let of: Vec<_> = asked.iter().map(|demand| (demand.subject.clone(), demand.limit)).collect();
    assert_eq!(
        of,
        [(Subject::Model("local/gpt".to_owned()), cap(1)), (Subject::Provider("local".to_owned()), cap(2)),]
    );
    for demand in asked {
        // 1,000 tokens for the text, some for its envelope, and 1,000 for the reply.
        assert!((2_000..2_200).contains(&demand.tokens), "{}", demand.tokens);
        assert_eq!(demand.micro_usd, (demand.tokens - 1_000) * 2 + 1_000 * 10);
    }
    let other = wants(&world, &stage, chat("local/other", 0..1));
    assert_eq!(
        other.iter().map(|demand| (&demand.subject, demand.micro_usd)).collect::<Vec<_>>(),
        [(&Subject::Provider("local".to_owned()), 0)]
    );
}

#[tokio::test]
async fn a_server_is_wanted_by_everything_that_is_asked_of_it() {
    let world = live([], nobody())
        .with_rate_limits(RateLimitConfig { servers: named("calendar", 3), ..RateLimitConfig::default() });
    let server = || "calendar".to_owned();
    let call = ToolCall { id: "c".to_owned(), name: "book".to_owned(), arguments: serde_json::Value::Null };
    let requests = [
        Request::ListTools { server: server() },
        Request::CallTool { server: server(), call: call.clone() },
        Request::ListPrompts { server: server() },
        Request::GetPrompt { server: server(), name: String::new(), arguments: BTreeMap::new() },
        Request::Describe { server: server() },
    ];
    for request in requests {
        let want = Demand {
            subject: Subject::Server(server()),
            tenant: "acme".to_owned(),
            limit: cap(3),
            tokens: 0,
            micro_usd: 0,
            part: None,
        };
        assert_eq!(wants(&world, &Stage::default(), request), [want]);
    }
    let elsewhere = Request::CallTool { server: "mail".to_owned(), call };
    assert!(wants(&world, &Stage::default(), elsewhere).is_empty());
    assert!(wants(&live([], nobody()), &Stage::default(), chat("a/b", 0..0)).is_empty());
}

/// A tenant's own limits cover its requests to models and servers, and the shared money is divided.
#[tokio::test]
async fn a_tenant_is_limited_in_what_it_asks_of_models_and_servers() {
    let money = |micro_usd| RateLimit { micro_usd_per_day: Some(micro_usd), ..RateLimit::default() };
    let acme = TenantLimit { requests: cap(9), weight: 4 };
    let caps = RateLimitConfig {
        providers: BTreeMap::from([("local".to_owned(), money(1_000))]),
        tenants: TenantLimits { named: [("acme".to_owned(), acme)].into(), ..TenantLimits::default() },
        ..RateLimitConfig::default()
    };
    let world = live([("local", priced())], nobody()).with_rate_limits(caps);
    let [provider, tenant] = &wants(&world, &Stage::default(), chat("local/gpt", 0..0))[..] else {
        panic!("two subjects are limited")
    };
    let part = provider.part.as_ref().map(|part| (part.owner.as_str(), part.own, part.all));
    assert_eq!((&provider.subject, part), (&Subject::Provider("local".to_owned()), Some(("acme", 400, 500))));
    assert_eq!((&tenant.subject, tenant.limit), (&Subject::Tenant("acme".to_owned()), cap(9)));
    assert_eq!((tenant.tokens, tenant.micro_usd), (provider.tokens, provider.micro_usd));
    assert!(0 < tenant.micro_usd && tenant.part.is_none());
    let listed = wants(&world, &Stage::default(), Request::ListTools { server: "calendar".to_owned() });
    assert_eq!(listed.iter().map(|demand| &demand.subject).collect::<Vec<_>>(), [&tenant.subject]);
    let call =
        ToolCall { id: "c".to_owned(), name: "read_more".to_owned(), arguments: serde_json::Value::Null };
    let read_more = Request::ReadMore { call, tokens: 1 };
    assert!(wants(&world, &Stage::default(), read_more).is_empty(), "nothing is sent");
}

/// Writes of a server take turns with those of all workers, unless the operator sets its concurrency.
#[tokio::test]
async fn a_write_wants_its_turn() {
    let call = ToolCall { id: "c".to_owned(), name: "book".to_owned(), arguments: serde_json::Value::Null };
    let demands = |server: world::Server, safety: Safety| {
        let world = live([], super::servers([("desk", server)]));
        let request = Request::CallTool { server: "desk".to_owned(), call: call.clone() };
        let due = PendingRequest { safety, ..due(request) };
        let context =
            RequestContext { thread: Uuid::nil(), due: &due, key: "", node: "node", deltas: &DiscardDeltas };
        world.demands(&Stage::default(), &context)
    };
    let server = || super::child::server([]);
    for safety in [Safety::Write, Safety::Idempotent] {
        assert_eq!(demands(server(), safety), [Demand::turn_of_writes("desk", "acme")]);
    }
    assert_eq!(demands(server(), Safety::Read), []);
    assert_eq!(demands(world::Server { concurrency: Some(8), ..server() }, Safety::Write), []);
    let session = world::Session::Thread { max_sessions: 2, idle_timeout: Duration::from_secs(60) };
    let own = format!("desk/{}", Uuid::nil());
    let of_session = demands(world::Server { session, ..server() }, Safety::Write);
    assert_eq!(of_session, [Demand::turn_of_writes(&own, "acme")]);
}

//! Configuration of single nodes: model, prompt and parameters, for every node of every strategy that asks a model.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::{
    Event, Forked, Graph, Next, Opened, Request, SUMMARISE_PROMPT, placeholders, prompt_hash, rerun,
    template_hash,
};

use crate::fixtures::each_fixture;

/// Configuration of every node that asks a model: a model of its own, all of its placeholders, and its own parameters.
fn of_every_node(graph: &dyn Graph) -> Map<String, Value> {
    let asking = graph.nodes().into_iter().filter(|node| node.asks_model);
    let node = |name: &str, template: &str| {
        let all: Vec<String> = placeholders(template).iter().map(|name| format!("<{{{name}}}>")).collect();
        json!({
            "model": format!("own/{name}"),
            "prompt": format!("{name}: {}", all.join(" ")),
            "temperature": 0.5,
            "max_tokens": 100 + name.len(),
            "reasoning_effort": "low",
            "extra": {"seed": name.len()},
        })
    };
    asking.map(|asking| (asking.name.clone(), node(&asking.name, asking.prompt.unwrap()))).collect()
}

fn configured(script: &[Event], nodes: Map<String, Value>) -> Vec<Event> {
    let mut script = script.to_vec();
    let Event::Opened(opened) = &mut script[0] else { panic!("a log begins with its opening") };
    if opened.config.is_null() {
        opened.config = json!({});
    }
    opened.config["nodes"] = nodes.into();
    script
}

/// Each key of each node reaches the node's requests, fills every placeholder, and changes nothing else.
#[test]
fn every_key_of_every_node_takes_effect() {
    let mut asked = BTreeSet::new();
    each_fixture(|graph, name, script| {
        // Other prompts have other sizes, so a thread that outgrows its context window is summarised elsewhere.
        let Some(Event::Opened(opened)) = script.first() else { return };
        let learns = script
            .iter()
            .any(|event| matches!(event, Event::AttemptFailed(failed) if failed.context_tokens.is_some()));
        if name == "nodes_are_configured" || learns || !opened.context.is_default() {
            return;
        }
        let nodes = of_every_node(graph);
        let before = rerun(graph, &script).unwrap().log;
        let after = rerun(graph, &configured(&script, nodes.clone())).unwrap().log;
        assert_eq!(before.len(), after.len(), "{name}");
        for (before, after) in before.iter().zip(&after).skip(1) {
            let (Event::Asked(before), Event::Asked(after)) = (before, after) else {
                assert_eq!(before, after, "{name}");
                continue;
            };
            for (own, request) in before.requests.iter().zip(&after.requests) {
                let Request::Chat { system: own, .. } = own else { continue };
                let Request::Chat { model, system, prompt, parameters, .. } = request else {
                    panic!("{name}")
                };
                let node = &nodes[&after.node];
                assert_eq!(*model, node["model"], "{name}");
                assert!(system.starts_with(&format!("{}: <{own}>", after.node)), "{name}: {system}");
                let template = graph.nodes().into_iter().find(|node| node.name == after.node).unwrap().prompt;
                let unfilled = |placeholder: &&str| system.contains(&format!("{{{placeholder}}}"));
                assert_eq!(placeholders(template.unwrap()).into_iter().find(unfilled), None, "{system}");
                assert_eq!(*prompt, Some(prompt_hash(node["prompt"].as_str().unwrap())));
                let sent = serde_json::to_value(parameters).unwrap();
                for key in ["temperature", "max_tokens", "reasoning_effort", "extra"] {
                    assert_eq!(sent[key], node[key], "{name}: {key}");
                }
                asked.insert((graph.name(), after.node.clone()));
            }
        }
    });
    let known = strategies::all().into_iter().flat_map(|graph| {
        let asking = graph.nodes().into_iter().filter(|node| node.asks_model);
        asking.map(|node| (graph.name(), node.name))
    });
    assert_eq!(asked, known.collect(), "every node that asks a model is reached by a fixture");
}

/// A request of a thread without this configuration has the name of the node's own template, and no other field for it.
#[test]
fn defaults_add_only_the_name_of_the_template() {
    let summaries = template_hash(SUMMARISE_PROMPT);
    each_fixture(|graph, name, script| {
        // Other prompts have other sizes, so a thread that outgrows its context window is summarised elsewhere.
        let Some(Event::Opened(opened)) = script.first() else { return };
        let learns = script
            .iter()
            .any(|event| matches!(event, Event::AttemptFailed(failed) if failed.context_tokens.is_some()));
        if name == "nodes_are_configured" || learns || !opened.context.is_default() {
            return;
        }
        for event in rerun(graph, &script).unwrap().log {
            let Event::Asked(asked) = event else { continue };
            for request in &asked.requests {
                let Request::Chat { prompt, parameters, .. } = request else { continue };
                let own = graph.nodes().into_iter().find(|node| node.name == asked.node);
                let template =
                    own.map_or_else(|| summaries.clone(), |node| template_hash(node.prompt.unwrap()));
                assert_eq!((prompt.as_ref(), parameters), (Some(&template), &None), "{name}: {}", asked.node);
            }
        }
    });
}

#[test]
fn a_wrong_configuration_is_refused_with_a_hint() {
    let refused = |strategy: &str, config: Value| {
        strategies::find(strategy).unwrap().check_config(&config).expect_err(&config.to_string())
    };
    let node = |node: Value| refused("planner", json!({"nodes": {"plan": node}}));
    for (config, why) in [
        (json!({"nodes": {"pln": {}}}), "nodes: there is no node \"pln\"; did you mean \"plan\"?"),
        (
            json!({"nodes": {"nonsense": {}}}),
            "nodes: there is no node \"nonsense\"; known: plan, orchestrate, assess, respond, engine.summarise",
        ),
        (
            json!({"nodes": {"equip": {"model": "a/b"}}}),
            "nodes.equip: this node asks no model; those that do: plan, orchestrate, assess, respond, engine.summarise",
        ),
        (json!({"nodes": []}), "nodes: must be an object"),
        (json!({"nodes": {"plan": 1}}), "nodes.plan: must be an object"),
        (json!({"servers": ["a", "b", "a"]}), "servers: \"a\" is listed twice"),
    ] {
        assert_eq!(refused("planner", config), why);
    }
    assert!(refused("planner", json!({"servers": "a"})).contains("expected a sequence"));
    for (config, why) in [
        (json!({"modle": "a/b"}), "nodes.plan: there is no key \"modle\"; did you mean \"model\"?"),
        (json!({"model": "gpt"}), "nodes.plan.model: must be written as provider/model"),
        (json!({"model": "/gpt"}), "nodes.plan.model: must be written as provider/model"),
        (json!({"model": 7}), "nodes.plan.model: must be a string"),
        (
            json!({"prompt": "Use {expert}."}),
            "nodes.plan.prompt: there is no placeholder {expert}; did you mean \"experts\"? (write {{expert}} for these \
             characters themselves)",
        ),
        (json!({"prompt": " \n"}), "nodes.plan.prompt: it is empty; leave it out for the built-in prompt"),
        (json!({"prompt": "x".repeat(65_537)}), "nodes.plan.prompt: it has 65537 bytes, and may have 65536"),
        (json!({"temperature": 2.1}), "nodes.plan.temperature: it is 2.1, and must be from 0 to 2"),
        (json!({"temperature": -1}), "nodes.plan.temperature: it is -1, and must be from 0 to 2"),
        (json!({"temperature": "0"}), "nodes.plan.temperature: must be a number"),
        (json!({"max_tokens": 0}), "nodes.plan.max_tokens: it is 0, and must be from 1 to 10000000"),
        (json!({"max_tokens": 1.5}), "nodes.plan.max_tokens: must be a whole number"),
        (json!({"max_tokens": 1_u64 << 40}), "nodes.plan.max_tokens: must be a whole number"),
        (
            json!({"reasoning_effort": "Very high"}),
            "nodes.plan.reasoning_effort: must be one word in lower case, such as low",
        ),
        (
            json!({"extra": {"stream": false}}),
            "nodes.plan.extra: \"stream\" cannot be set here, because the engine sets it",
        ),
        (
            json!({"extra": {"x": "y".repeat(20_000)}}),
            "nodes.plan.extra: it has 20008 bytes as JSON, and may have 16384",
        ),
    ] {
        assert_eq!(node(config), why);
    }
    for (strategy, fine) in [
        (
            "planner",
            json!({"nodes": {"plan": {"prompt": "{{expert}} {prompt} {\"json\": {}}", "temperature": 2}}}),
        ),
        ("planner", json!({"nodes": {"plan": {"model": null, "extra": null}}, "servers": null})),
        ("planner", json!({"nodes": {"plan": {"prompt": "x".repeat(65_536)}}})),
        ("probe", json!({"servers": [], "padding": 1})),
    ] {
        assert_eq!(strategies::find(strategy).unwrap().check_config(&fine), Ok(()), "{fine}");
    }
}

/// A thread uses only the servers of its configuration, and a fork may use fewer.
#[test]
fn a_thread_is_limited_to_its_servers() {
    let graph = strategies::find("planner").unwrap();
    let opened = |config: Value| {
        let servers = ["a", "b", "c"].map(|name| (name.to_owned(), String::new())).into();
        let (strategy, tenant) = ("planner".to_owned(), "t".to_owned());
        let budget = shared::Budget::default();
        Event::from(Opened {
            format: 1,
            strategy,
            version: 1,
            config,
            servers,
            budget,
            context: Default::default(),
            actor: String::new(),
            tenant,
            caller: None,
        })
    };
    let mut thread = graph.fold(&[opened(json!({"servers": ["c", "a"], "rounds": 2}))]).unwrap();
    assert_eq!(thread.servers(), ["a", "c"]);
    assert_eq!(
        thread.config().unwrap()["servers"],
        json!(["c", "a"]),
        "the configuration is shown as it was set"
    );
    let mut config = thread.config().unwrap();
    config["servers"] = json!(["c"]);
    config["nodes"] = json!({"plan": {"model": "own/plan"}});
    let fork = Forked {
        thread: uuid::Uuid::nil(),
        seq: 0,
        hash: String::new(),
        config: config.clone(),
        budget: None,
        prompts: [("plan".to_owned(), "{prompt}!".to_owned())].into(),
        facts: Vec::new(),
        actor: String::new(),
        caller: None,
    };
    thread.apply(&fork.clone().into()).unwrap();
    assert_eq!(thread.servers(), ["c"]);
    // The prompt of a fork and the configuration of the node are one thing, which a second fork inherits.
    config["nodes"]["plan"]["prompt"] = json!("{prompt}!");
    assert_eq!(thread.config().unwrap(), config);
    thread.apply(&Forked { config: Value::Null, prompts: [].into(), ..fork }.into()).unwrap();
    assert_eq!(thread.config().unwrap(), config);
    let asks = r#"{"event":"turn_started","messages":[{"role":"user","content":"Hello"}]}"#;
    thread.apply(&serde_json::from_str(asks).unwrap()).unwrap();
    let Next::Append(Event::Asked(asked)) = thread.next().unwrap() else { panic!("it asks") };
    let Request::Chat { model, system, prompt, .. } = &asked.requests[0] else { panic!("a chat") };
    assert_eq!((model.as_str(), system.ends_with('!')), ("own/plan", true));
    assert_eq!(prompt.as_deref(), Some(&*prompt_hash("{prompt}!")));
}

/// The schema names every node and key, so that the configuration file is checked and completed by it.
#[test]
fn the_schema_of_a_strategy_has_its_nodes() {
    let schema = |name: &str| strategies::find(name).unwrap().config_schema();
    let planner = schema("planner");
    let nodes = planner["properties"]["nodes"]["properties"].as_object().unwrap();
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["assess", "orchestrate", "plan", "respond"]);
    let keys = nodes["plan"]["properties"].as_object().unwrap();
    let expected = ["extra", "max_tokens", "model", "prompt", "reasoning_effort", "temperature"];
    assert_eq!(keys.keys().collect::<BTreeSet<_>>(), expected.map(str::to_owned).iter().collect());
    assert_eq!(planner["properties"]["servers"]["type"], "array");
    assert!(schema("index_builder")["properties"]["servers"].is_null(), "it needs all of them");
    let probe = schema("probe");
    assert!(probe["properties"]["nodes"].is_null() && !probe["properties"]["servers"].is_null());
}

/// The model that a node falls back to is a key of the strategy's configuration.
#[test]
fn the_model_key_of_every_node_exists() {
    for graph in strategies::all() {
        for node in graph.nodes().into_iter().filter(|node| node.asks_model) {
            let default = &graph.defaults()[node.model_key];
            assert!(
                default.as_str().is_some_and(|text| text.contains('/')),
                "{}.{}",
                graph.name(),
                node.name
            );
        }
    }
}

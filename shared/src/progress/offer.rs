//! Hash of what a request offers its model besides messages: tools, and the schema of the reply.
//!
//! ## Why parts are hashed once
//!
//! The log names tools and schemas and does not repeat them, so the hash is what shows that one was described anew. Each request
//! has one. The parts of a node are the same in every thread, those of a server change only with its list, and those of a client
//! with its turn, so only a few short hashes are joined for a request.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Progress, name};
use crate::{
    client_tools::ClientTool,
    context::{READ_MORE, read_more_tool},
    message::Tool,
    prompt_name::SHORT_HASH_LENGTH,
    reply_options::ReplyOptions,
    request::Request,
    strategy::Strategy,
};

type Hash = [u8; 32];

/// Hashes of tools by name, and of a schema.
#[derive(Clone, Debug, Default)]
struct Parts {
    tools: BTreeMap<String, Hash>,
    schema: Option<Hash>,
}

/// Hashes of what servers and the client offer, each computed when a request first needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    servers: BTreeMap<String, OnceLock<Hash>>,
    client: OnceLock<Parts>,
}

/// Parts of the nodes of all strategies. A node always offers the same.
static OF_NODES: LazyLock<RwLock<BTreeMap<(TypeId, String), Arc<Parts>>>> = LazyLock::new(RwLock::default);

/// Hash of the engine's own tool.
static READ_MORE_HASH: LazyLock<Hash> = LazyLock::new(|| hash_of_tool(&read_more_tool()));

impl Offers {
    /// Forgets the hash of the tools of a server, because it listed them.
    pub(super) fn list_tools(&mut self, server: &str) {
        self.servers.insert(server.to_owned(), OnceLock::new());
    }

    /// Forgets the hashes of what the client of the last turn offered.
    pub(super) fn begin_turn(&mut self) {
        self.client = OnceLock::new();
    }
}

impl<S: Strategy> Progress<S> {
    /// Returns the hash of what a request of a node offers; `None` if it offers nothing.
    pub(super) fn offer_hash(&self, place: S::NodeName, request: &Request) -> Option<String> {
        let Request::Chat { tool_servers, tools, response_schema, .. } = request else { return None };
        if tool_servers.is_empty() && tools.is_empty() && response_schema.is_none() {
            return None;
        }
        let own = self.parts_of(place);
        let client = || self.offers.client.get_or_init(|| parts_of_client(&self.thread.turn.reply_options));
        let mut all = Sha256::new();
        let mut add = |kind: u8, name: &str, hash: Option<&Hash>| {
            all.update([kind]);
            text(&mut all, name);
            all.update(hash.unwrap_or(&[0; 32]));
        };
        for server in tool_servers {
            add(1, server, self.hash_of_server(server));
        }
        for name in tools {
            let hash = own.tools.get(name).or_else(|| client().tools.get(name));
            add(2, name, hash.or_else(|| (name == READ_MORE).then(|| &*READ_MORE_HASH)));
        }
        if let Some(name) = response_schema {
            add(3, name, own.schema.as_ref().or_else(|| client().schema.as_ref()));
        }
        let mut hash = hex::encode(all.finalize());
        hash.truncate(SHORT_HASH_LENGTH);
        Some(hash)
    }

    fn parts_of(&self, place: S::NodeName) -> Arc<Parts> {
        let key = (TypeId::of::<S>(), name(&place));
        if let Some(parts) = OF_NODES.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(parts);
        }
        let node = S::node(place);
        let tools = node.tools();
        let schema = node.schema().as_ref().map(hash_of_value);
        let parts = Arc::new(Parts { tools: hashes_of(&tools), schema });
        OF_NODES.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&parts));
        parts
    }

    fn hash_of_server(&self, server: &str) -> Option<&Hash> {
        let tools = self.thread.server_tools.get(server)?;
        let hash = self.offers.servers.get(server)?;
        Some(hash.get_or_init(|| {
            let mut all = Sha256::new();
            tools.iter().for_each(|tool| all.update(hash_of_tool(tool)));
            all.finalize().into()
        }))
    }
}

fn parts_of_client(options: &ReplyOptions) -> Parts {
    let tools: Vec<Tool> = options.tools.iter().map(ClientTool::tool).collect();
    let schema = options.response_format.schema().as_ref().map(hash_of_value);
    Parts { tools: hashes_of(&tools), schema }
}

fn hashes_of(tools: &[Tool]) -> BTreeMap<String, Hash> {
    tools.iter().map(|tool| (tool.name.clone(), hash_of_tool(tool))).collect()
}

/// Hashes what a model sees of a tool.
fn hash_of_tool(Tool { name, description, parameters, .. }: &Tool) -> Hash {
    let mut all = Sha256::new();
    text(&mut all, name);
    text(&mut all, description);
    value(&mut all, parameters);
    all.finalize().into()
}

fn hash_of_value(json: &Value) -> Hash {
    let mut all = Sha256::new();
    value(&mut all, json);
    all.finalize().into()
}

/// Adds a text and its length, so that `ab` and `c` differ from `a` and `bc`.
fn text(all: &mut Sha256, text: &str) {
    all.update((text.len() as u64).to_le_bytes());
    all.update(text);
}

/// Adds a value. The order of the keys of an object does not count.
fn value(all: &mut Sha256, json: &Value) {
    match json {
        Value::Object(fields) => {
            all.update(b"{");
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            for (key, field) in sorted {
                text(all, key);
                value(all, field);
            }
            all.update(b"}");
        }
        Value::Array(items) => {
            all.update(b"[");
            items.iter().for_each(|item| value(all, item));
            all.update(b"]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            all.update([if json.is_string() { b's' } else { b'v' }]);
            match json.as_str() {
                Some(string) => text(all, string),
                None => text(all, &json.to_string()),
            }
        }
    }
}

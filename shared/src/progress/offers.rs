//! Hashes of tools and schemas, and those that a thread keeps of what its servers and its client offer.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{client_tools::ClientTool, context::read_more_tool, message::Tool, reply_options::ReplyOptions};

/// A SHA-256 hash.
pub(super) type Hash = [u8; 32];

/// Hashes of tools by name, and of a schema.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Hash of each tool, by its name.
    pub(super) tools: BTreeMap<String, Hash>,
    /// Hash of the schema of the reply.
    pub(super) schema: Option<Hash>,
}

/// Hashes of what servers and the client offer, each computed when a request first needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    pub(super) servers: BTreeMap<String, OnceLock<Hash>>,
    pub(super) client: OnceLock<Parts>,
}

/// Hash of the engine's own tool.
pub(super) static READ_MORE_HASH: LazyLock<Hash> = LazyLock::new(|| hash_of_tool(&read_more_tool()));

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

/// Hashes what the client of a turn offers.
pub(super) fn parts_of_client(options: &ReplyOptions) -> Parts {
    let tools: Vec<Tool> = options.tools.iter().map(ClientTool::tool).collect();
    let schema = options.response_format.schema().as_ref().map(hash_of_value);
    Parts { tools: hashes_of(&tools), schema }
}

/// Hashes tools, by their names.
pub(super) fn hashes_of(tools: &[Tool]) -> BTreeMap<String, Hash> {
    tools.iter().map(|tool| (tool.name.clone(), hash_of_tool(tool))).collect()
}

/// Hashes what a model sees of a tool.
pub(super) fn hash_of_tool(Tool { name, description, parameters, .. }: &Tool) -> Hash {
    let mut all = Sha256::new();
    add_text(&mut all, name);
    add_text(&mut all, description);
    add_value(&mut all, parameters);
    all.finalize().into()
}

/// Hashes a value.
pub(super) fn hash_of_value(json: &Value) -> Hash {
    let mut all = Sha256::new();
    add_value(&mut all, json);
    all.finalize().into()
}

/// Adds a text and its length, so that `ab` and `c` differ from `a` and `bc`.
pub(super) fn add_text(all: &mut Sha256, text: &str) {
    all.update((text.len() as u64).to_le_bytes());
    all.update(text);
}

/// Adds a value. The order of the keys of an object does not count.
fn add_value(all: &mut Sha256, json: &Value) {
    match json {
        Value::Object(fields) => {
            all.update(b"{");
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            for (key, field) in sorted {
                add_text(all, key);
                add_value(all, field);
            }
            all.update(b"}");
        }
        Value::Array(items) => {
            all.update(b"[");
            items.iter().for_each(|item| add_value(all, item));
            all.update(b"]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            all.update([if json.is_string() { b's' } else { b'v' }]);
            match json.as_str() {
                Some(string) => add_text(all, string),
                None => add_text(all, &json.to_string()),
            }
        }
    }
}

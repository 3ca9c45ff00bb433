//! Hash of what a request offers its model in addition to messages: tools, and the schema of the reply.
//!
//! ## Why parts are hashed once
//!
//! The log names tools and schemas and does not repeat them, so the hash is what shows that one was described anew. Each request
//! has one. The parts of a node are the same in every thread, those of a server change only with its list, and those of a client
//! with its turn, so only a few short hashes are joined for a request.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use sha2::{Digest as _, Sha256};

use super::{
    Progress,
    offers::{
        Hash, Parts, READ_MORE_HASH, add_text, hash_of_tool, hash_of_value, hashes_of, parts_of_client,
    },
    phase::name,
};
use crate::{context::READ_MORE, prompt_name::SHORT_HASH_LENGTH, request::Request, strategy::Strategy};

/// Parts of nodes, by their strategy and name.
type PartsOfNodes = BTreeMap<(TypeId, String), Arc<Parts>>;

/// Parts of the nodes of all strategies. A node always offers the same.
static OF_NODES: LazyLock<RwLock<PartsOfNodes>> = LazyLock::new(RwLock::default);

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
            add_text(&mut all, name);
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

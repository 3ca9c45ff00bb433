//! Lists of a server: tools, prompts and resources.

use std::{collections::HashSet, time::Duration};

use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ServerResult,
};
use shared::{Prompt, Tool};
use tokio::time::Instant;

use super::{
    Server,
    connection::{Connection, Listed},
    convert,
    failure::Failure,
    notices,
    resources::Resource,
};

/// Lifetime of a list of tools from a server that does not announce changes.
const LIST_LIFETIME: Duration = Duration::from_secs(30);

/// Maximum pages and items of a list.
const MAX_PAGES: usize = 100;
const MAX_LISTED: usize = 10_000;

/// A page of a list and the cursor of the next one.
type Page<T> = (Vec<T>, Option<String>);

impl Connection {
    /// Lists the server's tools; the list may be up to 30 s old.
    pub(super) async fn tools(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        self.tools_of(server, LIST_LIFETIME).await
    }

    /// Lists the server's tools as they are now.
    pub(super) async fn tools_now(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        self.tools_of(server, Duration::ZERO).await
    }

    /// Lists the server's tools as last listed on this connection, unless the server announced a change since.
    pub(super) async fn listed(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        // A server that must be subscribed to and is not may have changed unnoticed.
        let (_, are_known) = self.changes();
        self.tools_of(server, if are_known { Duration::MAX } else { LIST_LIFETIME }).await
    }

    async fn tools_of(&self, server: &Server, lifetime: Duration) -> Result<Vec<Tool>, Failure> {
        let (changes, _) = self.changes();
        if let Some(listed) = self.listed.lock().await.as_ref()
            && listed.changes == changes
            && listed.at.elapsed() < lifetime
        {
            return Ok(listed.tools.clone());
        }
        let ask = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListToolsResult(result) = answer else { return None };
            Some((result.tools, result.next_cursor))
        };
        let listed = self.pages(server, "tools", ask, page).await?;
        let is_empty = listed.is_empty();
        let tools = convert::tools(server, listed);
        *self.listed.lock().await =
            Some(Listed { tools: tools.clone(), is_empty, at: Instant::now(), changes });
        Ok(tools)
    }

    /// Returns true if the server declares tools.
    pub(super) fn offers_tools(&self) -> bool {
        self.capabilities().tools.is_some()
    }

    /// Lists the server's prompts in its own order; empty if it declares none.
    pub(super) async fn prompts(&self, server: &Server) -> Result<Vec<Prompt>, Failure> {
        if self.capabilities().prompts.is_none() {
            return Ok(Vec::new());
        }
        let ask = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListPromptsResult(result) = answer else { return None };
            Some((result.prompts, result.next_cursor))
        };
        Ok(convert::prompts(self.pages(server, "prompts", ask, page).await?))
    }

    /// Lists the server's resources and templates; empty if it declares none. The list may be up to 30 s old.
    pub(super) async fn resources(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        if self.capabilities().resources.is_none() {
            return Ok(Vec::new());
        }
        if let Some((resources, at)) = self.resources.lock().await.as_ref()
            && at.elapsed() < LIST_LIFETIME
        {
            return Ok(resources.clone());
        }
        let mut all = self.plain_resources(server).await?;
        match self.resource_templates(server).await {
            Ok(templates) => all.extend(templates),
            // A server may have resources and no templates.
            Err(Failure::Refused(_) | Failure::Unclear(_)) => (),
            Err(failure) => return Err(failure),
        }
        *self.resources.lock().await = Some((all.clone(), Instant::now()));
        Ok(all)
    }

    async fn plain_resources(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        let ask = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListResourcesResult(result) = answer else { return None };
            Some((result.resources, result.next_cursor))
        };
        let listed = self.pages(server, "resources", ask, page).await?;
        let resource = |resource: rmcp::model::Resource| Resource {
            description: resource.description.or(resource.title).unwrap_or_default(),
            name: resource.name,
            uri: resource.uri,
            is_template: false,
        };
        Ok(listed.into_iter().map(resource).collect())
    }

    async fn resource_templates(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        let ask = |params| {
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
        };
        let page = |answer| {
            let ServerResult::ListResourceTemplatesResult(result) = answer else { return None };
            Some((result.resource_templates, result.next_cursor))
        };
        let listed = self.pages(server, "resource templates", ask, page).await?;
        let template = |template: rmcp::model::ResourceTemplate| Resource {
            description: template.description.or(template.title).unwrap_or_default(),
            name: template.name,
            uri: template.uri_template,
            is_template: true,
        };
        Ok(listed.into_iter().map(template).collect())
    }

    /// Reads a paginated list. A list that does not end is cut off, and a warning says so.
    ///
    /// ## Why not rmcp's own
    ///
    /// It waits without timeout, follows cursors without timeout, and may answer from a cache when the server is gone.
    async fn pages<T>(
        &self,
        server: &Server,
        what: &str,
        ask: fn(PaginatedRequestParams) -> ClientRequest,
        page: fn(ServerResult) -> Option<Page<T>>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor = None;
        let why = loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let Some((items, next)) = page(self.request(server, ask(params)).await?) else {
                return Err(Failure::Refused(format!("its response is not a list of {what}")));
            };
            all.extend(items);
            // Some servers end a list with an empty cursor.
            let Some(next) = next.filter(|cursor| !cursor.is_empty()) else { break None };
            if !seen.insert(next.clone()) {
                break Some("its cursor does not advance".to_owned());
            }
            if MAX_PAGES <= seen.len() || MAX_LISTED < all.len() {
                break Some(format!("it has more than {MAX_PAGES} pages or {MAX_LISTED} {what}"));
            }
            cursor = Some(next);
        };
        let why =
            why.or_else(|| (MAX_LISTED < all.len()).then(|| format!("it has more than {MAX_LISTED} {what}")));
        all.truncate(MAX_LISTED);
        if let Some(why) = why
            && notices::is_due(self.name(), "list")
        {
            tracing::warn!(server = self.name(), "the list of {what} of an MCP server is cut off: {why}");
        }
        Ok(all)
    }
}

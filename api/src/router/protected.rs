//! Routes that need a key, each with the scope that it needs.

use std::{convert::Infallible, sync::Arc};

use api_types::Scope;
use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::IntoResponse,
    routing::MethodRouter,
};
use tower::Service;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::openapi_page::protect;
use crate::server::{principal::Principal, problem::ApiError, state::AppState};

type Routes = UtoipaMethodRouter<Arc<AppState>>;

/// Routes that need a key.
///
/// **Invariant:** a route can only be added together with the one scope that it needs, or as a route for every key.
#[derive(Default)]
pub(super) struct ProtectedRoutes(OpenApiRouter<Arc<AppState>>);

impl ProtectedRoutes {
    /// Adds routes that need this scope, and documents it.
    pub(super) fn needs(self, scope: Scope, (schemas, paths, methods): Routes) -> Self {
        self.documented_as(Some(scope), (schemas, paths, requiring(scope, methods)))
    }

    /// Adds routes that every valid key may use, and documents that.
    pub(super) fn for_every_key(self, routes: Routes) -> Self {
        self.documented_as(None, routes)
    }

    fn documented_as(self, scope: Option<Scope>, (schemas, mut paths, methods): Routes) -> Self {
        for item in paths.paths.values_mut() {
            let operations =
                [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
            operations.into_iter().flatten().for_each(|operation| protect(operation, scope));
        }
        Self(self.0.routes((schemas, paths, methods)))
    }

    /// Adds a route that needs this scope and is not in the OpenAPI document.
    pub(super) fn needs_undocumented(
        self,
        scope: Scope,
        path: &str,
        methods: MethodRouter<Arc<AppState>>,
    ) -> Self {
        Self(self.0.route(path, requiring(scope, methods)))
    }

    /// Adds a service that every valid key may use, and that is not in the OpenAPI document. The service answers all methods.
    pub(super) fn service_for_every_key<T>(self, path: &str, service: T) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse,
        T::Future: Send + 'static,
    {
        Self(self.0.route_service(path, service))
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self(self.0.merge(other.0))
    }

    /// Returns the documented routes.
    pub(super) fn documented(self) -> OpenApiRouter<Arc<AppState>> {
        self.0
    }

    /// Returns the routes. Each expects the principal of its request, which authentication sets.
    pub(super) fn into_router(self) -> Router<Arc<AppState>> {
        self.0.into()
    }
}

fn requiring(scope: Scope, methods: MethodRouter<Arc<AppState>>) -> MethodRouter<Arc<AppState>> {
    methods.route_layer(from_fn(move |principal: Principal, request: Request, next: Next| async move {
        principal.require(scope)?;
        Ok::<_, ApiError>(next.run(request).await)
    }))
}

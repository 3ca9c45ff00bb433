//! Reads the secrets of a running process again on SIGHUP.

use std::{net::SocketAddr, sync::Arc};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};
use world::{LiveWorld, Models};

use super::Context;
use crate::{
    config::{ProviderSettings, Settings},
    engine::{self, ConfiguredKeys},
};

/// The secrets that a process uses: API keys, and keys, headers and query parameters of providers.
pub(super) struct LiveSecrets {
    /// Keys of the API, and the address that it listens on. `None`: the process serves no API.
    pub(super) keys: Option<(api::KeyRing, SocketAddr)>,
    /// Models whose providers the secrets belong to.
    pub(super) models: Arc<Models>,
    /// World whose answers are cleared of secrets. `None`: the process runs no nodes.
    pub(super) world: Option<Arc<LiveWorld>>,
}

impl LiveSecrets {
    /// Starts a task that reads the secrets again on each SIGHUP. API keys that are no longer configured are refused at
    /// once. If a key of the API cannot be read, is too weak or is the last one, all secrets remain as they are.
    pub(super) fn reload_on_hangup(self, ctx: &Context) -> AbortOnDropHandle<()> {
        let (sources, started) = (ctx.sources.clone(), ctx.settings.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
            while hangup.recv().await.is_some() {
                let loaded = Settings::load(sources.clone()).map_err(anyhow::Error::from);
                if let Err(error) = loaded.and_then(|(settings, _)| self.reload(&started, &settings)) {
                    error!(error = format!("{error:#}"), "cannot read keys again; the old ones remain valid");
                }
            }
        }))
    }

    fn reload(&self, started: &Settings, new: &Settings) -> anyhow::Result<()> {
        if let Some((keys, address)) = &self.keys {
            let count = reread_keys(new, *address, keys)?;
            info!(count, "API keys read again");
        }
        let settings = with_secrets_of(started, new);
        // The new secrets are removed from answers before any of them is sent.
        if let Some(world) = &self.world {
            world.redactor().add(engine::secrets(new));
        }
        for (name, provider) in &settings.providers {
            if let Some(missing) = provider.missing_secret() {
                warn!(provider = name, "turns that need it will fail: no key for {missing}");
            }
        }
        let providers = engine::http_providers(&settings);
        let count = providers.len();
        self.models.update(providers);
        info!(count, "keys of providers read again");
        Ok(())
    }
}

/// The settings that the process started with, with the new secrets of its providers.
fn with_secrets_of(started: &Settings, new: &Settings) -> Settings {
    let mut settings = started.clone();
    for (name, provider) in &mut settings.providers {
        if let (ProviderSettings::Http(started), Some(ProviderSettings::Http(new))) =
            (provider, new.providers.get(name))
        {
            started.api_key.clone_from(&new.api_key);
            started.headers.clone_from(&new.headers);
            started.query.clone_from(&new.query);
        }
    }
    settings
}

fn reread_keys(settings: &Settings, address: SocketAddr, keys: &api::KeyRing) -> anyhow::Result<usize> {
    let new = ConfiguredKeys::read(settings)?;
    for warning in new.check_for(address)? {
        warn!("{warning}");
    }
    anyhow::ensure!(
        keys.is_empty() || 0 < new.count(),
        "no key is configured any more, which would open the API to every program on this machine; hint: restart it if that is \
         intended"
    );
    keys.replace(&new.operators, &new.tenants);
    Ok(new.count())
}

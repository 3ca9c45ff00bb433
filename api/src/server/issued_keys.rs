//! API keys that `turnfold key create` issues, and a short-lived cache of them.
//!
//! A key has the form `tf_` ID `_` SECRET, where ID is 16 and SECRET is 64 hexadecimal digits. Secret scanners find it with
//! `tf_[0-9a-f]{16}_[0-9a-f]{64}`.
//!
//! ## Why a cache
//!
//! Reading a key takes longer than all other checks of a request together. An API that revokes a key notifies all
//! others, and they remove the key from their caches. If the notification is lost, they read the key again after a second.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use queue::{ALL_APIS, Notification, Notifications, clock};
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use store::{Key, Store};
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::caller::Caller;

/// Maximum age of a cached key.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum number of cached keys.
const CACHED_MAX: usize = 10_000;

/// Minimum time between two notes of a key's use, in microseconds.
const USE_NOTED_EVERY: i64 = 60_000_000;

/// Delay before a lost subscription is renewed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Beginning of the id of every issued key.
pub(crate) const PREFIX: &str = "tf_";

const ID_LEN: usize = 19;
const SECRET_LEN: usize = 64;

/// Splits a key into its id and its secret part. Returns none if it does not have the form of an issued key.
pub(crate) fn parse(key: &str) -> Option<(&str, &str)> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (id, rest) = key.split_at_checked(ID_LEN)?;
    let secret = rest.strip_prefix('_').filter(|secret| secret.len() == SECRET_LEN && is_hex(secret))?;
    is_hex(id.strip_prefix(PREFIX)?).then_some((id, secret))
}

/// A new key: its id, the hash of its secret part, and the key itself.
pub(crate) struct NewSecret {
    pub(crate) id: String,
    pub(crate) hash: Vec<u8>,
    pub(crate) key: SecretString,
}

impl NewSecret {
    /// Generates a key with 256 random bits.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0; 8], [0; SECRET_LEN / 2]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        let (id, secret) = (format!("{PREFIX}{}", hex::encode(id)), hex::encode(secret));
        let hash = Sha256::digest(&secret).to_vec();
        Ok(Self { key: format!("{id}_{secret}").into(), id, hash })
    }
}

/// Keys that the database holds.
pub(crate) struct IssuedKeys {
    store: Store,
    cache: Mutex<Cache>,
    fresh: Duration,
}

#[derive(Default)]
struct Cache {
    keys: BTreeMap<String, (Instant, Arc<Issued>)>,
    /// Grows with every invalidation: a key that was read before one is not cached after it.
    generation: u64,
}

/// A key as it was read.
struct Issued {
    key: Key,
    caller: Arc<Caller>,
    /// Time of the last noted use, in microseconds since the Unix epoch.
    last_used_at: AtomicI64,
}

impl IssuedKeys {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, cache: Mutex::default(), fresh: FRESH }
    }

    /// Returns the owner of a valid key, and notes its use.
    ///
    /// # Errors
    ///
    /// [`store::Error`] if the key is not cached and the database does not answer.
    pub(crate) async fn caller(&self, id: &str, secret: &str) -> Result<Option<Arc<Caller>>, store::Error> {
        let Some(issued) = self.find(id).await? else { return Ok(None) };
        let now = clock::now();
        let is_right = bool::from(issued.key.hash.as_slice().ct_eq(&Sha256::digest(secret)));
        if !is_right || !issued.key.is_valid(now) {
            return Ok(None);
        }
        self.note_use(&issued, now);
        Ok(Some(Arc::clone(&issued.caller)))
    }

    /// Reports whether a key with this id exists, and is neither revoked nor expired.
    ///
    /// # Errors
    ///
    /// As [`Self::caller`].
    pub(crate) async fn is_valid(&self, id: &str) -> Result<bool, store::Error> {
        Ok(self.with_id(id).await?.is_some())
    }

    /// Returns the owner of the key with this id, if it is neither revoked nor expired.
    ///
    /// # Errors
    ///
    /// As [`Self::caller`].
    pub(crate) async fn with_id(&self, id: &str) -> Result<Option<Arc<Caller>>, store::Error> {
        let valid = self.find(id).await?.filter(|issued| issued.key.is_valid(clock::now()));
        Ok(valid.map(|issued| Arc::clone(&issued.caller)))
    }

    async fn find(&self, id: &str) -> Result<Option<Arc<Issued>>, store::Error> {
        let generation = {
            let cache = self.lock();
            if let Some((read_at, issued)) = cache.keys.get(id)
                && read_at.elapsed() < self.fresh
            {
                return Ok(Some(Arc::clone(issued)));
            }
            cache.generation
        };
        let read_at = Instant::now();
        let issued = self.store.key(id).await?.map(|key| Arc::new(Issued::new(key)));
        let mut cache = self.lock();
        match &issued {
            Some(issued) if cache.generation == generation => {
                if CACHED_MAX <= cache.keys.len() {
                    cache.keys.clear();
                }
                cache.keys.insert(id.to_owned(), (read_at, Arc::clone(issued)));
            }
            Some(_) => {}
            None => drop(cache.keys.remove(id)),
        }
        drop(cache);
        Ok(issued)
    }

    /// Writes the time of use off the request's path.
    fn note_use(&self, issued: &Arc<Issued>, now: i64) {
        let noted = issued.last_used_at.load(Ordering::Relaxed);
        let is_due = noted.saturating_add(USE_NOTED_EVERY) <= now;
        let is_first =
            || issued.last_used_at.compare_exchange(noted, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due && is_first() {
            let (store, issued) = (self.store.clone(), Arc::clone(issued));
            tokio::spawn(async move {
                if let Err(error) = store.key_used(&issued.key.id, now).await {
                    debug!(key = issued.key.id, %error, "cannot note the use of a key");
                }
            });
        }
    }

    /// Forgets all cached keys: the next request reads its key.
    pub(crate) fn forget(&self) {
        let mut cache = self.lock();
        cache.keys.clear();
        cache.generation += 1;
    }

    /// Forgets cached keys whenever another API has changed one, until `stop` is cancelled.
    pub(crate) async fn follow_changes(&self, notifications: &dyn Notifications, stop: &CancellationToken) {
        let follow = async {
            loop {
                match notifications.subscribe(ALL_APIS).await {
                    Ok(mut notices) => {
                        self.forget();
                        while let Some(notice) = notices.next().await {
                            if notice == Notification::KeysChanged {
                                self.forget();
                            }
                        }
                    }
                    Err(error) => warn!(%error, "cannot subscribe to changes of keys, retrying in 1 s"),
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        };
        stop.run_until_cancelled(follow).await;
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Issued {
    fn new(key: Key) -> Self {
        let caller = Caller {
            key: Some(key.id.as_str().into()),
            subject: Some(key.name.as_str()).filter(|name| !name.is_empty()).map(Arc::from),
            tenant: key.tenant.as_deref().map(Arc::from),
            // A newer version may have stored a scope that this one does not know.
            scopes: key.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
            expires_at: key.expires_at,
            multitask_strategy: key.multitask_strategy,
        };
        let last_used_at = AtomicI64::new(key.last_used_at.unwrap_or_default());
        Self { key, caller: Arc::new(caller), last_used_at }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queue::MemoryNotifications;

    use super::*;

    #[tokio::test]
    async fn a_change_on_another_api_is_followed() {
        let store = Store::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let secret = NewSecret::generate().unwrap();
        let key = Key {
            id: secret.id.clone(),
            hash: secret.hash,
            tenant: None,
            name: String::new(),
            scopes: vec!["read".to_owned(), "of a newer version".to_owned()],
            created_by: "me".to_owned(),
            created_at: clock::now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
            multitask_strategy: None,
        };
        assert!(store.add_key(&key, "test").await.unwrap());
        let long = Duration::from_secs(3600);
        let keys = Arc::new(IssuedKeys { fresh: long, ..IssuedKeys::new(store.clone()) });
        let (notifications, stop) = (MemoryNotifications::new(), CancellationToken::new());
        let (following, subscribed) = (Arc::clone(&keys), notifications.clone());
        let task = tokio::spawn(async move { following.follow_changes(&subscribed, &stop).await });
        let shown = secrecy::ExposeSecret::expose_secret(&secret.key).to_owned();
        let (id, secret) = parse(&shown).unwrap();
        let is_valid = async || keys.caller(id, secret).await.unwrap().is_some();
        while keys.lock().generation == 0 {
            tokio::task::yield_now().await;
        }
        assert!(is_valid().await);
        store.revoke_key(id, "test").await.unwrap();
        assert!(is_valid().await, "it is cached");
        notifications.publish(ALL_APIS, Notification::KeysChanged).await;
        while keys.lock().generation == 1 {
            tokio::task::yield_now().await;
        }
        assert!(!is_valid().await);
        task.abort();
    }
}

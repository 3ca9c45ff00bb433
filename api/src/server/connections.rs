//! Open connections: how many there may be, and which of them makes room for another.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use super::limit_warnings::LimitWarnings;

/// Registry of the open connections.
///
/// A connection is *idle* while it answers nothing: it waits for a request, or for the rest of one. A client that opens
/// connections and sends nothing, or never ends what it sends, therefore holds no place that another client needs.
pub(super) struct Connections {
    max: usize,
    max_per_address: usize,
    state: Mutex<State>,
    warnings: LimitWarnings,
}

#[derive(Default)]
struct State {
    next_id: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    address: IpAddr,
    answering: bool,
    /// Grows with every connection and every answer, so that the smallest has been idle longest.
    since: u64,
    close: CancellationToken,
}

impl Connections {
    pub(super) fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, state: Mutex::default(), warnings: LimitWarnings::default() }
    }

    /// Registers a connection. At a limit, the connection that has been idle longest is closed for it: at the limit of an
    /// address, one of that address. Returns nothing if none is idle.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let mut state = self.lock();
        if self.max_per_address
            <= state.open.values().filter(|connection| connection.address == address).count()
        {
            self.warnings.note("max_connections_per_address", None);
            state.close_idle(|connection| connection.address == address)?;
        }
        if self.max <= state.open.len() {
            self.warnings.note("max_connections", None);
            state.close_idle(|_| true)?;
        }
        let id = state.tick();
        let close = CancellationToken::new();
        state.open.insert(id, Open { address, answering: false, since: id, close: close.clone() });
        Some(Connection { registry: Arc::clone(self), id, close })
    }

    fn set_answering(&self, id: u64, answering: bool) {
        let mut state = self.lock();
        let since = state.tick();
        if let Some(open) = state.open.get_mut(&id) {
            (open.answering, open.since) = (answering, since);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Closes the connection that has been idle longest, among those that `may_close`.
    fn close_idle(&mut self, may_close: impl Fn(&Open) -> bool) -> Option<()> {
        let idle = self.open.iter().filter(|(_, connection)| !connection.answering && may_close(connection));
        let id = *idle.min_by_key(|(_, connection)| connection.since)?.0;
        self.open.remove(&id)?.close.cancel();
        Some(())
    }
}

/// A registered connection; dropping it makes room.
pub(super) struct Connection {
    registry: Arc<Connections>,
    id: u64,
    close: CancellationToken,
}

impl Connection {
    /// Waits until the connection must close to make room for another.
    pub(super) async fn must_close(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.id);
    }
}

/// A request and its response. The connection is not idle from the end of the request to the end of the response.
pub(super) struct Exchange {
    connection: Arc<Connection>,
    is_received: AtomicBool,
}

impl Exchange {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, is_received: AtomicBool::new(false) }
    }

    /// Notes that the whole request has been received.
    pub(super) fn received(&self) {
        if !self.is_received.swap(true, Ordering::Relaxed) {
            self.connection.registry.set_answering(self.connection.id, true);
        }
    }

    /// Returns true if the whole request has been received.
    pub(super) fn is_received(&self) -> bool {
        self.is_received.load(Ordering::Relaxed)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.connection.registry.set_answering(self.connection.id, false);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    #[tokio::test]
    async fn the_longest_idle_connection_makes_room() {
        let connections = Arc::new(Connections::new(3, 3));
        let [a, b, c] = [1, 2, 3].map(|it| Arc::new(connections.admit(address(it)).unwrap()));
        let answering = Exchange::new(Arc::clone(&a));
        answering.received();
        drop(Exchange::new(Arc::clone(&b)));
        let d = connections.admit(address(4)).unwrap();
        assert!(c.close.is_cancelled(), "idle since it was opened");
        assert!(!a.close.is_cancelled() && !b.close.is_cancelled() && !d.close.is_cancelled());
        let [b, d] = [b, Arc::new(d)].map(|it| {
            let exchange = Exchange::new(it);
            exchange.received();
            exchange
        });
        assert!(connections.admit(address(5)).is_none(), "all are answering");
        drop(d);
        assert!(connections.admit(address(5)).is_some());
        drop((answering, b));
    }

    #[tokio::test]
    async fn an_address_at_its_limit_makes_room_for_itself() {
        let connections = Arc::new(Connections::new(10, 2));
        let [other, first, second] = [1, 2, 2].map(|it| connections.admit(address(it)).unwrap());
        let third = connections.admit(address(2)).unwrap();
        assert!(first.close.is_cancelled());
        assert!(!other.close.is_cancelled() && !second.close.is_cancelled() && !third.close.is_cancelled());
        drop((first, second, third));
        assert_eq!(connections.lock().open.len(), 1, "a closed connection leaves the registry");
    }
}

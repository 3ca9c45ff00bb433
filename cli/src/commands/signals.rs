//! Signals that interrupt a command: SIGTERM and Ctrl-C.
//!
//! ## Why a listener is kept until the end
//!
//! From its first listener on, tokio keeps these signals from ending the process, even when no listener is left.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for SIGTERM and Ctrl-C.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    /// Returns when a signal arrives.
    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

//! What ends a command before its end: SIGTERM and Ctrl-C.
//!
//! ## Why they are listened for until the end
//!
//! From the first listener on, tokio keeps them from ending the process, also when nobody listens any more.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and Ctrl-C, heard from its making on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    /// Comes back once somebody wants the end.
    pub(super) async fn heard(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

//! Limits on the memory and the log messages that floods from servers and endpoints may cost.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Returns how long a flood lasts: 3 seconds, or `TURNFOLD_FLOOD_SECONDS`.
pub(super) fn seconds() -> u64 {
    std::env::var("TURNFOLD_FLOOD_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3)
}

/// Counts the bytes of log messages.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<AtomicUsize>, Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts counting, with the filter of `turnfold worker`.
    pub(super) fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let filter = tracing_subscriber::EnvFilter::new("info,sea_orm_migration=warn,sqlx=warn,rmcp=warn");
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone()).init();
        log
    }

    /// Fails if a flood of some seconds wrote too much or took too much memory.
    #[expect(clippy::print_stdout, reason = "the figures are what the tests are for")]
    pub(super) fn check(&self, seconds: u64) {
        let (bytes, peak) = (self.0.load(Ordering::Relaxed), peak_mb());
        println!("log {bytes} bytes, peak {peak} MB");
        let text = String::from_utf8_lossy(&self.1.lock().unwrap()).into_owned();
        let lines = text.lines().count() as u64;
        assert!(lines <= 40 * (1 + seconds / 60), "{lines} lines:\n{text}");
        assert!(bytes < 2_000_000 && peak < 300, "log {bytes} bytes, peak {peak} MB");
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        let mut start = self.1.lock().unwrap();
        if start.len() < 100_000 {
            start.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Peak of the memory of this process, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1_000
}

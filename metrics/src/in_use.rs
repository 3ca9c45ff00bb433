//! A gauge of things in use.

use prometheus_client::metrics::gauge::Gauge;

/// One thing in use; dropping it ends the use.
#[derive(Debug)]
pub struct InUse(Gauge);

impl InUse {
    pub(crate) fn of(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.dec();
    }
}

//! The registry, and a description of each metric for the documentation and for checks of dashboards.

use std::fmt::Debug;

use prometheus_client::{encoding::EncodeMetric, metrics::TypedMetric, registry::Registry};

/// Prefix of all names.
const PREFIX: &str = "turnfold";

/// Description of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name without the prefix `turnfold_`, as in a query.
    name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Meaning, as in the text format.
    pub help: &'static str,
}

impl Description {
    /// Returns the name as in a query. A histogram has the three series `_bucket`, `_sum` and `_count` of this name.
    pub fn name(&self) -> String {
        format!("{PREFIX}_{}", self.name)
    }
}

/// A registry under construction.
pub(crate) struct Catalog {
    registry: Registry,
    descriptions: Vec<Description>,
}

impl Catalog {
    pub(crate) fn new() -> Self {
        Self { registry: Registry::with_prefix(PREFIX), descriptions: Vec::new() }
    }

    /// Registers a counter. Its name ends with `_total`, which the registry adds.
    pub(crate) fn counter<M: EncodeMetric + Clone + Debug + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        let registered = name.strip_suffix("_total").unwrap_or(name);
        self.add(registered, Description { name, kind: "counter", labels, help }, metric)
    }

    /// Registers a gauge.
    pub(crate) fn gauge<M: EncodeMetric + Clone + Debug + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.add(name, Description { name, kind: "gauge", labels, help }, metric)
    }

    /// Registers a histogram.
    pub(crate) fn histogram<M: EncodeMetric + TypedMetric + Clone + Debug + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        self.add(name, Description { name, kind: "histogram", labels, help }, metric)
    }

    fn add<M: EncodeMetric + Clone + Debug + Send + Sync + 'static>(
        &mut self,
        registered: &'static str,
        description: Description,
        metric: M,
    ) -> M {
        // The registry ends the help with a full stop.
        let help = description.help.strip_suffix('.').unwrap_or(description.help);
        self.registry.register(registered, help, metric.clone());
        self.descriptions.push(description);
        metric
    }

    pub(crate) fn finish(self) -> (Registry, Vec<Description>) {
        (self.registry, self.descriptions)
    }
}

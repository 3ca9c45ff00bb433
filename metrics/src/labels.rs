//! Labels, and families of metrics that have them.

use std::borrow::Cow;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

/// The labels of a series: names with values.
pub(crate) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Counters with `N` labels.
pub(crate) type CounterFamily<const N: usize> = Family<Labels<N>, Counter>;

/// Gauges with `N` labels.
pub(crate) type GaugeFamily<const N: usize> = Family<Labels<N>, Gauge>;

/// Histograms with `N` labels.
pub(crate) type HistogramFamily<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

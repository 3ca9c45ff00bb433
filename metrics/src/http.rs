//! Requests to the API.

use std::time::Duration;

use prometheus_client::metrics::{family::Family, gauge::Gauge, histogram::Histogram};

use crate::{
    catalog::Catalog,
    in_use::InUse,
    labels::{CounterFamily, HistogramFamily},
};

/// Upper bounds of the durations of requests, in seconds.
const SECONDS: [f64; 11] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Requests to the API.
#[derive(Debug)]
pub struct Http {
    requests: CounterFamily<3>,
    duration: HistogramFamily<1>,
    followers: Gauge,
}

impl Http {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            requests: of.counter(
                "http_requests_total",
                &["method", "route", "status"],
                "Requests to the API. `route` is the template of the path, empty if no route has the path.",
                Family::default(),
            ),
            duration: of.histogram(
                "http_request_duration_seconds",
                &["route"],
                "Time until the headers of the response are known.",
                HistogramFamily::new_with_constructor(|| Histogram::new(SECONDS)),
            ),
            followers: of.gauge(
                "followers",
                &[],
                "Clients that follow a thread: streams of events and of chat completions, and long polls.",
                Gauge::default(),
            ),
        }
    }

    /// Counts a request. `route` is the template of its path.
    pub fn request(&self, method: &str, route: &str, status: u16, duration: Duration) {
        let labels = [
            ("method", known(method).into()),
            ("route", route.to_owned().into()),
            ("status", status.to_string().into()),
        ];
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&[("route", route.to_owned().into())]).observe(duration.as_secs_f64());
    }

    /// Counts a client that follows a thread, until the guard is dropped.
    pub fn follow(&self) -> InUse {
        InUse::of(&self.followers)
    }
}

/// Returns the method, or `other`: a client may send any.
fn known(method: &str) -> &'static str {
    let methods = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    methods.into_iter().find(|known| *known == method).unwrap_or("other")
}

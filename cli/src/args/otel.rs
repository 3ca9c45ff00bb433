//! Arguments of `turnfold otel`.

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;

use super::values::duration;
use crate::config::OtlpProtocol;

#[derive(Subcommand)]
pub(crate) enum Otel {
    /// Export turns that ended as OpenTelemetry traces, from the log
    ///
    /// Without --out, traces are sent to an OpenTelemetry collector. The same turn gives the same trace and span ids each time,
    /// so an export can be repeated. If `telemetry.otlp_endpoint` is configured, API and workers export each turn when it ends.
    Export {
        /// Only turns that changed within this time: 2w, 90d, 12h, 30m or 10s
        #[arg(long, value_name = "AGE", value_parser = duration, default_value = "1h")]
        since: Duration,
        /// Write to this file instead, one OTLP/JSON request per line; - is standard output
        #[arg(long, value_name = "FILE", conflicts_with = "endpoint")]
        out: Option<PathBuf>,
        /// Address of the collector, for OTLP over HTTP [default: telemetry.otlp_endpoint, or http://127.0.0.1:4318]
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        /// Form of the requests to the collector [default: telemetry.otlp_protocol, which is http/protobuf]
        #[arg(long, value_name = "FORM")]
        protocol: Option<OtlpProtocol>,
        /// Include what people, models and tools wrote, and errors
        #[arg(long)]
        content: bool,
    },
}

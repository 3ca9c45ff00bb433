//! A result as a row of a table.

use std::fmt;

use queue::clock::{parse_rfc3339, rfc3339};
use serde_json::Value;
use shared::{BatchResult, ResultRun, micro_usd};
use store::{batches::TURN_FAILED, error_fingerprint};

const MICROS_PER_DOLLAR: i64 = 1_000_000;

/// Declares the columns of results in order: fields of [`Row`], their cells, and the help.
macro_rules! columns {
    ($(#[$line_doc:meta])* $line:ident: $line_type:ty, $($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// A result with the columns of a table.
        #[derive(Debug, Default, PartialEq)]
        pub(super) struct Row {
            $(#[$line_doc])*
            pub(super) $line: $line_type,
            $($(#[$doc])* pub(super) $name: $type,)*
        }

        /// Description of the columns, in order.
        pub(crate) const COLUMNS_HELP: &str =
            concat!(stringify!($line), " (its number in the file)" $(, ", ", stringify!($name))*);

        impl Row {
            /// Returns the name and the value of each column, in order.
            pub(super) fn cells(&self) -> Vec<(&'static str, Cell<'_>)> {
                vec![
                    (stringify!($line), Cell::from(&self.$line)),
                    $((stringify!($name), Cell::from(&self.$name)),)*
                ]
            }
        }
    };
}

columns! {
    /// Number of the line in the file, from 1. An invalid line may have no `custom_id`.
    line: Option<i64>,
    custom_id: Option<String>,
    /// `completed`, `failed`, `expired`, `cancelled`.
    status: String,
    answer: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    /// `answered`, `partial` or `declined`, if the turn completed.
    outcome: Option<String>,
    /// Causes of the outcome, or of the failure without what differs from line to line. `batch resume --cause` takes it.
    cause: Option<String>,
    model: Option<String>,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    usd: Option<Money>,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    attempts: Option<i64>,
    thread_id: Option<String>,
    turn_id: Option<String>,
}

/// Amount of money, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Money(pub(super) i64);

/// Time in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) i64);

/// Value in a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Integer(Option<i64>),
    Money(Option<Money>),
    Time(Option<Time>),
    Text(Option<&'a str>),
    /// A text that is never absent.
    Required(&'a str),
}

impl From<&Option<i64>> for Cell<'_> {
    fn from(value: &Option<i64>) -> Self {
        Self::Integer(*value)
    }
}

impl From<&Option<Money>> for Cell<'_> {
    fn from(value: &Option<Money>) -> Self {
        Self::Money(*value)
    }
}

impl From<&Option<Time>> for Cell<'_> {
    fn from(value: &Option<Time>) -> Self {
        Self::Time(*value)
    }
}

impl<'a> From<&'a Option<String>> for Cell<'a> {
    fn from(value: &'a Option<String>) -> Self {
        Self::Text(value.as_deref())
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(value: &'a String) -> Self {
        Self::Required(value)
    }
}

impl<'a> Cell<'a> {
    /// Returns the number that stands for the value in a file of binary columns.
    pub(super) fn number(self) -> Option<i64> {
        match self {
            Self::Integer(value) => value,
            Self::Money(value) => value.map(|Money(micros)| micros),
            Self::Time(value) => value.map(|Time(micros)| micros),
            Self::Text(_) | Self::Required(_) => None,
        }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => text,
            Self::Required(text) => Some(text),
            Self::Integer(_) | Self::Money(_) | Self::Time(_) => None,
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(Some(value)) => value.fmt(f),
            // With all its decimals, or a reader takes a column of whole dollars for integers.
            Self::Money(Some(Money(micros))) => {
                write!(f, "{}.{:06}", micros / MICROS_PER_DOLLAR, micros % MICROS_PER_DOLLAR)
            }
            Self::Time(Some(Time(micros))) => f.write_str(&rfc3339(*micros)),
            Self::Text(Some(text)) | Self::Required(text) => f.write_str(text),
            Self::Integer(None) | Self::Money(None) | Self::Time(None) | Self::Text(None) => Ok(()),
        }
    }
}

impl Row {
    /// Converts a result as the API returns it.
    pub(super) fn of(result: &BatchResult) -> Self {
        let body = result.response.as_ref().map_or(&Value::Null, |response| &response.body);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // A failure is reported by the result itself, or in the response that the turn would have had.
        let (error_code, error_message) = match (&result.error, &body["error"]) {
            (Some(error), _) => (Some(error.code.clone()), Some(error.message.clone())),
            (None, error) => (text(&error["code"]), text(&error["message"])),
        };
        let is_error = result.error.is_some() || body["error"].is_object();
        let reported = [&body["turnfold"]["status"], &body["status"]].into_iter().find_map(text);
        let status = match (is_error, error_code.as_deref().and_then(status_of)) {
            (_, Some(status)) => status.to_owned(),
            (true, None) => {
                reported.filter(|status| status != "completed").unwrap_or_else(|| "failed".to_owned())
            }
            (false, None) => reported.unwrap_or_else(|| "completed".to_owned()),
        };
        let of_turn = error_message.as_deref().filter(|_| error_code.as_deref() == Some(TURN_FAILED));
        let failure = of_turn.map(error_fingerprint).or_else(|| error_message.clone());
        let answers = [&body["choices"][0]["message"]["content"], &body["output"]["reply"]];
        let row = Self {
            line: result.line(),
            custom_id: result.custom_id.clone(),
            status,
            answer: answers.into_iter().find_map(text),
            error_code,
            error_message,
            // As `batch show` groups failures, and `turn ls --group-by cause`.
            cause: [&body["turnfold"]["cause"], &body["cause"]].into_iter().find_map(text).or(failure),
            outcome: [&body["turnfold"]["outcome"], &body["outcome"]].into_iter().find_map(text),
            ..Self::default()
        };
        match &result.turnfold {
            Some(run) => row.with_run(run),
            None => row,
        }
    }

    fn with_run(self, run: &ResultRun) -> Self {
        let number = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
        Self {
            model: run.model.clone(),
            input_tokens: number(run.input_tokens),
            output_tokens: number(run.output_tokens),
            usd: number(micro_usd(run.usd)).map(Money),
            started_at: run.started_at.as_deref().and_then(parse_rfc3339).map(Time),
            ended_at: parse_rfc3339(&run.ended_at).map(Time),
            attempts: Some(run.attempts.into()),
            thread_id: Some(run.thread_id.to_string()),
            turn_id: Some(run.turn_id.to_string()),
            ..self
        }
    }

    /// Returns the names of the columns as a line of CSV.
    pub(super) fn csv_header() -> String {
        let names: Vec<&str> = Self::default().cells().into_iter().map(|(name, _)| name).collect();
        names.join(",") + "\r\n"
    }

    /// Returns the total length of the texts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.cells().into_iter().filter_map(|(_, cell)| cell.text()).map(str::len).sum()
    }

    /// Formats the row as a line of CSV (RFC 4180), with its line end.
    pub(super) fn csv(&self) -> String {
        let cells: Vec<String> = self.cells().iter().map(|(_, cell)| quoted(&cell.to_string())).collect();
        cells.join(",") + "\r\n"
    }
}

/// Returns the status that an error code stands for, if the line did not fail.
fn status_of(code: &str) -> Option<&'static str> {
    match code {
        "batch_cancelled" | "turn_cancelled" => Some("cancelled"),
        _ if code.starts_with("expired_") => Some("expired"),
        _ => None,
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};
    use shared::{BatchResult, ResultError, ResultResponse, ResultRun};

    use super::Row;
    use uuid::Uuid;

    fn result(id: &str, custom_id: Option<&str>, body: Value, code: Option<&str>) -> BatchResult {
        BatchResult {
            n: Some(1),
            id: id.to_owned(),
            custom_id: custom_id.map(str::to_owned),
            response: (!body.is_null()).then(|| ResultResponse { body, ..ResultResponse::default() }),
            error: code.map(|code| ResultError { code: code.to_owned(), message: "too late".to_owned() }),
            turnfold: None,
        }
    }

    /// One result of each kind.
    pub(in super::super) fn lines() -> [BatchResult; 4] {
        let run = |usd: f64, attempts: u32| {
            Some(ResultRun {
                thread_id: Uuid::from_u128(1),
                turn_id: Uuid::from_u128(2),
                model: Some("gpt-4o-mini".to_owned()),
                input_tokens: 3,
                output_tokens: 4,
                usd,
                started_at: Some("2026-11-28T23:00:00.000001Z".to_owned()),
                ended_at: "2026-11-28T23:00:01.500000Z".to_owned(),
                attempts,
            })
        };
        let chat = json!({
            "choices": [{"message": {"content": "a, \"b\"\nc"}}], "usage": {"total_tokens": 7},
            "turnfold": {"status": "completed", "outcome": "partial", "cause": "rounds"}
        });
        let turn = json!({"status": "completed", "output": {"reply": "done"}, "outcome": "answered"});
        let failed = json!({"error": {"code": "turn_failed", "message": "out of paper after 31 s"}});
        [
            BatchResult { turnfold: run(0.25, 1), ..result("batch_req_0a_7", Some("a"), chat, None) },
            BatchResult { turnfold: run(0.0, 2), ..result("", Some("b"), turn, None) },
            result("", Some("c"), failed, None),
            result("batch_req_0a_9", None, Value::Null, Some("expired_queue_wait")),
        ]
    }

    #[test]
    fn each_kind_of_result_is_a_row() {
        let rows = lines().map(|line| Row::of(&line).csv());
        let ids = "00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000002";
        let times = "2026-11-28T23:00:00.000001Z,2026-11-28T23:00:01.500000Z";
        assert_eq!(
            rows,
            [
                format!(
                    "7,a,completed,\"a, \"\"b\"\"\nc\",,,partial,rounds,gpt-4o-mini,3,4,0.250000,{times},1,{ids}\r\n"
                ),
                format!(",b,completed,done,,,answered,,gpt-4o-mini,3,4,0.000000,{times},2,{ids}\r\n"),
                ",c,failed,,turn_failed,out of paper after 31 s,,out of paper after # s,,,,,,,,,\r\n"
                    .to_owned(),
                "9,,expired,,expired_queue_wait,too late,,too late,,,,,,,,,\r\n".to_owned(),
            ]
        );
        let status = |code: &str, body: Value| Row::of(&result("", Some("a"), body, Some(code))).status;
        for (code, wanted) in [
            ("expired_running", "expired"),
            ("expired_waiting_for_a_person", "expired"),
            ("batch_cancelled", "cancelled"),
            ("turn_cancelled", "cancelled"),
            ("turn_failed", "failed"),
        ] {
            assert_eq!(status(code, Value::Null), wanted, "{code}");
        }
        assert_eq!(
            status("expired_running", json!({"status": "cancelled"})),
            "expired",
            "its turn was cancelled"
        );
    }
}

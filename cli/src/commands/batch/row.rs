//! A result as a row of a table.

use std::fmt;

use serde_json::Value;
use shared::BatchResult;

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
    custom_id: String,
    /// `completed`, `failed`, `expired`, `cancelled`.
    status: String,
    answer: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    tokens: Option<i64>,
    usd: Option<f64>,
    /// `answered`, `partial` or `declined`, if the turn completed.
    outcome: Option<String>,
    /// Causes of the outcome, or of the failure.
    cause: Option<String>,
}

/// Value in a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Integer(Option<i64>),
    Number(Option<f64>),
    Text(Option<&'a str>),
    /// A text that is never absent.
    Required(&'a str),
}

impl From<&Option<i64>> for Cell<'_> {
    fn from(value: &Option<i64>) -> Self {
        Self::Integer(*value)
    }
}

impl From<&Option<f64>> for Cell<'_> {
    fn from(value: &Option<f64>) -> Self {
        Self::Number(*value)
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
    pub(super) fn integer(self) -> Option<i64> {
        if let Self::Integer(value) = self { value } else { None }
    }

    pub(super) fn number(self) -> Option<f64> {
        if let Self::Number(value) = self { value } else { None }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => text,
            Self::Required(text) => Some(text),
            Self::Integer(_) | Self::Number(_) => None,
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(Some(value)) => value.fmt(f),
            Self::Number(Some(value)) => value.fmt(f),
            Self::Text(Some(text)) | Self::Required(text) => f.write_str(text),
            Self::Integer(None) | Self::Number(None) | Self::Text(None) => Ok(()),
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
        let answers = [&body["choices"][0]["message"]["content"], &body["output"]["reply"]];
        let usage = [&body["turnfold"]["usage"], &body["usage"]]
            .into_iter()
            .find(|usage| usage["input_tokens"].is_number());
        let tokens = usage.map(|usage| {
            let count = |name: &str| usage[name].as_i64().unwrap_or_default();
            count("input_tokens").saturating_add(count("output_tokens"))
        });
        Self {
            line: result.line(),
            custom_id: result.custom_id.clone().unwrap_or_default(),
            status,
            answer: answers.into_iter().find_map(text),
            error_code,
            error_message,
            tokens: tokens.or_else(|| body["usage"]["total_tokens"].as_i64()),
            usd: usage.and_then(|usage| usage["usd"].as_f64()),
            outcome: [&body["turnfold"]["outcome"], &body["outcome"]].into_iter().find_map(text),
            cause: [&body["turnfold"]["cause"], &body["cause"]].into_iter().find_map(text),
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
    use shared::{BatchResult, ResultError, ResultResponse};

    use super::Row;

    fn result(id: &str, custom_id: Option<&str>, body: Value, code: Option<&str>) -> BatchResult {
        BatchResult {
            n: Some(1),
            id: id.to_owned(),
            custom_id: custom_id.map(str::to_owned),
            response: (!body.is_null()).then(|| ResultResponse { body, ..ResultResponse::default() }),
            error: code.map(|code| ResultError { code: code.to_owned(), message: "too late".to_owned() }),
        }
    }

    /// One result of each kind.
    pub(in super::super) fn lines() -> [BatchResult; 4] {
        let usage = json!({"input_tokens": 3, "output_tokens": 4, "usd": 0.25});
        let chat = json!({
            "choices": [{"message": {"content": "a, \"b\"\nc"}}], "usage": {"total_tokens": 7},
            "turnfold": {"status": "completed", "usage": usage, "outcome": "partial", "cause": "rounds"}
        });
        let turn = json!({"status": "completed", "output": {"reply": "done"}, "usage": usage, "outcome": "answered"});
        let failed = json!({"error": {"code": "turn_failed", "message": "out of paper"}});
        [
            result("batch_req_0a_7", Some("a"), chat, None),
            result("", Some("b"), turn, None),
            result("", Some("c"), failed, None),
            result("batch_req_0a_9", None, Value::Null, Some("expired_queue_wait")),
        ]
    }

    #[test]
    fn each_kind_of_result_is_a_row() {
        let rows = lines().map(|line| Row::of(&line).csv());
        assert_eq!(
            rows,
            [
                "7,a,completed,\"a, \"\"b\"\"\nc\",,,7,0.25,partial,rounds\r\n",
                ",b,completed,done,,,7,0.25,answered,\r\n",
                ",c,failed,,turn_failed,out of paper,,,,\r\n",
                "9,,expired,,expired_queue_wait,too late,,,,\r\n",
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

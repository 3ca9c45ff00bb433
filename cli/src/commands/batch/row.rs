//! A result as a row of a table.

use serde_json::Value;

/// Column names, in order.
pub(super) const COLUMNS: [&str; 10] = [
    "line",
    "custom_id",
    "status",
    "answer",
    "error_code",
    "error_message",
    "tokens",
    "usd",
    "outcome",
    "cause",
];

/// A result with the columns of a table.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Number of the line in the file, from 1. An invalid line may have no `custom_id`.
    pub(super) line: Option<i64>,
    pub(super) custom_id: String,
    /// `completed`, `failed`, `expired`, `cancelled`.
    pub(super) status: String,
    pub(super) answer: Option<String>,
    pub(super) error_code: Option<String>,
    pub(super) error_message: Option<String>,
    pub(super) tokens: Option<i64>,
    pub(super) usd: Option<f64>,
    /// `answered`, `partial` or `declined`, if the turn completed.
    pub(super) outcome: Option<String>,
    /// Causes of the outcome, or of the failure.
    pub(super) cause: Option<String>,
}

impl Row {
    /// Converts a result as the API returns it.
    pub(super) fn of(line: &Value) -> Self {
        let body = &line["response"]["body"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // A failure is reported by the result itself, or in the response that the turn would have had.
        let error = [&line["error"], &body["error"]].into_iter().find(|error| error.is_object());
        let reported = [&body["turnfold"]["status"], &body["status"]].into_iter().find_map(text);
        let error_code = error.and_then(|error| text(&error["code"]));
        let status = match (error, error_code.as_deref().and_then(status_of)) {
            (_, Some(status)) => status.to_owned(),
            (Some(_), None) => {
                reported.filter(|status| status != "completed").unwrap_or_else(|| "failed".to_owned())
            }
            (None, None) => reported.unwrap_or_else(|| "completed".to_owned()),
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
            // `batch_req_BATCH_LINE`.
            line: line["id"].as_str().and_then(|id| id.rsplit('_').next()?.parse().ok()),
            custom_id: text(&line["custom_id"]).unwrap_or_default(),
            status,
            answer: answers.into_iter().find_map(text),
            error_code,
            error_message: error.and_then(|error| text(&error["message"])),
            tokens: tokens.or_else(|| body["usage"]["total_tokens"].as_i64()),
            usd: usage.and_then(|usage| usage["usd"].as_f64()),
            outcome: [&body["turnfold"]["outcome"], &body["outcome"]].into_iter().find_map(text),
            cause: [&body["turnfold"]["cause"], &body["cause"]].into_iter().find_map(text),
        }
    }

    /// Returns the total length of the texts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let Self {
            line: _,
            custom_id,
            status,
            answer,
            error_code,
            error_message,
            tokens: _,
            usd: _,
            outcome,
            cause,
        } = self;
        let some = [answer, error_code, error_message, outcome, cause].into_iter().flatten().map(String::len);
        custom_id.len() + status.len() + some.sum::<usize>()
    }

    /// Formats the row as a line of CSV (RFC 4180), with its line end.
    pub(super) fn csv(&self) -> String {
        let Self { line, custom_id, status, answer, error_code, error_message, tokens, usd, outcome, cause } =
            self;
        let cells = [
            line.map(|line| line.to_string()).unwrap_or_default(),
            custom_id.clone(),
            status.clone(),
            answer.clone().unwrap_or_default(),
            error_code.clone().unwrap_or_default(),
            error_message.clone().unwrap_or_default(),
            tokens.map(|tokens| tokens.to_string()).unwrap_or_default(),
            usd.map(|usd| usd.to_string()).unwrap_or_default(),
            outcome.clone().unwrap_or_default(),
            cause.clone().unwrap_or_default(),
        ];
        cells.map(|cell| quoted(&cell)).join(",") + "\r\n"
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

    use super::Row;

    /// One result of each kind.
    pub(in super::super) fn lines() -> [Value; 4] {
        let usage = json!({"input_tokens": 3, "output_tokens": 4, "usd": 0.25});
        let chat = json!({
            "choices": [{"message": {"content": "a, \"b\"\nc"}}], "usage": {"total_tokens": 7},
            "turnfold": {"status": "completed", "usage": usage, "outcome": "partial", "cause": "rounds"}
        });
        let turn = json!({"status": "completed", "output": {"reply": "done"}, "usage": usage, "outcome": "answered"});
        let failed = json!({"error": {"code": "turn_failed", "message": "out of paper"}});
        [
            json!({"n": 1, "id": "batch_req_0a_7", "custom_id": "a", "response": {"status_code": 200, "body": chat}, "error": null}),
            json!({"n": 2, "custom_id": "b", "response": {"status_code": 200, "body": turn}, "error": null}),
            json!({"n": 3, "custom_id": "c", "response": {"status_code": 500, "body": failed}, "error": null}),
            json!({"n": 4, "id": "batch_req_0a_9", "custom_id": null, "response": null, "error": {"code": "expired_queue_wait", "message": "too late"}}),
        ]
    }

    #[test]
    fn each_kind_of_result_is_a_row() {
        let rows = lines().map(|it| Row::of(&it).csv());
        assert_eq!(
            rows,
            [
                "7,a,completed,\"a, \"\"b\"\"\nc\",,,7,0.25,partial,rounds\r\n",
                ",b,completed,done,,,7,0.25,answered,\r\n",
                ",c,failed,,turn_failed,out of paper,,,,\r\n",
                "9,,expired,,expired_queue_wait,too late,,,,\r\n",
            ]
        );
        let status = |code: &str, body: Value| {
            let error = json!({"code": code, "message": "why"});
            Row::of(&json!({"custom_id": "a", "response": {"body": body}, "error": error})).status
        };
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

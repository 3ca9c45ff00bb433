//! Estimates of tokens from text, without a tokenizer.
//!
//! ## Why no tokenizer
//!
//! Every family of models has its own, and those of many endpoints are unknown. The estimate needs one addition per
//! byte and no table of a megabyte. Beside the counts of OpenAI's tokenizers it is a fifth to a half too high for prose,
//! code and JSON, about right for tables, and up to a third too low for random letters, as in base64. The refusal of an
//! endpoint corrects it where it was too low.

use serde_json::Value;

/// Parts into which a token is divided.
const PARTS: u64 = 12;

/// Parts of a token that each byte counts. A character of several bytes is counted at its first.
const BYTE_PARTS: [u8; 256] = byte_parts();

const fn byte_parts() -> [u8; 256] {
    let mut parts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        parts[byte] = match byte as u8 {
            b' ' => 1,
            b'a'..=b'z' | b'\n' | b'\r' | b'\t' => 4,
            // Names in capitals and base64 fall apart into many tokens.
            b'A'..=b'Z' => 7,
            b'0'..=b'9' => 9,
            0x00..=0x7f => 8,
            // Continuation bytes.
            0x80..=0xbf => 0,
            // Two bytes: Latin letters with accents, Greek, Cyrillic, Hebrew, Arabic.
            0xc0..=0xdf => 11,
            // Three bytes: Indic scripts, Thai, Chinese, Japanese, Korean.
            0xe0..=0xef => 16,
            // Four bytes: emoji and rare characters.
            0xf0..=0xff => 36,
        };
        byte += 1;
    }
    parts
}

/// Returns the parts of a token that a byte counts.
pub(super) fn parts(byte: u8) -> u64 {
    u64::from(BYTE_PARTS[usize::from(byte)])
}

/// Returns the number of [`parts`] in `tokens`.
pub(super) fn in_parts(tokens: u64) -> u64 {
    tokens.saturating_mul(PARTS)
}

/// Estimates the tokens of a text. Never more than its bytes.
pub fn estimated_tokens(text: &str) -> u64 {
    text.bytes().map(parts).sum::<u64>().div_ceil(PARTS)
}

/// Estimates the tokens of a value as JSON, without writing it out.
pub(crate) fn value_tokens(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => estimated_tokens(&number.to_string()),
        Value::String(text) => estimated_tokens(text) + 2,
        Value::Array(all) => 2 + all.iter().map(|item| value_tokens(item) + 1).sum::<u64>(),
        Value::Object(all) => {
            2 + all.iter().map(|(name, value)| estimated_tokens(name) + value_tokens(value) + 3).sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{estimated_tokens, value_tokens};

    /// Texts with their number of tokens by `cl100k_base` or `o200k_base`, whichever counts more.
    const COUNTED: [(&str, u64); 15] = [
        ("Book a call with Hugo on Friday at noon, and tell me which of these files mention Redis.", 20),
        ("let all: Vec<String> = said.iter().filter_map(told).collect();", 17),
        (r#"{"event":"turn_started","messages":[{"role":"user","content":"Hello"}]}"#, 18),
        (
            "2026-11-26T23:12:08.123456Z INFO append rejected: event 17 (stale) thread=01984c3e-7a1b-7f00-8000-0123456789ab",
            52,
        ),
        ("1274,88,903412,7,55120,3,9981,40\n12,774120,8,66,120,9,1,5501", 37),
        (
            "Der Planer zerlegt die Anfrage in Aufgaben für Fachleute und arbeitet sie der Reihe nach ab. Wenn ",
            28,
        ),
        (
            "Планировщик делит запрос на задачи для экспертов и выполняет их по порядку. Если встреча в четверг н",
            42,
        ),
        ("Ο σχεδιαστής χωρίζει το αίτημα σε εργασίες για ειδικούς και τις εκτελεί με τη σειρά. Αν έν", 79),
        ("يقسم المخطط الطلب إلى مهام للخبراء وينفذها بالترتيب. إذا لم ", 43),
        ("योजनाकार अनुरोध को विशेषज्ञों के कार्यों में बाँटता है और उन्हें क्रम से पूरा कर", 77),
        ("规划器将请求拆分为专家的任务,并按顺序执行。如果星期四无法安排会议,它会建议另一", 41),
        ("プランナーは依頼を専門家のタスクに分割し、順番に実行します。木曜日の予定が入らな", 46),
        ("플래너는 요청을 전문가의 작업으로 나누고 순서대로 수행합니다. 목요일에 ", 40),
        ("ผู้วางแผนแบ่งคำขอออกเป็นงานสำหรับผู้เชี่ยวชาญและดำเนินการตาม", 56),
        ("Done ✅ 🙂🚀🎉 👍🏽", 15),
    ];

    #[test]
    fn an_estimate_is_neither_far_below_nor_far_above_a_tokenizers_count() {
        for (text, tokens) in COUNTED {
            let estimate = estimated_tokens(text);
            assert!(tokens * 4 / 5 <= estimate && estimate <= tokens * 2, "{estimate}, not {tokens}: {text}");
        }
        assert_eq!(estimated_tokens(""), 0);
    }

    #[test]
    fn an_estimate_is_at_most_the_bytes() {
        for text in ["a", "{}", "ß", "語", "🙂", "\u{0}", "a 1\n"] {
            assert!(estimated_tokens(text) <= text.len() as u64, "{text:?}");
        }
    }

    #[test]
    fn a_value_counts_like_its_text() {
        let value = json!({"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"], "n": [1, null, true]});
        let (counted, text) = (value_tokens(&value), estimated_tokens(&value.to_string()));
        assert!(text <= counted && counted <= text * 2, "{counted} {text}");
    }
}

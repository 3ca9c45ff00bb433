//! Secrets and personal data planted in texts: which ones a fixture keeps.

use serde_json::json;
use shared::Event;
use strategy_tests::{NOT_FOUND, Pattern, Secrets};

/// Sentences around invented values, each in `«»`. Parts of keys are joined here, so that scanners do not report this file.
fn personal() -> Vec<&'static str> {
    vec![
        "write to «ann.arden@gmail.com» today",
        "the address is «Zoë.Müller+news@posteo.de»",
        "call me: «+49 30 901820»",
        "{\\\"phone\\\":\\\"«030 / 901820»\\\"}",
        "mobile number is «(415) 555-2671»",
        "Tel. «01 42 68 53 00»",
        "fax: «0171-3920011»",
        "pay with «4111 1111 1111 1111», please",
        "card «5500000000000004» expires soon",
        "amex «3782 822463 10005»",
        "IBAN «DE89 3704 0044 0532 0130 00»",
        "to «GB82WEST12345698765432» please",
        "or «FR14 2004 1010 0505 0001 3M02 606»",
        "SSN «219-09-9999»",
        "her number is «AB 12 34 56 C»",
        "DNI «12345678Z»",
        "NIE «X1234567L»",
        "codice fiscale «RSSMRA85T10A562S»",
        "NIR «1 84 12 76 451 089 46»",
        "CPF «529.982.247-25»",
        "passport number is «C01X00T47»",
        "Steuer-ID: «86095742719»",
        "born on «12 March 1984»",
        "date of birth: «1984-03-12»",
        "Geburtsdatum: «12.03.1984»",
        "she lives at «42 Old Mill Road», near the river",
        "er wohnt in der «Torstraße 12» in Berlin",
        "il habite «12 rue de Rivoli» à Paris",
        "vive en «Calle Mayor 5», Madrid",
        "«Ann Arden» called",
    ]
}

fn keys() -> Vec<String> {
    let of =
        |before: &str, parts: [&str; 2], after: &str| format!("{before}«{}{}»{after}", parts[0], parts[1]);
    vec![
        of("key ", ["wJalrXUtnFEMI/K7MD", "ENG/bPxRfiCYzz9qT4rUv8"], " of AWS"),
        of("id ", ["AKIA", "IOSFODNN7EXAMPLE"], " here"),
        of(
            "AccountKey=",
            ["Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IF", "suFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="],
            ";x",
        ),
        of("https://a.example/c?sv=1&sig=", ["q7Zx9Lm2Vt8Rk4Wp6Ys1", "a%2Bb%2Fc8Rk4Wp6Ys%3D"], ""),
        of("bot ", ["MTk4NjIyNDgzNDcxOTI1MjQ4.", "Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"], " joined"),
        of(
            "use ",
            ["patAbCdEf12345678.", "9f86d081884c7d659a2feaa0c55ad015"],
            "9f86d081884c7d659a2feaa0c55ad015",
        ),
        of("send ", ["SG.ngeVfQFYQlKU0ufo8x5d1A.", "TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr"], " now"),
        of("at ", ["110201543:", "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"], " is the bot"),
        of("password: ", ["hunter", "22x"], ", she wrote"),
        of("token=", ["ab12", "cd34"], "&n=1"),
        of("Authorization: Bearer ", ["abcdefgh", "ijklmnop"], ""),
        of("postgres://ann:", ["hun", "ter2"], "@db/x"),
        of("it is ", ["q7Zx9Lm2Vt", "8Rk4Wp6Ys1"], ", ok"),
        of("the PIN is ", ["47", "11"], ", he wrote"),
        of("OTP: ", ["839", "201"], ""),
    ]
}

fn secrets() -> Secrets {
    Secrets::and(vec![Pattern::of_name("Ann Arden").unwrap()])
}

#[test]
fn planted_values_are_found() {
    let texts = personal().into_iter().map(str::to_owned).chain(keys());
    for planted in texts {
        let (before, rest) = planted.split_once('«').unwrap();
        let (value, after) = rest.split_once('»').unwrap();
        let text = format!("{before}{value}{after}");
        let secrets = secrets();
        let found = secrets.find(&text);
        let whole = before.len()..before.len() + value.len();
        let covers = |range: &std::ops::Range<usize>| range.start <= whole.start && whole.end <= range.end;
        assert!(found.iter().any(|(range, _)| covers(range)), "{text}: {found:?}");
    }
}

#[test]
fn ordinary_texts_stay() {
    for plain in [
        "write to ann@example.org or to bo@shop.example",
        "order 4711, invoice 2026-0042, 17 items at 12.50, 1,000,000 turns in 2026",
        "at 1732900000000 ms, thread 0198c0de-7b1a-7c3d-9e2f-00112233aabb, build 20261129",
        "version 1.2.3-45, port 8080, 127.0.0.1, 2026-11-29T10:00:00Z",
        "the phone rang at 10:30; call it a day",
        "see docs/Getting-Started.md and src/MyModule/SomeLongFileName.rs",
        "card 4111 1111 1111 1112 has a wrong check digit",
        "meet at the Rathausplatz, Road to Rome, and place 5 in the queue",
        "https://example.org/Path/To/SomeLongResource.v2/items?id=12345",
    ] {
        assert_eq!(secrets().find(plain), [], "{plain}");
    }
}

#[test]
fn equal_values_stay_equal_and_other_kinds_are_named() {
    let text = "ann@gmail.com, ANN@GMAIL.COM and +49 30 901820 or +4930901820 of Ann Arden, ann arden";
    let event = |text: &str| {
        serde_json::from_value::<Event>(
            json!({"event": "turn_started", "messages": [{"role": "user", "content": text}]}),
        )
        .unwrap()
    };
    let redacted = strategy_tests::Redacted::of(&[event(text)], &secrets()).unwrap();
    let expected = "person1@example.com, person1@example.com and PHONE_1 or PHONE_1 of NAME_1, NAME_1";
    assert_eq!(redacted.log, [event(expected)]);
    let again = strategy_tests::Redacted::of(&redacted.log, &secrets()).unwrap();
    assert!(again.found.is_empty(), "placeholders are no secrets: {:?}", again.found);
    for kind in ["names", "postal addresses", "telephone numbers", "identity documents", "images"] {
        assert!(NOT_FOUND.contains(kind), "{kind}");
    }
}

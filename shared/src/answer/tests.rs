//! Answers of people, read rightly or not at all.

use super::{phrases::WORDS_MAX, *};

fn all(meaning: Answer, texts: &[&str]) {
    for text in texts {
        assert_eq!(Answer::of(text), meaning, "{text:?}");
    }
}

#[test]
fn yes_in_four_languages() {
    #[rustfmt::skip]
    all(Answer::Yes, &[
        "yes", "Yes!", "YES.", " yes \n", "Yes, please", "yes yes", "ok", "OK!", "Okay, go ahead.", "go ahead",
        "Sure, go for it", "“Yes”", "**yes**", "do it now", "Approved.", "Looks good to me, thanks!", "lgtm", "👍", "✔️",
        "ja", "Ja, bitte!", "Ja – mach das", "Einverstanden.", "In Ordnung, danke", "los geht’s", "BESTÄTIGT",
        "oui", "Oui !", "Oui\u{202f}!", "d’accord", "Vas-y, merci", "Oui, s’il vous plaît", "c'est bon",
        "sí", "Sí, por favor.", "¡Sí!", "si", "Vale, adelante", "claro que sí", "De acuerdo, gracias",
        "si\u{301}", "BESTA\u{308}TIGT",
    ]);
}

#[test]
fn no_in_four_languages() {
    #[rustfmt::skip]
    all(Answer::No, &[
        "no", "No.", "NO!", "nope", "No, thanks!", "not now", "please don't", "Don't", "do not", "Don’t do it", "no no no",
        "Of course not", "I'd rather not", "👎",
        "nein", "Nein, danke.", "lieber nicht", "Auf keinen Fall!", "noch nicht", "Bitte nicht", "nicht",
        "non", "Non, merci", "surtout pas", "pas d’accord", "bien sûr que non", "pas maintenant",
        "no, gracias", "ahora no", "Mejor no", "ni hablar", "claro que no",
    ]);
}

#[test]
fn stop_in_four_languages() {
    #[rustfmt::skip]
    all(Answer::Stop, &[
        "stop", "STOP!", "Stop it, please", "cancel", "Cancel everything", "forget it", "never mind", "No, forget it",
        "abort", "ok, cancel it", "🛑", "No. Stop.",
        "stopp", "vergiss es", "Abbrechen", "lass es", "Nein, vergiss das", "hör auf",
        "arrête", "laisse tomber", "Annulez", "oublie ça", "Non, laisse tomber",
        "para", "olvídalo", "cancela", "basta ya", "No, déjalo",
    ]);
}

#[test]
fn change_in_four_languages() {
    #[rustfmt::skip]
    all(Answer::Change, &[
        "change", "Change it, please", "edit", "something else", "No, change it", "not like this",
        "ändern", "Ändern, bitte", "so nicht", "etwas anderes",
        "modifier", "Pas comme ça", "autre chose",
        "cambiar", "Así no", "otra cosa, por favor",
    ]);
}

#[test]
fn doubt_is_never_an_approval() {
    #[rustfmt::skip]
    all(Answer::Unclear, &[
        "", " ", "...", "1", "2", "yes?", "ok?", "¿sí?", "yes or no", "yes no", "ja nein", "sí no", "maybe", "jein",
        "yes but later", "Ja, aber erst morgen", "oui mais non", "sí, pero mañana", "not yes", "don't go ahead",
        "do not proceed, yes", "yes, don't", "don't stop", "Do not cancel", "nicht abbrechen", "please", "thanks", "danke",
        "I said yes yesterday", "yesterday", "yeah right", "no problem", "kein Problem", "always say yes", "say yes",
        "if yes", "yes/no", "y/n", "> yes", "~~yes~~", "yes and delete everything", "go away", "ok stop change",
        "{\"answer\":\"yes\"}", "approve: false", "what does yes mean?", "passt nicht", "pas oui", "whatever", "fine", "wait", "Moment",
    ]);
    assert_eq!(Answer::of(&"yes ".repeat(40)), Answer::Unclear, "too long for the table");
}

/// Look-alikes: letters of other alphabets, characters without width, and capitals whose small letter is another one.
#[test]
fn look_alike_letters_are_never_an_approval() {
    #[rustfmt::skip]
    all(Answer::Unclear, &[
        "yеs", "уes", "yeѕ", "οk", "oк", "o\u{212a}", "о\u{43a}", "ｙｅｓ", "𝐲𝐞𝐬", "𝗒𝖾𝗌", "ⓨⓔⓢ", "y\u{200b}es", "yes\u{200d}",
        "\u{feff}yes", "\u{202e}sey", "\u{202e}yes", "ye\u{ad}s", "y\u{301}es", "ÿes", "ỵes", "yęs", "yes\u{0}", "yes\u{7}",
        "\u{1b}[32myes\u{1b}[0m", "ye\u{17f}", "YEſ", "jа", "օui", "s\u{131}", "sі", "ok\u{fe0f}", "уеѕ", "OΚ", "yes\u{e0020}",
        "yes\u{2028}", "yes\u{3000}please",
    ]);
}

#[test]
fn an_open_question_is_dismissed_only_by_a_text_that_cannot_answer_it() {
    for text in [
        "forget it",
        "Never mind!",
        "no, forget it",
        "Stop.",
        "vergiss es bitte",
        "Laisse tomber",
        "olvídalo",
    ] {
        assert!(Answer::is_dismissal(text), "{text:?}");
    }
    for text in [
        "",
        "no",
        "yes",
        "cancel",
        "change",
        "50",
        "para",
        "fin",
        "forget it, book a table",
        "don't stop",
        "ok stop",
        "ende",
        "Forget It by Breaking Benjamin",
        "st\u{43e}p",
    ] {
        assert!(!Answer::is_dismissal(text), "{text:?}");
    }
}

#[test]
fn polite_phrases_around_an_option_are_ignored() {
    let options = ["retry", "skip", "stop"].map(str::to_owned);
    let chosen = |text| Answer::option(&options, text);
    assert_eq!(chosen("Skip it, please"), Some("skip"));
    assert_eq!(chosen("RETRY now"), Some("retry"));
    for text in ["", "please", "it", "skip or retry", "do not skip", "skip?", "ѕkip", "skip the second"] {
        assert_eq!(chosen(text), None, "{text:?}");
    }
}

/// A phrase that is not written as texts are read would never be found; one with two meanings has the first.
#[test]
fn the_table_of_phrases_is_normalized() {
    let mut seen = Vec::new();
    for (tag, phrases) in PHRASES {
        for phrase in *phrases {
            let words = words(phrase).unwrap();
            assert_eq!(words.join(" "), *phrase);
            assert!((1..=WORDS_MAX).contains(&words.len()), "{phrase}");
            assert!(!seen.contains(phrase), "{phrase} is there twice, as {tag:?} too");
            seen.push(*phrase);
        }
    }
}

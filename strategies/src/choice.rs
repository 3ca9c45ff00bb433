//! Reads which of several named options a person chooses, in the person's words: “the gift one please”, “the second”.

use std::collections::BTreeSet;

use shared::{Answer, NamedOption, named_option};

/// Choice of a person among options.
#[derive(Debug, PartialEq)]
pub(super) enum Choice {
    /// The option at this index.
    Option(usize),
    /// None of the options.
    None,
    /// The answer leaves doubt.
    Unclear,
}

/// Words that express no option.
const FILLERS: &str = "the a an one ones i d ll m we would like want choose pick take use try go with let s it that this \
    prompt option number server of these those them please yes ok okay sure thanks thank you for to my me of think maybe \
    das die der den dem ich nehme nimm möchte will mit ja bitte danke nummer ein eine einen \
    le la les l un une je prends veux avec oui merci numéro plaît il vous te \
    el los las lo uno una quiero con sí por favor gracias número opción";

/// Words that choose none of the options.
const NONE: &str = "none neither nothing without keins keinen keine keines ohne aucun aucune sans rien ninguno ninguna sin \
    nada";

/// Words that turn an answer around. Beside other words they leave doubt: “not the first”.
const NEGATIONS: &str = "no not don t dont isn never but except instead nein nicht non ne pas jamais mais sauf nunca pero excepto aber \
    außer";

/// Words for the first option, the second, and so on.
const ORDINALS: [&str; 9] = [
    "first 1st erste ersten erster erstes premier première primero primera primer",
    "second 2nd zweite zweiten zweiter zweites deuxième seconde segundo segunda",
    "third 3rd dritte dritten dritter drittes troisième tercero tercera tercer",
    "fourth 4th vierte vierten vierter viertes quatrième cuarto cuarta",
    "fifth 5th fünfte fünften fünfter fünftes cinquième quinto quinta",
    "sixth 6th sechste sechsten sechster sechstes sixième sexto sexta",
    "seventh 7th siebte siebten siebter siebtes septième séptimo séptima",
    "eighth 8th achte achten achter achtes huitième octavo octava",
    "ninth 9th neunte neunten neunter neuntes neuvième noveno novena",
];

/// Words for the last option.
const LAST: &str = "last letzte letzten letzter letztes dernier dernière último última";

/// Returns the option that `answer` names: by name, by number, by an ordinal, or by a word that only one name has.
///
/// Whatever points at two options, asks something back or says more than a choice leaves doubt.
pub(super) fn choice(names: &[String], answer: &str) -> Choice {
    match named_option(names, answer) {
        NamedOption::One(nth) => return Choice::Option(nth),
        NamedOption::Several => return Choice::Unclear,
        NamedOption::Nothing => (),
    }
    match Answer::of(answer) {
        Answer::No | Answer::Stop => return Choice::None,
        Answer::Yes | Answer::Change | Answer::Wish | Answer::Unclear => (),
    }
    let said = words(answer);
    let has = |list: &str, word: &String| list.split_whitespace().any(|entry| entry == word);
    let rest: Vec<&String> = said.iter().filter(|word| !has(FILLERS, word)).collect();
    if answer.contains('?') || rest.is_empty() {
        return Choice::Unclear;
    }
    if rest.iter().all(|word| has(NONE, word)) {
        return Choice::None;
    }
    if said.iter().any(|word| has(NEGATIONS, word) || has(NONE, word)) {
        return Choice::Unclear;
    }
    let named: Vec<BTreeSet<String>> = names.iter().map(|name| words(name).into_iter().collect()).collect();
    let (mut chosen, mut unknown, mut known) = (BTreeSet::new(), 0, 0);
    for word in rest {
        let by_word: Vec<usize> = (0..names.len()).filter(|nth| named[*nth].contains(word)).collect();
        match (by_word.as_slice(), place(word, names)) {
            ([only], Choice::Option(nth)) => chosen.extend([*only, nth]),
            (_, Choice::Unclear) => return Choice::Unclear,
            ([only], Choice::None) => drop(chosen.insert(*only)),
            ([], Choice::Option(nth)) => drop(chosen.insert(nth)),
            ([], Choice::None) => {
                unknown += 1;
                continue;
            }
            // A word of several names is no choice among them.
            ([_, _, ..], Choice::Option(_) | Choice::None) => (),
        };
        known += 1;
    }
    match (chosen.first(), chosen.len()) {
        (Some(nth), 1) if unknown <= known => Choice::Option(*nth),
        _ => Choice::Unclear,
    }
}

/// Returns the option that an ordinal or a number means.
fn place(word: &str, names: &[String]) -> Choice {
    let is_in = |list: &&str| list.split_whitespace().any(|entry| entry == word);
    let nth = match named_option(names, word) {
        NamedOption::One(nth) if word.bytes().all(|byte| byte.is_ascii_digit()) => Some(nth),
        NamedOption::Several => return Choice::Unclear,
        NamedOption::One(_) | NamedOption::Nothing if is_in(&LAST) => names.len().checked_sub(1),
        NamedOption::One(_) | NamedOption::Nothing => ORDINALS.iter().position(is_in),
    };
    nth.filter(|nth| *nth < names.len()).map_or(Choice::None, Choice::Option)
}

/// Returns the lower-case words of a text. `gift_ideas` and `giftIdeas` are two words.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut split = String::with_capacity(text.len());
    let mut was_small = false;
    for letter in text.chars() {
        if was_small && letter.is_uppercase() {
            split.push(' ');
        }
        was_small = letter.is_lowercase();
        split.extend(letter.to_lowercase());
    }
    split
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Choice {
        choice(&["gift_ideas", "giftWrap", "travel-plan"].map(str::to_owned), answer)
    }

    #[test]
    fn an_option_is_recognized_in_many_forms() {
        for (nth, answers) in [
            ["1", "gift_ideas", "the ideas one please", "The first one.", "gift ideas!", "das erste bitte"],
            ["2.", "GIFTWRAP", "wrap", "I'd like the second", "number 2 please", "la segunda, por favor"],
            ["3", "travel plan", "let's go with the travel one", "the last", "le dernier", "3rd"],
        ]
        .into_iter()
        .enumerate()
        {
            for answer in answers {
                assert_eq!(read(answer), Choice::Option(nth), "{answer}");
            }
        }
    }

    #[test]
    fn a_number_is_a_name_before_it_is_a_place() {
        let read = |names: [&str; 3], answer| choice(&names.map(str::to_owned), answer);
        for answer in ["2", "2.", "number 2 please", "I'd like 2"] {
            assert_eq!(read(["2", "3", "4"], answer), Choice::Option(0), "{answer}");
            assert_eq!(read(["plan_2", "plan_1", "other"], answer), Choice::Unclear, "{answer}");
            assert_eq!(read(["red", "green", "blue"], answer), Choice::Option(1), "{answer}");
        }
        assert_eq!(read(["2", "3", "4"], "1 please"), Choice::Unclear);
        assert_eq!(read(["2", "3", "4"], "the second"), Choice::Option(1));
        assert_eq!(read(["third_party", "other", "same"], "the third"), Choice::Unclear);
    }

    #[test]
    fn none_is_recognized_in_many_forms() {
        for answer in
            ["no", "No, thanks", "none of these", "neither", "without", "keins bitte", "nein", "stop"]
        {
            assert_eq!(read(answer), Choice::None, "{answer}");
        }
    }

    #[test]
    fn doubt_is_no_choice() {
        for answer in [
            "",
            "yes",
            "the gift one",
            "not the first",
            "no, the second one",
            "first or second",
            "the travel one?",
            "4",
            "the ninth",
            "book a room for the travel of my whole family",
            "whatever",
            "wrap the travel",
        ] {
            assert_eq!(read(answer), Choice::Unclear, "{answer}");
        }
    }
}

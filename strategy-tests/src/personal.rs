//! Shapes of personal data: with check digits where a number has some, else after the word that announces it.

use crate::placeholder::Placeholder;

/// A shape of personal data.
pub(crate) struct Shape {
    pub(crate) what: &'static str,
    pub(crate) stands: Placeholder,
    /// The value is the first group, or the whole match.
    pub(crate) shape: &'static str,
    pub(crate) accepts: fn(&str) -> bool,
}

/// Personal data that no rule finds, for people who read the result of a check.
pub const NOT_FOUND: &str = "names that fixture.names does not list, postal addresses and telephone numbers in other forms, numbers of \
                             identity documents of other countries, and whatever images and files show";

const EMAIL: &str = "an email address";
const PHONE: &str = "a telephone number";
const CARD: &str = "the number of a payment card";
const IBAN: &str = "an IBAN";
const ID: &str = "a number of an identity document";
const ADDRESS: &str = "a postal address";
const BORN: &str = "a date of birth";
const NAME: &str = "a person's name";
const CODE: &str = "a PIN or code";

/// Shapes of every kind of personal data.
pub(crate) const SHAPES: &[Shape] = &[
    shape(
        EMAIL,
        Placeholder::Email,
        r"[\p{L}\p{N}][\p{L}\p{N}._%+-]*@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}",
        is_real_domain,
    ),
    shape(PHONE, Placeholder::Phone, r"\+[0-9][0-9 ()./-]{6,18}[0-9]", |text| {
        (8..=15).contains(&digits(text))
    }),
    shape(
        PHONE,
        Placeholder::Phone,
        r#"(?i)(?-u:\b)(?:phone|tel|telephone|telefon|mobile|cell|handy|fax|téléphone|teléfono|móvil)(?:[ _-]?(?:number|nummer|no))?[\s\\"':.#=]{1,8}(?:is )?([(+]?[0-9][0-9 ()./-]{4,18}[0-9])"#,
        |text| (6..=15).contains(&digits(text)),
    ),
    shape(CARD, Placeholder::Card, r"(?-u:\b)[2-6][0-9]{3}(?:[ -]?[0-9]{2,6}){2,4}(?-u:\b)", is_card),
    shape(
        IBAN,
        Placeholder::Iban,
        r"(?-u:\b)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?-u:\b)",
        is_iban,
    ),
    shape(ID, Placeholder::Id, r"(?-u:\b)[0-9]{3}-[0-9]{2}-[0-9]{4}(?-u:\b)", |text| {
        !matches!(&text[..3], "000" | "666") && !text.starts_with('9')
    }),
    shape(
        ID,
        Placeholder::Id,
        r"(?-u:\b)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?-u:\b)",
        any,
    ),
    shape(ID, Placeholder::Id, r"(?-u:\b)[XYZ0-9][0-9]{7}-?[A-Z](?-u:\b)", is_dni),
    shape(
        ID,
        Placeholder::Id,
        r"(?-u:\b)[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z](?-u:\b)",
        any,
    ),
    shape(
        ID,
        Placeholder::Id,
        r"(?-u:\b)[12](?: ?[0-9]{2}){3} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}(?-u:\b)",
        is_nir,
    ),
    shape(ID, Placeholder::Id, r"(?-u:\b)[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}(?-u:\b)", any),
    shape(
        ID,
        Placeholder::Id,
        r#"(?i)(?-u:\b)(?:ssn|social security(?: number)?|passport(?:[ _]?(?:number|no))?|national[ _]id|driver'?s licen[cs]e|tax[ _]id|ausweisnummer|personalausweis|reisepass|steuer-?id|aadhaar)[\s\\"':.#=]{1,8}(?:is )?([A-Z0-9](?:[ -]?[A-Z0-9]){4,18})"#,
        |text| 5 <= digits(text),
    ),
    shape(
        BORN,
        Placeholder::Date,
        r#"(?i)(?-u:\b)(?:born(?: on)?|date[ _]of[ _]birth|birth[ _]?da(?:te|y)|dob|geburtsdatum|geboren(?: am)?|née? le|fecha de nacimiento)[\s\\"':=]{1,8}(?:is )?([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}|[0-9]{1,2}\.? \p{L}+ [0-9]{4}|\p{L}+ [0-9]{1,2},? [0-9]{4})"#,
        any,
    ),
    shape(
        ADDRESS,
        Placeholder::Address,
        r"(?-u:\b)[0-9]{1,5}[a-zA-Z]? (?:\p{Lu}[\p{L}'.-]+ ){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Terrace|Crescent)(?-u:\b)",
        any,
    ),
    shape(
        ADDRESS,
        Placeholder::Address,
        r"(?:\p{Lu}[\p{L}.-]+[ -]){0,2}\p{Lu}?\p{L}*(?:straße|strasse|Straße|Strasse|str\.|Str\.|weg|Weg|allee|Allee|platz|Platz|gasse|Gasse) [0-9]{1,4}[a-z]?(?-u:\b)",
        any,
    ),
    shape(
        ADDRESS,
        Placeholder::Address,
        r"(?i)(?-u:\b)[0-9]{1,4},? (?:bis |ter )?(?:rue|avenue|boulevard|chemin|impasse|quai) (?:d[eu] |des |de la |de l')?\p{Lu}[\p{L}'-]+(?: \p{Lu}[\p{L}'-]+)*",
        any,
    ),
    shape(
        ADDRESS,
        Placeholder::Address,
        r"(?-u:\b)(?:[Cc]alle|[Aa]venida|[Pp]aseo|[Pp]laza) (?:de (?:la |los )?)?\p{Lu}[\p{L}]+(?: \p{Lu}[\p{L}]+)*,? [0-9]{1,4}(?-u:\b)",
        any,
    ),
    shape(
        CODE,
        Placeholder::Secret,
        r#"(?i)(?-u:\b)(?:pin|otp|passcode|cvv|cvc|verification code|security code)[\s\\"':=]{1,8}(?:is )?([0-9]{3,8})(?-u:\b)"#,
        any,
    ),
];

/// Names of fields that hold personal data, without marks and in lower case.
const FIELDS: &[(&str, &str, Placeholder)] = &[
    ("email", EMAIL, Placeholder::Email),
    ("phone", PHONE, Placeholder::Phone),
    ("phonenumber", PHONE, Placeholder::Phone),
    ("telephone", PHONE, Placeholder::Phone),
    ("mobile", PHONE, Placeholder::Phone),
    ("cardnumber", CARD, Placeholder::Card),
    ("iban", IBAN, Placeholder::Iban),
    ("ssn", ID, Placeholder::Id),
    ("passportnumber", ID, Placeholder::Id),
    ("taxid", ID, Placeholder::Id),
    ("street", ADDRESS, Placeholder::Address),
    ("streetaddress", ADDRESS, Placeholder::Address),
    ("dateofbirth", BORN, Placeholder::Date),
    ("birthdate", BORN, Placeholder::Date),
    ("dob", BORN, Placeholder::Date),
    ("firstname", NAME, Placeholder::Name),
    ("lastname", NAME, Placeholder::Name),
    ("fullname", NAME, Placeholder::Name),
    ("surname", NAME, Placeholder::Name),
    ("familyname", NAME, Placeholder::Name),
    ("givenname", NAME, Placeholder::Name),
];

/// Shape of a listed name, in any letter case.
pub(crate) fn of_name(name: &str) -> (&'static str, Placeholder, String) {
    (NAME, Placeholder::Name, format!(r"(?i)\b{}\b", regex::escape(name)))
}

/// The kind of what a field of this name holds, if it is personal.
pub(crate) fn of_field(name: &str, value: &str) -> Option<(&'static str, Placeholder)> {
    let plain = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let (_, what, stands) = FIELDS.iter().find(|(field, ..)| *field == plain)?;
    (*stands != Placeholder::Email || is_real_domain(value)).then_some((*what, *stands))
}

const fn shape(
    what: &'static str,
    stands: Placeholder,
    shape: &'static str,
    accepts: fn(&str) -> bool,
) -> Shape {
    Shape { what, stands, shape, accepts }
}

fn any(_: &str) -> bool {
    true
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

/// Domains that RFC 2606 reserves for examples are no one's.
fn is_real_domain(address: &str) -> bool {
    let domain = address.rsplit('@').next().unwrap_or_default().to_lowercase();
    let reserved = ["example.com", "example.net", "example.org", "example", "test", "invalid", "localhost"];
    !reserved.iter().any(|end| domain == *end || domain.ends_with(&format!(".{end}")))
}

/// Checks the length and the check digit (Luhn) of a card number.
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(10)).collect();
    let weighed = digits.iter().rev().enumerate().map(|(place, digit)| match (place % 2, digit * 2) {
        (0, _) => *digit,
        (_, double) => double / 10 + double % 10,
    });
    (14..=19).contains(&digits.len()) && weighed.sum::<u32>() % 10 == 0
}

/// Checks the check digits of an IBAN: ISO 13616, modulo 97.
fn is_iban(text: &str) -> bool {
    let letters: String = text.chars().filter(|letter| *letter != ' ').collect();
    let (head, rest) = letters.split_at(4);
    let remainder =
        rest.chars().chain(head.chars()).filter_map(|letter| letter.to_digit(36)).fold(0, |sum, digit| {
            let sum = if 9 < digit { sum * 100 } else { sum * 10 };
            (sum + digit) % 97
        });
    (15..=34).contains(&letters.len()) && remainder == 1
}

/// Checks the letter of a Spanish DNI or NIE.
fn is_dni(text: &str) -> bool {
    let (Some(first), Some(letter)) = (text.chars().next(), text.chars().next_back()) else { return false };
    let first = match first {
        'X' => '0',
        'Y' => '1',
        'Z' => '2',
        digit => digit,
    };
    let rest: String = text[1..].chars().filter(char::is_ascii_digit).collect();
    let number = format!("{first}{rest}").parse::<usize>().unwrap_or_default();
    "TRWAGMYFPDXBNJZSQVHLCKE".chars().nth(number % 23) == Some(letter)
}

/// Checks the key of a French social security number.
fn is_nir(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let Some((number, key)) = digits.split_at_checked(13) else { return false };
    match (number.parse::<u64>(), key.parse::<u64>()) {
        (Ok(number), Ok(key)) => 97 - number % 97 == key,
        _ => false,
    }
}

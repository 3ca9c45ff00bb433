//! Phrases by which people say yes, no, stop or change, in English, German, French and Spanish.
//!
//! A phrase is lower case, its words are separated by single spaces, and it has no hyphens or other punctuation.
//! Variants without accents are entries of their own, because the reader never removes an accent.

/// Meaning of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Yes,
    No,
    /// A no that reverses what stands beside it: “don't stop”.
    Not,
    /// The person wants to end the work. Means this in the answer to an open question too.
    Drop,
    /// The person wants to end the work, unless the question was open: “cancel” may then be the value that was asked for.
    Stop,
    Change,
    /// Politeness, and words for the subject of the question.
    Filler,
}

/// Maximum number of words of a phrase.
pub(super) const WORDS_MAX: usize = 6;

/// All phrases by meaning.
pub(super) const PHRASES: &[(Tag, &[&str])] = &[
    (Tag::Yes, YES),
    (Tag::No, NO),
    (Tag::Not, NOT),
    (Tag::Drop, DROP),
    (Tag::Stop, STOP),
    (Tag::Change, CHANGE),
    (Tag::Filler, FILLER),
];

#[rustfmt::skip]
const YES: &[&str] = &[
    // English
    "yes", "y", "yep", "yup", "yeah", "yea", "aye", "ok", "okay", "sure", "sure thing", "of course", "certainly",
    "absolutely", "definitely", "go", "go ahead", "go for it", "go on", "let's go", "do it", "do that", "do so",
    "please do", "proceed", "continue", "carry on", "carry it out", "run it", "execute", "execute it", "confirm",
    "confirmed", "i confirm", "approve", "approved", "i approve", "agree", "agreed", "i agree", "accept", "accepted",
    "i accept", "sounds good", "that sounds good", "looks good", "that looks good", "looks good to me",
    "sounds good to me", "that works", "works for me", "lgtm", "alright", "all right", "affirmative",
    // German
    "ja", "jawohl", "jo", "klar", "na klar", "alles klar", "gerne", "sehr gerne", "in ordnung", "geht klar",
    "einverstanden", "genehmigt", "bestätigt", "bestaetigt", "ich bestätige", "ich bestaetige", "mach das", "mach es",
    "mach mal", "mach weiter", "machen sie das", "tu das", "tu es", "los", "los geht's", "leg los", "legen sie los",
    "nur zu", "ausführen", "ausfuehren", "fortfahren", "weiter", "weiter so", "passt", "passt so", "das passt",
    "selbstverständlich", "selbstverstaendlich", "natürlich", "natuerlich", "so machen", "so machen wir es",
    // French
    "oui", "ouais", "d'accord", "daccord", "je suis d'accord", "vas y", "allez y", "allons y", "bien sûr", "bien sur",
    "entendu", "ça marche", "ca marche", "ça me va", "ca me va", "c'est bon", "ok pour moi", "je confirme", "confirmé",
    "confirme", "j'approuve", "approuvé", "j'accepte", "accepté", "fais le", "faites le", "continuez",
    "avec plaisir", "volontiers", "certainement", "absolument",
    // Spanish
    "sí", "si", "claro", "claro que sí", "claro que si", "vale", "de acuerdo", "estoy de acuerdo", "adelante", "dale",
    "hazlo", "hágalo", "hagalo", "por supuesto", "desde luego", "confirmo", "confirmado", "apruebo", "aprobado",
    "acepto", "aceptado", "continúa", "continua", "continúe", "procede", "proceda", "está bien", "esta bien",
    "me parece bien",
    // Signs
    "👍", "✅", "✔", "✔\u{fe0f}",
];

#[rustfmt::skip]
const NO: &[&str] = &[
    // English
    "no", "n", "nope", "nah", "no way", "no thanks", "no thank you", "not now", "not yet", "not today", "not really",
    "of course not", "certainly not", "absolutely not", "definitely not", "rather not", "i'd rather not",
    "do not do it", "do not do that", "don't do it", "don't do that", "please don't", "reject", "rejected", "i reject",
    "decline", "declined", "i decline", "refuse", "refused", "i refuse", "deny", "denied", "disagree", "i disagree",
    "not approved", "not ok", "not okay", "negative", "no go",
    // German
    "nein", "nee", "nö", "ne", "auf keinen fall", "nein danke", "lieber nicht", "bitte nicht", "jetzt nicht",
    "noch nicht", "heute nicht", "natürlich nicht", "klar nicht", "niemals", "nie", "keinesfalls", "abgelehnt",
    "ablehnen", "ich lehne ab", "mach das nicht", "mach es nicht", "tu das nicht", "tu es nicht", "nicht ausführen",
    "nicht einverstanden",
    // French
    "non", "non merci", "surtout pas", "pas du tout", "pas maintenant", "pas encore", "pas d'accord",
    "je ne suis pas d'accord", "pas question", "jamais", "bien sûr que non", "je refuse", "refusé",
    "ne le fais pas", "ne fais pas ça", "ne le faites pas",
    // Spanish
    "no gracias", "para nada", "ahora no", "todavía no", "todavia no", "aún no", "aun no", "de ninguna manera",
    "ni hablar", "claro que no", "por supuesto que no", "mejor no", "nunca", "jamás", "no lo hagas", "no lo haga",
    "no estoy de acuerdo", "rechazo", "rechazado", "lo rechazo",
    // Signs
    "👎", "❌",
];

#[rustfmt::skip]
const NOT: &[&str] = &["don't", "dont", "do not", "not", "never", "nicht", "kein", "keine", "pas", "ne pas"];

#[rustfmt::skip]
const DROP: &[&str] = &[
    // English
    "stop", "stop it", "stop this", "stop that", "please stop", "forget it", "forget that", "forget this",
    "forget about it", "forget the whole thing", "never mind", "nevermind", "nvm", "leave it", "leave it be",
    "drop it", "drop that", "let it go", "scrap it", "scrap that", "skip the whole thing", "i changed my mind",
    "i've changed my mind", "changed my mind", "no longer needed", "i don't need it anymore",
    "i don't want it anymore", "i don't want that anymore", "stop everything",
    // German
    "stopp", "vergiss es", "vergiss das", "vergessen sie es", "vergessen sie das", "lass es", "lass das", "lass gut sein",
    "lass es gut sein", "lassen sie es", "lassen wir das", "schon gut", "hör auf", "hoer auf", "hören sie auf",
    "ich habe es mir anders überlegt", "ich hab's mir anders überlegt", "hat sich erledigt", "das hat sich erledigt",
    "nicht mehr nötig", "ich will es nicht mehr", "ich will das nicht mehr",
    // French
    "laisse tomber", "laissez tomber", "oublie", "oublie ça", "oublie ca", "oubliez", "oubliez ça", "laisse",
    "laisse ça", "arrête", "arrete", "arrête ça", "arrêtez", "arretez", "tant pis", "j'ai changé d'avis",
    "je ne veux plus", "je n'en veux plus", "ce n'est plus la peine",
    // Spanish
    "olvídalo", "olvidalo", "olvídelo", "olvidelo", "olvídate", "olvidate", "déjalo", "dejalo", "déjelo", "dejelo",
    "déjalo estar", "para ya", "detente", "deténgase", "basta", "basta ya", "ya no", "ya no lo quiero",
    "ya no hace falta", "he cambiado de opinión", "he cambiado de opinion", "cambié de opinión", "cambié de idea",
    // Signs
    "🛑",
];

#[rustfmt::skip]
const STOP: &[&str] = &[
    // English
    "cancel", "cancel it", "cancel that", "cancel everything", "abort", "abort it", "quit", "exit", "halt", "end", "end it",
    "enough", "that's enough", "no more",
    // German
    "abbrechen", "abbruch", "brich ab", "brich es ab", "brechen sie ab", "aufhören", "aufhoeren", "schluss", "ende",
    "beenden", "stornieren", "genug", "das reicht",
    // French
    "annule", "annule ça", "annuler", "annulez", "annulez ça", "stoppe", "stoppez", "arrêter", "fin", "ça suffit",
    // Spanish
    "cancela", "cancelar", "cancélalo", "cancelalo", "cancele", "cancélelo", "para", "parar", "pare", "detener",
    "anular", "termina", "terminar", "es suficiente",
];

#[rustfmt::skip]
const CHANGE: &[&str] = &[
    // English
    "change", "change it", "change that", "change this", "change something", "edit", "edit it", "modify", "modify it",
    "adjust", "adjust it", "revise", "something else", "differently", "not like this", "not like that",
    "i want to change it", "i want to change something", "i'd like to change it", "i'd like to change something",
    "make a change", "make changes",
    // German
    "ändern", "aendern", "ändere es", "ändere das", "bitte ändern", "etwas ändern", "änderung", "änderungen",
    "anpassen", "anders", "etwas anderes", "so nicht", "nicht so", "ich möchte etwas ändern", "ich will etwas ändern",
    // French
    "changer", "change ça", "change ca", "changez", "modifier", "modifie", "modifie le", "modifiez", "modification",
    "autrement", "autre chose", "pas comme ça", "pas comme ca", "je veux changer quelque chose",
    "je voudrais changer quelque chose",
    // Spanish
    "cambiar", "cambia", "cámbialo", "cambialo", "cambie", "cámbielo", "modificar", "modifica", "modifícalo",
    "modificalo", "otra cosa", "de otra manera", "así no", "asi no", "quiero cambiar algo", "quisiera cambiar algo",
];

#[rustfmt::skip]
const FILLER: &[&str] = &[
    // English
    "please", "pls", "thanks", "thank you", "thanks a lot", "thank you very much", "it", "that", "this", "them",
    "the plan", "this plan", "with it", "with that", "with this", "with the plan", "all of it", "all of them", "all",
    "everything", "now", "then", "oh", "well", "hi", "hello",
    // German
    "bitte", "danke", "vielen dank", "danke schön", "den plan", "diesen plan", "das", "es", "alles", "jetzt", "dann",
    "doch", "also", "ach",
    // French
    "merci", "merci beaucoup", "s'il te plaît", "s'il te plait", "s'il vous plaît", "s'il vous plait", "svp", "stp",
    "le plan", "ce plan", "ça", "tout", "maintenant", "alors",
    // Spanish
    "por favor", "gracias", "muchas gracias", "el plan", "este plan", "eso", "esto", "todo", "ahora", "entonces",
    "pues",
];

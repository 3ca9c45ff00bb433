/** Makes characters visible that would be invisible or would reorder their line. The same rules as `shared::printable`. */

/** Characters without a shape of their own, and those that change the order of a line. */
const HIDDEN =
  /[\p{Cc}\u{ad}\u{34f}\u{61c}\u{115f}-\u{1160}\u{17b4}-\u{17b5}\u{180b}-\u{180f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{2800}\u{3164}\u{fe00}-\u{fe0f}\u{feff}\u{ffa0}\u{fff0}-\u{fffb}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{d800}-\u{dfff}\u{e000}-\u{f8ff}\u{e0000}-\u{10ffff}\u{1680}]/u;

const PLAIN = /^[ -~\n\t]*$/;

export function printable(text: string): string {
  if (PLAIN.test(text)) return text;
  const letters = Array.from(text);
  let out = "";
  letters.forEach((letter, nth) => {
    const isShown = letter === "\n" || letter === "\t" || !HIDDEN.test(letter) || joins(letters, nth);
    out += isShown ? letter : escaped(letter);
  });
  return out;
}

/** Applies `printable` to every string of a JSON value, including names of fields. */
export function printableJson(value: unknown): unknown {
  if (typeof value === "string") return printable(value);
  if (Array.isArray(value)) return value.map(printableJson);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, it]) => [printable(name), printableJson(it)]));
}

/** Parses JSON for display. Most replies have only plain characters, which needs no second pass. */
export function parsePrintable(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return PLAIN.test(text) && !/\\[ubfr]/.test(text) ? value : printableJson(value);
}

function escaped(letter: string): string {
  if (letter === "\r") return "\\r";
  const units = Array.from({ length: letter.length }, (_, nth) => letter.charCodeAt(nth));
  return units.map((it) => `\\u${it.toString(16).padStart(4, "0")}`).join("");
}

/** Reports whether an invisible character joins its neighbours as writing requires: within an emoji, or between joined letters. */
function joins(letters: string[], nth: number): boolean {
  const [before, after] = [letters[nth - 1], letters[nth + 1]];
  const isSymbol = (it?: string) =>
    it !== undefined && "\u2190" <= it && !/[\p{L}\p{N}\p{M}]/u.test(it) && !HIDDEN.test(it);
  const isJoined = (it?: string) => it !== undefined && /[\u0600-\u06ff\u0900-\u0dff]/.test(it);
  switch (letters[nth]) {
    case "\ufe0f":
      return isSymbol(before);
    case "\u200d":
      return ((isSymbol(before) || before === "\ufe0f") && isSymbol(after)) || (isJoined(before) && isJoined(after));
    case "\u200c":
      return isJoined(before) && isJoined(after);
    default:
      return false;
  }
}

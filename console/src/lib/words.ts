/** Words of two texts that differ. Clocks and ids differ in every run, so they count as equal. */

export interface Piece {
  text: string;
  isSame: boolean;
}

/** Differences above which two texts are shown as entirely different; it bounds the time and memory of the search. */
const MAX_EDITS = 1_000;
/** Equal characters between two differences, and at both ends, above which their middle is folded. */
const MAX_EQUAL = 240;
const SHOWN = 80;

const BLANK = String.raw`\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\d{1,2}:\d\d:\d\d(?:\.\d+)?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-z])[0-9a-f]{16,}(?![0-9a-z])`;
const BLANKS = new RegExp(BLANK, "g");
const IS_BLANK = new RegExp(`^(?:${BLANK})$`);
const TOKENS = new RegExp(String.raw`${BLANK}|\s+|[\p{L}\p{N}\p{M}_]+|.`, "gsu");

/** The text with all clocks and ids blanked. */
export const blanked = (text: string): string => text.replaceAll(BLANKS, "…");

/** Both texts as pieces. */
export function words(left: string, right: string): [Piece[], Piece[]] {
  const [a, b] = [left.match(TOKENS) ?? [], right.match(TOKENS) ?? []];
  const key = (token: string) => (IS_BLANK.test(token) ? "…" : token);
  const same = matches(a.map(key), b.map(key));
  const pieces = (tokens: string[], side: 0 | 1) => {
    const kept = new Set(same.map((it) => it[side]));
    return joined(tokens.map((text, nth) => ({ text, isSame: kept.has(nth) })));
  };
  return [pieces(a, 0), pieces(b, 1)];
}

/** Neighbours of one kind as one piece. */
function joined(tokens: Piece[]): Piece[] {
  const pieces: Piece[] = [];
  for (const token of tokens) {
    const last = pieces.at(-1);
    if (last?.isSame === token.isSame) last.text += token.text;
    else pieces.push({ ...token });
  }
  return pieces;
}

/** The beginning, the folded middle, and the end of an equal piece; the middle is empty unless the piece is long. */
export function folded(piece: Piece, nth: number, count: number): [string, string, string] {
  const text = piece.text;
  if (!piece.isSame || text.length <= MAX_EQUAL) return [text, "", ""];
  const [head, tail] = [nth ? SHOWN : 0, nth + 1 < count ? SHOWN : 0];
  const [from, to] = [
    head ? text.indexOf(" ", head) : 0,
    tail ? text.lastIndexOf(" ", text.length - tail) : text.length,
  ];
  if (from < 0 || to <= from) return [text, "", ""];
  return [text.slice(0, from), text.slice(from, to), text.slice(to)];
}

export type Match = [number, number];

/** Positions of a longest common subsequence, by the algorithm of Myers between equal beginnings and ends. */
export function matches(a: string[], b: string[]): Match[] {
  let [head, tail] = [0, 0];
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head += 1;
  const rest = Math.min(a.length, b.length) - head;
  while (tail < rest && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = common(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [
    ...Array.from({ length: head }, (_, nth): Match => [nth, nth]),
    ...middle.map(([x, y]): Match => [x + head, y + head]),
    ...Array.from({ length: tail }, (_, nth): Match => [a.length - tail + nth, b.length - tail + nth]),
  ];
}

function common(a: string[], b: string[]): Match[] {
  const most = Math.min(a.length + b.length, MAX_EDITS);
  const furthest = new Int32Array(2 * most + 2);
  const steps: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    steps.push(furthest.slice(most - edits, most + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const isDown = k === -edits || (k !== edits && furthest[most + k - 1] < furthest[most + k + 1]);
      let x = isDown ? furthest[most + k + 1] : furthest[most + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest[most + k] = x;
      if (a.length <= x && b.length <= x - k) return path(a.length, b.length, steps);
    }
  }
  return [];
}

/** Walks back from the ends of both texts. `steps` are the furthest positions before each edit. */
function path(n: number, m: number, steps: Int32Array[]): Match[] {
  const found: Match[] = [];
  let [x, y] = [n, m];
  for (let edits = steps.length - 1; 0 <= edits; edits -= 1) {
    const at = (k: number) => steps[edits][k + edits];
    const k = x - y;
    const isDown = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const before = isDown ? k + 1 : k - 1;
    const [fromX, fromY] = edits ? [at(before), at(before) - before] : [0, 0];
    while (fromX < x && fromY < y) found.push([(x -= 1), (y -= 1)]);
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

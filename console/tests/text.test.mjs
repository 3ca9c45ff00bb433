/** Text that a reader would not see as it is: controls, reordering, no width. The same corpus as the command line's. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Page } from "./harness.mjs";
import { setUpWith } from "./sources.mjs";

const HARMFUL =
  /(?![\n\t])[\p{Cc}\u{ad}\u{61c}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e007f}]/u;
const letters = Array.from({ length: 0xe0080 }, (_, nth) => nth + 1).filter((it) => it < 0xd800 || 0xdfff < it);
const single = letters
  .map((it) => String.fromCodePoint(it))
  .filter((it) => HARMFUL.test(it))
  .map((it) => `pay ${it}9000 EUR`);
const sequences = [
  "\u{1b}[8mand wire\u{1b}[0m",
  "\u{1b}[2J\u{1b}[H",
  "\u{1b}]0;title\u{7}",
  "\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\",
  "\u{9b}31mred",
  "\u{1b}c",
  "yes\u{8}\u{8}\u{8}no",
  "line\r  over",
  "\u{202e}txt.exe",
  "a\u{2066}b\u{2069}",
  "\u{1b}[200~paste\u{1b}[201~",
];
const corpus = [...single, ...sequences];

let engine, browser, shown;
setUpWith("lib/printable.ts", (it) => ({ engine, browser, lib: shown } = it));

test("hidden characters become escapes, and ordinary text stays", () => {
  assert.ok(200 <= corpus.length, String(corpus.length));
  for (const text of corpus) assert.ok(!HARMFUL.test(shown.printable(text)), JSON.stringify(text));
  for (const [text, expected] of [
    [
      "plain, naïve, Ärger, привет, Ωμέγα, 東京, हिन्दी\n\tline",
      "plain, naïve, Ärger, привет, Ωμέγα, 東京, हिन्दी\n\tline",
    ],
    ["\u{1b}[2Jred\u{7f}\u{9b}31m", "\\u001b[2Jred\\u007f\\u009b31m"],
    ["a\u{202e}txt.exe\u{2066}", "a\\u202etxt.exe\\u2066"],
    ["in\u{200b}visible\u{feff}\u{ad}", "in\\u200bvisible\\ufeff\\u00ad"],
    ["a\u{a0}b\u{3000}c\u{202f}d", "a\u{a0}b\u{3000}c\u{202f}d"],
    ["tag\u{e0041}", "tag\\udb40\\udc41"],
    ["👩\u{200d}💻 ❤\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f}"],
    ["x\u{200d}y\u{fe0f}", "x\\u200dy\\ufe0f"],
    ["می\u{200c}خواهم", "می\u{200c}خواهم"],
    ["\r\u{8}", "\\r\\u0008"],
  ]) {
    assert.equal(shown.printable(text), expected);
  }
});

test("JSON becomes printable, names of fields included", () => {
  assert.deepEqual(shown.parsePrintable('{"a\\u202eb": ["x\\u200by", 1, null]}'), {
    "a\\u202eb": ["x\\u200by", 1, null],
  });
  assert.deepEqual(shown.parsePrintable('{"a": "\u{202e}"}'), { a: "\\u202e" });
});

test("no view shows hidden characters, and right-to-left text keeps its direction", { timeout: 300_000 }, async () => {
  const hostile = corpus.join(" ").replaceAll(/[;|]/g, ":").replaceAll("\u{0}", "");
  const echoed = await engine.turn("probe", `stream ${hostile}`);
  const asked = await engine.turn("probe", `ask ${hostile}? | \u{202e}a | b`);
  const failed = await engine.turn("probe", `fail ${hostile}`);
  const arabic = await engine.turn("probe", "stream مرحبا بالعالم");
  const page = await Page.open(browser, engine);
  const paths = ["", "turns", "threads", "inbox", "queue"];
  for (const turn of [echoed, asked, failed])
    paths.push(...["timeline", "state", "why", "map"].map((tab) => `threads/${turn.thread_id}?tab=${tab}`));
  paths.push(`threads/${echoed.thread_id}/diff/${failed.thread_id}`);
  for (const path of paths) {
    await page.view(path, "turnfold");
    await page.settled();
    const text = await page.tab.evaluate(() => document.body.textContent);
    const found = HARMFUL.exec(text);
    assert.equal(found, null, `${path}: ${found && JSON.stringify(text.slice(found.index - 40, found.index + 40))}`);
    assert.deepEqual(await page.faults(`hostile-${paths.indexOf(path)}`), []);
  }
  await page.view(`threads/${echoed.thread_id}`, "\\u202e");
  await page.view(`threads/${arabic.thread_id}`, "مرحبا");
  const direction = await page.tab
    .getByText("مرحبا بالعالم", { exact: true })
    .first()
    .evaluate((it) => getComputedStyle(it).direction);
  assert.equal(direction, "rtl");
  await page.close();
});

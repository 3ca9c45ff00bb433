/** The page agrees with the rest of turnfold: its types with the API, its commands with the command line. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { Page, setUp, TURNFOLD } from "./harness.mjs";
import { newFolder } from "./processes.mjs";

const run = promisify(execFile);
let engine, browser;
setUp((it) => ({ engine, browser } = it));

test("the types are those of the API", { timeout: 120_000 }, async () => {
  const file = join(newFolder("types"), "api.d.ts");
  await run("npx", ["openapi-typescript", `${engine.url}/openapi.json`, "-o", file]);
  const isSame = readFileSync(file, "utf8") === readFileSync("src/api.d.ts", "utf8");
  assert.ok(
    isSame,
    "src/api.d.ts is not of this API; hint: start an API and run `TURNFOLD_URL=… npm run types`, then `npm run check`",
  );
});

/** Commands that only read. All others that a view offers are listed in `ACTS`. */
const READS =
  /^turnfold (--url \S+ )?(turn list|turn redrive .* --dry-run|thread (list|show|events|state|why|cost|diff|verify|replay|export)|inbox list|batch (list|show|results)|strategy (list|show)|queue (list|pause --help)|stats)\b/;
const ACTS = /^turnfold --url \S+ (inbox answer|model forget|batch submit|batch resume|turn send|thread fork)\b/;

test("the copied commands are commands, and show what the page shows", { timeout: 300_000 }, async () => {
  const failed = await engine.turn("probe", "fail out of paper");
  const asked = await engine.turn("probe", "ask Which colour? | red | green");
  const paths = [
    "",
    "turns?status=failed&where=age+%3C+1d",
    "threads?status=error",
    "inbox",
    "batches",
    "strategies",
    "strategies/probe",
    "queue",
    "playground",
  ];
  for (const turn of [failed, asked])
    paths.push(...["timeline", "state", "why", "usage"].map((tab) => `threads/${turn.thread_id}?tab=${tab}&at=2`));
  paths.push(`threads/${failed.thread_id}/diff/${asked.thread_id}`);
  const page = await Page.open(browser, engine);
  const commands = new Set();
  for (const path of paths) {
    await page.view(path, "turnfold");
    await page.tab.locator("main button[title^=turnfold]").first().waitFor();
    await page.settled();
    const shown = await page.tab.locator("button[title^=turnfold]").evaluateAll((all) => all.map((it) => it.title));
    for (const it of shown) commands.add(it);
  }
  await page.button("Copy command").click();
  await page.sees("Copied: turnfold");
  assert.ok(15 < commands.size, [...commands].join("\n"));
  for (const command of commands) {
    if (ACTS.test(command)) continue;
    assert.match(command, READS);
    const shell = ["-c", command.replace(/^turnfold/, '"$TURNFOLD"')];
    const code = await run("sh", shell, { cwd: engine.folder, env: { ...process.env, TURNFOLD } }).then(
      () => 0,
      (error) => (error.code === 1 ? 0 : `${error.code}: ${error.stderr}`),
    );
    assert.equal(code, 0, command);
  }
  await page.close();
});

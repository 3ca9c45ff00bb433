/** An API with keys: the page asks for one, and shows nothing that the key does not permit. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Engine, openBrowser, Page } from "./harness.mjs";

let engine, browser;
const config = '[api]\nkeys = ["env:OPERATOR"]\n\n[tenants.acme]\nkeys = ["env:ACME"]\n';

before(async () => {
  [engine, browser] = await Promise.all([
    Engine.start({ config, env: { OPERATOR: "operator-key-1", ACME: "acme-key-1" } }),
    openBrowser(),
  ]);
});

after(async () => {
  await browser.close();
  await engine.stop();
});

async function signIn(page, key, remember = false) {
  await page.tab.getByLabel("API key").fill(key);
  await page.tab.getByLabel("Your name").fill("Zoë");
  if (remember) await page.tab.getByLabel("Remember in this tab").check();
  await page.button("Sign in").click();
}

test("a wrong key is refused, the right one opens the page and signs the log", { timeout: 120_000 }, async () => {
  const page = await Page.open(browser, engine);
  await page.view("playground", "The API requires a key.");
  assert.deepEqual(
    (await page.faults("sign-in")).filter((it) => !it.includes("401")),
    [],
  );
  await signIn(page, "wrong");
  await page.sees("does not accept this key");
  await signIn(page, "operator-key-1");
  await page.sees("Nothing sent yet");
  await page.tab.getByLabel("Message", { exact: true }).fill("echo hello");
  await page.button("Send").click();
  await page.sees("hello");
  const { data } = await engine.api("GET", "/v1/turns?limit=1", undefined, { authorization: "Bearer operator-key-1" });
  assert.equal(data[0].author, "Zoë");
  const stored = await page.tab.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  assert.ok(!stored.includes("operator-key-1"), "the key is kept in memory");
  await page.tab.reload();
  await page.sees("The API requires a key.");
  await signIn(page, "operator-key-1", true);
  await page.sees("hello");
  await page.tab.reload();
  await page.sees("hello");
  assert.deepEqual(
    page.problems.filter((it) => !it.includes("401")),
    [],
  );
  await page.close();
});

test("what a tenant's key does not permit is said, and its button disappears", { timeout: 120_000 }, async () => {
  const page = await Page.open(browser, engine);
  await page.view("queue", "The API requires a key.");
  await signIn(page, "acme-key-1");
  await page.sees("Why turns wait");
  await page.tab.getByLabel("Name", { exact: true }).fill("planner");
  await page.button("Pause").click();
  await page.sees("not permitted: a tenant can pause only itself");
  assert.equal(await page.tab.getByRole("button", { name: "Pause", exact: true }).count(), 0);
  assert.deepEqual(
    page.problems.filter((it) => !/40[13]/.test(it)),
    [],
  );
  await page.close();
});

/** An API with keys: the page asks for one, and shows nothing that the key does not permit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, Page, setUp } from "./harness.mjs";

let engine, browser;
const config = '[api]\nkeys = ["env:OPERATOR"]\n\n[tenants.acme]\nkeys = ["env:ACME"]\n';
const env = { OPERATOR: "operator-key-1", ACME: "acme-key-1" };
setUp((it) => ({ engine, browser } = it), { config, env });

async function signIn(page, key) {
  await page.tab.getByLabel("API key").fill(key);
  await page.tab.getByLabel("Your name").fill("Zoë");
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
  assert.equal(await page.tab.getByRole("button", { name: /Zoë|Signed in/ }).count(), 0, "nobody is signed in");
  await signIn(page, "operator-key-1");
  await page.sees("Nothing sent yet");
  await page.tab.getByLabel("Message", { exact: true }).fill("echo hello");
  await page.button("Send").click();
  await page.sees("hello");
  const { data } = await engine.api("GET", "/v1/turns?limit=1", undefined, { authorization: "Bearer operator-key-1" });
  assert.equal(data[0].author, "Zoë");
  const readable = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])";
  assert.ok(!(await page.tab.evaluate(readable)).includes("key"), "no script can read the key");
  const [cookie] = await page.tab.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/v1"]);
  assert.ok(!cookie.value.includes("operator"), "the cookie is sealed");
  await page.tab.reload();
  await page.sees("hello");
  const other = await page.tab.context().newPage();
  await other.goto(`${engine.url}/#/turns`);
  await other.getByText("hello").first().waitFor();
  await other.close();
  await page.tab.getByRole("button", { name: "Zoë" }).click();
  await page.button("Sign out").click();
  await page.sees("The API requires a key.");
  await page.tab.reload();
  await page.sees("The API requires a key.");
  assert.deepEqual(
    page.problems.filter((it) => !it.includes("401")),
    [],
  );
  await page.close();
});

test("another tab of the browser takes over the name and the session", { timeout: 120_000 }, async () => {
  const page = await Page.open(browser, engine);
  await page.view("playground", "The API requires a key.");
  await signIn(page, "operator-key-1");
  await page.sees("Nothing sent yet");
  const other = await page.tab.context().newPage();
  await other.goto(`${engine.url}/#/playground`);
  await other.getByText("Nothing sent yet").waitFor();
  await page.button("Zoë").click();
  await page.tab.getByLabel("Your name").fill("Ann");
  await page.tab.locator("dialog").getByRole("button", { name: "Save" }).click();
  await other.getByRole("button", { name: "Ann", exact: true }).waitFor();
  await page.button("Ann").click();
  await page.button("Sign out").click();
  await other.getByText("The API requires a key.").waitFor();
  await page.close();
});

test("what an earlier key was shown is gone with it", { timeout: 120_000 }, async () => {
  const authorization = "Bearer operator-key-1";
  const turn = { strategy: "probe", input: "echo of the operator" };
  await engine.api("POST", "/v1/turns?wait=30", turn, { authorization });
  const page = await Page.open(browser, engine);
  await page.view("turns", "The API requires a key.");
  await signIn(page, "operator-key-1");
  await page.sees("of the operator");
  await page.tab.getByRole("button", { name: "Zoë" }).click();
  let release;
  const held = new Promise((done) => (release = done));
  await page.tab.route(/\/v1\/turns/, async (route) => (await held, route.continue()));
  await page.tab.getByLabel("Tenant to act as").fill("acme");
  await page.button("Save").click();
  await page.gone("of the operator");
  release();
  await page.sees("No turns yet");
  await page.close();
});

test("a tenant may pause itself and nothing else", { timeout: 120_000 }, async () => {
  const page = await Page.open(browser, engine);
  await page.view("queue", "The API requires a key.");
  await signIn(page, "acme-key-1");
  await page.sees("Why turns wait");
  await page.tab.getByLabel("Name", { exact: true }).fill("planner");
  await page.button("Pause").click();
  await page.sees("a tenant can pause only itself");
  // Its own pause is still possible.
  await becomes(() => page.button("Pause").isEnabled(), true);
  assert.deepEqual(
    page.problems.filter((it) => !/40[13]/.test(it)),
    [],
  );
  await page.close();
});

test("a reader's key has no button that would be refused", { timeout: 120_000 }, async () => {
  const authorization = "Bearer operator-key-1";
  const reader = { name: "auditor", scopes: ["read"] };
  const { key } = await engine.api("POST", "/v1/keys", reader, { authorization });
  const turn = { strategy: "probe", input: "ask Which colour? | red | green" };
  const { thread_id } = await engine.api("POST", "/v1/turns?wait=30", turn, { authorization });
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread_id}`, "The API requires a key.");
  await signIn(page, key);
  await page.sees("Which colour?");
  await page.tab.getByRole("button", { name: "Fork", exact: true }).and(page.tab.locator("[disabled]")).waitFor();
  assert.ok(await page.button("Verify").isEnabled());
  assert.equal(await page.button("Fork").getAttribute("title"), "The key lacks the scope submit");
  for (const path of [`threads/${thread_id}`, "inbox", "queue", "batches", "playground"]) {
    await page.tab.goto(`${engine.url}/#/${path}`);
    await page.settled();
    const names = /^(Send|Retry|Cancel|Fork|Pause|Resume|Answer|Accept|Approve|Reject|red|green|Quote|Start)/;
    const enabled = page.tab.locator("main").getByRole("button", { name: names, disabled: false });
    assert.deepEqual(await enabled.allTextContents(), [], path);
  }
  await page.tab.getByRole("button", { name: "Zoë" }).click();
  await page.sees("It may read.");
  assert.deepEqual(
    page.problems.filter((it) => !/40[13]/.test(it)),
    [],
  );
  await page.close();
});

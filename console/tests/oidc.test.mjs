/** Sign-in with the pages of an issuer, over a certified provider at another site than the console. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Page, setUp } from "./harness.mjs";
import { freePort } from "./ports.mjs";
import { Provider } from "./provider.mjs";

let engine, browser, provider;
setUp(
  (it) => ({ engine, browser } = it),
  async () => {
    const port = await freePort();
    provider = await Provider.start(`http://127.0.0.1:${port}`);
    return { port, config: provider.config, env: provider.env };
  },
);
after(() => provider?.stop());

const options = { timeout: 120_000 };

/** Opens a view without a session. The pages of the provider name a font of another host, which is not loaded. */
async function open(view) {
  const page = await Page.open(browser, engine);
  await page.context.route(/fonts\.googleapis\.com/, (route) => route.abort());
  await page.view(view, "The API requires a key.");
  return page;
}

/** Leaves the console for the pages of the provider. */
const leave = (page) => page.tab.getByRole("link", { name: `Sign in with ${provider.host}` }).click();

/** Complaints of the browser about pages of the console, except those that there is no session. */
const faults = async (page, name) => (await page.faults(name)).filter((it) => !/401|googleapis|localhost/.test(it));

/** The cookie of the session. */
const session = async (page) => (await page.context.cookies()).find((it) => it.name.startsWith("turnfold-session"));

test("a person signs in with the pages of the issuer and returns to the view", options, async () => {
  const page = await open("playground");
  assert.deepEqual(await faults(page, "sign-in-issuer"), []);
  await page.tab.getByLabel("Your name").fill("Zoë");
  await leave(page);
  await provider.signIn(page.tab, "ada");
  await page.sees("Nothing sent yet");
  // No code and no word remain in the address.
  await page.tab.waitForURL(`${engine.url}/#/playground`);
  const cookie = await session(page);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path, cookie.secure], [true, "Strict", "/v1", false]);
  const readable = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])";
  assert.ok(!(await page.tab.evaluate(readable)).includes("eyJ"), "no script can read the token");
  const attempt = (await page.context.cookies()).filter((it) => it.name.startsWith("turnfold-sign-in"));
  assert.deepEqual(attempt, [], "the secrets of the attempt are gone");
  await page.tab.getByLabel("Message", { exact: true }).fill("echo hello");
  await page.button("Send").click();
  await page.sees("hello");
  const { data } = await engine.api("GET", "/v1/turns?limit=1", undefined, { authorization: "Bearer operator-key-1" });
  assert.deepEqual([data[0].author, data[0].tenant], ["Zoë", "acme"]);
  await page.tab.reload();
  await page.sees("hello");
  await page.button("Zoë").click();
  await page.sees("Key ada, tenant acme.");
  await page.button("Sign out").click();
  await page.sees("The API requires a key.");
  // The issuer knows the person still, and asks for nothing.
  await leave(page);
  await page.sees("hello");
  assert.deepEqual(await faults(page, "signed-in-by-issuer"), []);
  await page.close();
});

test("a person signs out here alone, or at the issuer, too", options, async () => {
  const page = await open("playground");
  await leave(page);
  await provider.signIn(page.tab, "bob");
  await page.button("Signed in").click();
  const both = page.button(`Sign out here and at ${provider.host}`);
  await both.waitFor();
  assert.deepEqual(await faults(page, "sign-out"), []);
  await both.click();
  await page.tab.getByText("Do you want to sign-out").waitFor();
  assert.equal(await session(page), undefined, "the session here is over first");
  await provider.signOut(page.tab);
  await page.sees("The API requires a key.");
  assert.equal(new URL(page.tab.url()).origin, engine.url);
  // The issuer has forgotten the person, and asks again.
  await leave(page);
  await page.tab.getByPlaceholder("Enter any login").waitFor();
  await page.close();
});

test("a sign-in that was denied is explained in the view where it began", options, async () => {
  const page = await open("batches");
  await leave(page);
  await page.tab.getByRole("link", { name: "Cancel" }).click();
  await page.sees("the sign-in was denied");
  await page.tab.waitForURL(`${engine.url}/#/batches`);
  assert.equal(await session(page), undefined);
  assert.deepEqual(await faults(page, "sign-in-denied"), []);
  await page.tab.getByLabel("API key").fill("operator-key-1");
  await page.button("Sign in").click();
  await page.sees("No batches yet");
  await page.close();
});

test("an account without a tenant is sent to an operator", options, async () => {
  const page = await open("turns");
  await leave(page);
  await provider.signIn(page.tab, "stranger");
  await page.sees("has no tenant of this API");
  assert.equal(await session(page), undefined);
  await page.close();
});

test("a reply that this browser did not ask for is refused", options, async () => {
  const page = await open("turns");
  await page.tab.goto(`${engine.url}/v1/session/oidc/callback?code=x&state=y`);
  await page.sees("or another tab or browser began it");
  assert.equal(await session(page), undefined);
  await page.tab.goto("about:blank");
  await page.view("?sign_in=constructor", "The sign-in failed.");
  await page.close();
});

/** Engines, browsers and pages for the tests. Everything runs on loopback, in temporary folders, on free ports. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before } from "node:test";
import { inaccessible } from "./axe.mjs";
import { freePort } from "./ports.mjs";
import { cutOff } from "./layout.mjs";
import { end, newFolder, removeFolder, start, success } from "./processes.mjs";
import { becomes, until, whole } from "./waits.mjs";
import { chromium } from "playwright-core";

export { becomes, until };
export const TURNFOLD = resolve(process.env.TURNFOLD_BIN ?? "../target/debug/turnfold");
const CHROMIUM = process.env.CHROMIUM_BIN ?? "/usr/bin/chromium";
for (const file of [TURNFOLD, CHROMIUM])
  assert.ok(existsSync(file), `${file} does not exist; hint: set TURNFOLD_BIN or CHROMIUM_BIN`);
/** Folder for screenshots; none are taken without it. */
const SHOTS = process.env.CONSOLE_SHOTS;

export const WIDTHS = [390, 768, 1280];

/** `turnfold dev` over a database of its own. */
export class Engine {
  /** Starts an engine. With `demo`, it has the data of `turnfold demo`. `config` is a configuration file. Default of `port`: a free one. */
  static async start({ demo = false, config = "", env = {}, port } = {}) {
    const engine = new Engine();
    engine.folder = newFolder("console");
    engine.env = { ...process.env, ...env };
    const options = { cwd: engine.folder, stdio: "ignore", env: engine.env };
    if (demo) await success(start(TURNFOLD, ["demo", "--folder", "demo"], options));
    else writeFileSync(join(engine.folder, "turnfold.toml"), config);
    engine.args = demo ? ["--config", "demo/turnfold.toml"] : [];
    engine.port = port ?? (await freePort());
    engine.url = `http://127.0.0.1:${engine.port}`;
    await engine.run();
    return engine;
  }

  /** Starts the process, also after `kill`. */
  async run() {
    const args = [...this.args, "dev", "--listen", `127.0.0.1:${this.port}`];
    this.process = start(TURNFOLD, args, { cwd: this.folder, stdio: "ignore", env: this.env });
    await until(async () => (await fetch(`${this.url}/livez`)).ok);
  }

  /** Kills the process and waits until it is gone. */
  async kill() {
    await end(this.process);
  }

  async stop() {
    await this.kill();
    removeFolder(this.folder);
  }

  /** Sends a request to the API and returns its JSON. */
  async api(method, path, body, headers = {}) {
    const reply = await fetch(this.url + path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await reply.text();
    assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** Starts a batch with a line for each of these turns, and returns its id. */
  async batch(turns) {
    const lines = turns.map((body, nth) =>
      JSON.stringify({ custom_id: `line-${nth}`, method: "POST", url: "/v1/turns", body }),
    );
    const form = new FormData();
    form.set("purpose", "batch");
    form.set("file", new Blob([lines.join("\n")]), "lines.jsonl");
    const file = await (await fetch(`${this.url}/v1/files`, { method: "POST", body: form })).json();
    const batch = { input_file_id: file.id, endpoint: "/v1/turns", completion_window: "24h" };
    return (await this.api("POST", "/v1/batches", batch)).id;
  }

  /** Sends a turn and waits for its end, however long that takes on a busy machine. */
  turn(strategy, input) {
    return this.ended({ strategy, input });
  }

  /** Sends another turn of a thread and waits for its end. */
  again(thread, input) {
    return this.ended({ thread_id: thread, input });
  }

  async ended(body) {
    let turn = await this.api("POST", "/v1/turns?wait=30", body);
    while (["queued", "running"].includes(turn.status)) turn = await this.api("GET", `/v1/turns/${turn.id}?wait=30`);
    return turn;
  }

  /** Waits until a thread has nothing to do. */
  rest(thread) {
    return until(async () => (await this.api("GET", `/v1/threads/${thread}`)).log_status === "idle");
  }
}

/** Waits until the search index has everything, also what the killed engine of the demo left out. It is late by a minute at most. */
export async function indexed(engine) {
  const began = Date.now();
  const isIndexed = async () => began < Date.parse((await engine.api("GET", "/v1/search?q=x")).indexed_until);
  await until(isIndexed, 150_000);
}

export async function openBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/**
 * Starts an engine and a browser before the tests of a file, hands them to `take`, and ends them after the tests. `options` are those of
 * the engine, or make them.
 */
export function setUp(take, options = {}) {
  let engine, browser;
  before(async () => {
    const settings = typeof options === "function" ? await options() : options;
    [engine, browser] = await Promise.all([Engine.start(settings), openBrowser()]);
    await take({ engine, browser });
  });
  after(async () => {
    await browser?.close();
    await engine?.stop();
  });
}

/** A page that records everything a browser complains about. */
export class Page {
  static async open(browser, engine, { width = 1280, theme = "light" } = {}) {
    const page = new Page();
    page.engine = engine;
    page.problems = [];
    page.requests = new Set();
    page.context = await browser.newContext({
      viewport: { width, height: width < 500 ? 844 : 900 },
      colorScheme: theme,
      acceptDownloads: true,
    });
    page.tab = await page.context.newPage();
    page.tab.setDefaultTimeout(30_000);
    page.width = width;
    page.theme = theme;
    page.tab.on(
      "console",
      (it) =>
        ["error", "warning"].includes(it.type()) &&
        page.problems.push(`${it.type()}: ${it.text()} ${it.location().url}`),
    );
    page.tab.on("pageerror", (it) => page.problems.push(`exception: ${it.message}`));
    page.tab.on("request", (it) => it.headers().accept?.includes("event-stream") || page.requests.add(it));
    for (const name of ["requestfinished", "requestfailed"]) page.tab.on(name, (it) => page.requests.delete(it));
    if (process.env.CONSOLE_DIST) await page.serveDist();
    await page.context.addInitScript(() =>
      addEventListener("securitypolicyviolation", (it) =>
        console.error(`policy: ${it.violatedDirective} ${it.blockedURI}`),
      ),
    );
    return page;
  }

  /** Serves the files of `dist/` in place of those in the binary, under the same headers, so that no binary has to be built. */
  async serveDist() {
    const types = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
    await this.context.route(/:\d+\/(assets\/.*|favicon.svg)?$/, async (route) => {
      const page = await route.fetch({ url: `${this.engine.url}/` });
      const path = new URL(route.request().url()).pathname;
      const file = path === "/" ? "index.html" : path.slice(1);
      const headers = { ...page.headers(), "content-type": types[file.split(".").pop()] };
      await route.fulfill({ status: 200, headers, body: readFileSync(join("dist", file)) });
    });
  }

  /** Opens a view and waits for a text in it, not in the view before it. */
  async view(path, text) {
    await this.tab.goto(`${this.engine.url}/#/${path}`);
    await this.arrived();
    await this.sees(text);
  }

  /** Waits until the page has followed its address: an event after the change of the address tells it. */
  arrived() {
    return this.tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  }

  /** Waits until the view has what it loads: for half a second no request was under way, except streams of events. */
  async settled() {
    await this.arrived();
    let quiet = 0;
    await until(() => 5 <= (quiet = this.requests.size ? 0 : quiet + 1));
  }

  async sees(text, timeout) {
    await this.tab.getByText(whole(text)).filter({ visible: true }).first().waitFor({ timeout });
  }

  /** Waits until a text is nowhere on the page. */
  async gone(text) {
    await becomes(() => this.tab.getByText(whole(text)).count(), 0);
  }

  button(name) {
    return this.tab.getByRole("button", { name, exact: true }).first();
  }

  /** Finds what the browser complained about, what overflows, and what is inaccessible. */
  async faults(name) {
    if (SHOTS)
      await this.tab.screenshot({ path: join(SHOTS, `${name}-${this.width}-${this.theme}.png`), fullPage: true });
    const overflow = await this.tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    const found = [...this.problems, ...(await inaccessible(this.tab)), ...(await this.tab.evaluate(cutOff))];
    if (0 < overflow) found.push(`${overflow} px too wide`);
    return found.map((it) => `${name} at ${this.width} px, ${this.theme}: ${it}`);
  }

  async close() {
    // A request that is under way would fail with the page.
    await this.tab.unrouteAll({ behavior: "ignoreErrors" });
    await this.context.unrouteAll({ behavior: "ignoreErrors" });
    await this.context.close();
  }
}

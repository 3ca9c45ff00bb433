/** Modules of the page, for tests of their functions. */
import { after, before } from "node:test";
import { createServer } from "vite";
import { Engine, openBrowser } from "./harness.mjs";

// Node 20 lacks it; browsers have it.
Map.groupBy ??= (all, key) => {
  const groups = new Map();
  for (const it of all) groups.set(key(it), [...(groups.get(key(it)) ?? []), it]);
  return groups;
};

/** Returns a module of the page, such as `words.ts` of `src/lib`. */
export async function load(path) {
  const sources = await createServer({ server: { middlewareMode: true }, appType: "custom", logLevel: "error" });
  try {
    return await sources.ssrLoadModule(`/src/${path}`);
  } finally {
    await sources.close();
  }
}

/** Loads a module of the page and starts an engine and a browser before the tests of a file, and ends them after its tests. */
export function setUp(module, take, options) {
  let engine, browser;
  before(async () => {
    let lib;
    [lib, engine, browser] = await Promise.all([load(module), Engine.start(options), openBrowser()]);
    take({ lib, engine, browser });
  });
  after(async () => {
    await browser?.close();
    await engine?.stop();
  });
}

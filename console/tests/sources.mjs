/** Modules of the page, for tests of their functions. */
import { createServer } from "vite";
import { setUp } from "./harness.mjs";

// Node 20 lacks it; browsers have it.
Map.groupBy ??= (all, key) => {
  const groups = new Map();
  for (const it of all) groups.set(key(it), [...(groups.get(key(it)) ?? []), it]);
  return groups;
};

/** Returns a module of the page, such as `words.ts` of `src/lib`. */
export async function load(path) {
  const sources = await createServer({
    // Test files run beside each other: none opens a port for a browser, or writes what another reads.
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true, include: [] },
    appType: "custom",
    logLevel: "error",
  });
  try {
    return await sources.ssrLoadModule(`/src/${path}`);
  } finally {
    await sources.close();
  }
}

/** Loads a module of the page before the tests of a file, with an engine and a browser. */
export function setUpWith(module, take, options) {
  setUp(async (it) => take({ ...it, lib: await load(module) }), options);
}

/** Accessibility checks with axe-core, without a second dependency that wraps it. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Serious and critical findings on a page, one line each. */
export async function inaccessible(tab) {
  // Evaluated by the debugger, which the security policy of the page does not concern.
  await tab.evaluate(SOURCE);
  const { violations } = await tab.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const grave = violations.filter((it) => ["serious", "critical"].includes(it.impact));
  return grave.flatMap((it) =>
    it.nodes.map(
      (node) =>
        `${it.id}: ${node.html.slice(0, 160)} ${node.any
          .map((any) => any.message)
          .join("; ")
          .slice(0, 200)}`,
    ),
  );
}

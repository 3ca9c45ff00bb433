/** Takes the README's picture: one thread of the demo whose worker was killed. Run in `console/`: `npm run picture`. */
import { Engine, openBrowser, Page } from "../tests/harness.mjs";

/** Uses of the time of a turn that was taken over, as far as a picture shows them: each at least this share of it. */
const SHARE = 0.02;

const engine = await Engine.start({ demo: true });
const browser = await openBrowser();
try {
  const { data } = await engine.api("GET", "/v1/turns?limit=1000&status=completed");
  const times = [];
  for (const turn of data.filter((it) => it.strategy === "planner" && it.outcome === "answered"))
    times.push(await engine.api("GET", `/v1/turns/${turn.id}/timeline`));
  const uses = (it) => it.totals.filter((use) => SHARE * it.ms < use.ms).length;
  const best = times
    .filter((it) => it.takeovers.length && it.attempts.length <= 8)
    .sort((a, b) => uses(b) - uses(a) || a.ms - b.ms)[0];
  const page = await Page.open(browser, engine);
  await page.view(`threads/${best.thread_id}`, "took over from");
  await page.sees("respond");
  await page.tab.screenshot({ path: "../docs/images/console.png" });
  console.log(`docs/images/console.png shows the thread ${best.thread_id}`);
} finally {
  await browser.close();
  await engine.stop();
}

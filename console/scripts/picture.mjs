/** Takes the README's picture: one thread of the demo. Run in `console/`: `npm run picture`. */
import { Engine, openBrowser, Page } from "../tests/harness.mjs";

const engine = await Engine.start({ demo: true });
const browser = await openBrowser();
try {
  const { data } = await engine.api("GET", "/v1/threads?limit=1000");
  const thread = data.find((it) => it.strategy === "planner" && it.status === "idle");
  const page = await Page.open(browser, engine);
  await page.view(`threads/${thread.id}`, "Timeline");
  await page.sees("respond");
  await page.tab.screenshot({ path: "../docs/images/console.png" });
  console.log(`docs/images/console.png shows the thread ${thread.id}`);
} finally {
  await browser.close();
  await engine.stop();
}

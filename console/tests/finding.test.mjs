/** Finding a run: orders of lists, periods between two moments, parts of plots, and saved views. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, indexed, Page, setUp, until, WIDTHS } from "./harness.mjs";
import { load } from "./sources.mjs";

let engine, browser;
setUp(
  (it) => {
    ({ engine, browser } = it);
    return indexed(engine);
  },
  { demo: true },
);

const options = { timeout: 180_000 };
const links = (page) => page.tab.locator("main a[data-row]");

/** Titles of the rows in view, in their order on the page. */
async function titles(page, count) {
  await until(async () => count <= (await links(page).count()));
  return (await links(page).evaluateAll((all) => all.map((it) => it.title))).slice(0, count);
}

const listed = async (path, count = 5) => (await engine.api("GET", path)).data.slice(0, count);
/** The items of the first pages of a list. */
async function paged(path, pages) {
  const all = [];
  for (let nth = 0, after = ""; nth < pages; nth += 1) {
    const page = await engine.api("GET", `${path}&limit=50${after}`);
    all.push(...page.data);
    if (!page.has_more) break;
    after = `&after=${page.data.at(-1).id}`;
  }
  return all;
}
const query = (page) => page.tab.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])));

test(
  "turns and threads are ordered by cost, time and last change, from their headings and on return",
  options,
  async () => {
    const page = await Page.open(browser, engine);
    await page.view("turns", "shown");
    for (const [heading, order] of [
      ["Cost", "usd"],
      ["Time", "took"],
    ]) {
      await page.tab.locator(".names").getByRole("button", { name: heading }).click();
      await page.sees("Ordered are the newest 10,000 that match.");
      const expected = (await listed(`/v1/turns?order=${order}`)).map((it) => `Turn ${it.id}`);
      await until(async () => (await titles(page, 5)).join() === expected.join());
      assert.equal((await query(page)).order, order);
    }
    const took = (it) => Date.parse(it.updated_at) - Date.parse(it.created_at);
    const slowest = (await listed("/v1/turns?order=took&limit=100", 100)).map(took);
    // The order is one of microseconds: a difference of dates is up to a millisecond off.
    const isOrdered = slowest.every((ms, nth) => nth === 0 || ms <= slowest[nth - 1] + 1);
    assert.ok(isOrdered, slowest.join());
    assert.match(await page.button("Copy command").getAttribute("title"), /turn list --order took$/);
    // The same heading again puts the lowest first, and once more the highest.
    const heading = page.tab.locator(".names").getByRole("columnheader", { name: "Time" });
    assert.equal(await heading.getAttribute("aria-sort"), "descending");
    await heading.getByRole("button").click();
    const shortest = (await listed("/v1/turns?order=took_asc")).map((it) => `Turn ${it.id}`);
    await until(async () => (await titles(page, 5)).join() === shortest.join());
    assert.equal(await heading.getAttribute("aria-sort"), "ascending");
    assert.match(await page.button("Copy command").getAttribute("title"), /turn list --order took_asc$/);
    await heading.getByRole("button").click();
    await page.tab.reload();
    await until(async () => (await page.tab.getByLabel("Order").inputValue()) === "took");
    await page.tab.getByLabel("Order").selectOption("oldest first");
    const oldest = (await listed("/v1/turns?order=oldest")).map((it) => `Turn ${it.id}`);
    await until(async () => (await titles(page, 5)).join() === oldest.join());
    const created = page.tab.locator(".names").getByRole("columnheader", { name: "Created" });
    assert.equal(await created.getAttribute("aria-sort"), "ascending");
    await page.view("threads", "shown");
    await page.tab.locator(".names").getByRole("button", { name: "Last activity" }).click();
    const active = (await listed("/v1/threads?order=updated")).map((it) => `Thread ${it.id}`);
    await until(async () => (await titles(page, 5)).join() === active.join());
    // Pages of an order fit together: scrolling brings each row once.
    const all = await paged("/v1/threads?order=updated", 3);
    const seen = new Set();
    await until(async () => {
      for (const it of await links(page).evaluateAll((rows) => rows.map((it) => it.title))) seen.add(it);
      // The rows after the last one come into the document: none is passed over, however late they come.
      await links(page).last().scrollIntoViewIfNeeded();
      return all.length <= seen.size;
    });
    assert.deepEqual(
      [...seen].slice(0, all.length),
      all.map((it) => `Thread ${it.id}`),
    );
    assert.deepEqual(page.problems, []);
    await page.close();
  },
);

test(
  "a period between two moments is in the address, and selects what was changed or submitted in it",
  options,
  async () => {
    const { id, created_at } = await engine.turn("probe", "wait 1; echo within");
    const at = (ms) => new Date(Date.parse(created_at) + ms).toISOString().slice(0, 19) + "Z";
    const page = await Page.open(browser, engine);
    const within = `range=${at(0)}..${at(1_000)}`;
    await page.view(`turns?${within}`, "within");
    assert.ok((await titles(page, 1)).includes(`Turn ${id}`));
    await page.view(`turns?range=${at(60_000)}..`, "No turn matches");
    await page.view(`threads?${within}`, "within");
    await page.view("turns", "shown");
    await page.tab.getByLabel("Period").selectOption("between…");
    await page.tab.getByLabel("From").waitFor();
    const local = (ms) => {
      const time = new Date(Date.parse(created_at) + ms);
      return new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    };
    await page.tab.getByLabel("From").fill(local(-1_000));
    await page.tab.getByLabel("From").blur();
    await page.tab.getByLabel("Until").fill(local(2_000));
    await page.tab.getByLabel("Until").blur();
    await until(async () => (await query(page)).range === `${at(-1_000)}..${at(2_000)}`);
    await page.sees("within");
    await page.tab.reload();
    assert.equal(await page.tab.getByLabel("Until").inputValue(), local(2_000));
    // Ends in the wrong order are swapped, and the fields stay when they are emptied.
    await page.tab.getByLabel("From").fill(local(5_000));
    await page.tab.getByLabel("From").blur();
    await until(async () => (await query(page)).range === `${at(2_000)}..${at(5_000)}`);
    for (const end of ["From", "Until"]) {
      await page.tab.getByLabel(end).fill("");
      await page.tab.getByLabel(end).blur();
    }
    await until(async () => (await query(page)).range === undefined);
    assert.equal(await page.tab.getByLabel("Until").inputValue(), "");
    await page.view("turns?range=constructor", "within");
    assert.equal(await page.tab.getByLabel("Period").inputValue(), "");
    await page.view("batches?range=..2020-01-01T00:00:00Z", "No batch matches");
    await page.view("inbox?range=..2020-01-01T00:00:00Z", "No question of this kind");
    assert.deepEqual(page.problems, []);
    await page.close();
  },
);

test("the order of a table is read from its address, also as an earlier page saved it", async () => {
  const { sortOf, toggled } = await load("lib/sort.ts");
  const columns = { line: { name: "Line", rises: true }, cost: { name: "Cost" } };
  for (const [text, by, isRising] of [
    [undefined, "line", true],
    ["line_desc", "line", false],
    ["line_reversed", "line", false],
    ["cost", "cost", false],
    ["cost_asc", "cost", true],
    ["cost_reversed", "cost", true],
    ["constructor", "line", true],
  ])
    assert.deepEqual(sortOf(text, "line", columns), { by, isRising }, text);
  for (const [by, other] of [
    ["line", "line_desc"],
    ["cost", "cost_asc"],
  ]) {
    const { rises } = columns[by];
    assert.equal(toggled(sortOf(by, "line", columns), by, rises), other);
    assert.equal(toggled(sortOf(other, "line", columns), by, rises), by);
  }
});

/** Drags a pointer over the right half of a plot, and awaits `meanwhile` before the pointer is released. */
async function drag(page, plot, meanwhile = () => {}) {
  const frame = plot.locator(".u-over");
  await frame.waitFor();
  await page.settled();
  await frame.scrollIntoViewIfNeeded();
  const box = await frame.boundingBox();
  const y = box.y + box.height / 2;
  await page.tab.mouse.move(box.x + box.width / 2, y);
  await page.tab.mouse.down();
  await page.tab.mouse.move(box.x + box.width - 2, y, { steps: 5 });
  await meanwhile();
  await page.tab.mouse.up();
}

const label = (page) =>
  page.tab.getByRole("region", { name: "Turns over time" }).getByRole("img").getAttribute("aria-label");

test("a part of a plot becomes the period, above a list and from the overview", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("turns?range=hour", "shown");
  await page.button("Over time").click();
  // A turn that ends meanwhile changes the plot.
  await drag(page, page.tab.getByRole("region", { name: "Turns over time" }), async () => {
    const before = await label(page);
    await engine.turn("probe", "echo meanwhile");
    await until(async () => (await label(page)) !== before);
  });
  await until(async () => /^\d{4}.*Z\.\.\d{4}.*Z$/.test((await query(page)).range));
  const [from, to] = (await query(page)).range.split("..").map((it) => Date.parse(it));
  assert.ok(20 * 60_000 < to - from && to - from < 40 * 60_000, `${to - from}`);
  assert.ok(Date.now() - to < 5 * 60_000);
  await links(page).first().waitFor();
  await page.tab.locator(".brush .part").filter({ visible: true }).first().waitFor();
  await page.view("", "Is it flowing?");
  await drag(page, page.tab.getByRole("img", { name: /^Turns that ended/ }).first());
  await page.tab.waitForURL(/#\/turns\?.*range=/);
  assert.match((await query(page)).range, /Z\.\.\d{4}/);
  await page.tab.getByRole("region", { name: "Turns over time" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a part of a plot is chosen with the keys of its ends, and dropped", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("turns?range=hour&plot=1", "shown");
  const [first, last] = ["First moment", "Last moment"].map((name) => page.tab.getByRole("slider", { name }));
  const moments = async () =>
    Promise.all([first, last].map(async (it) => Number(await it.getAttribute("aria-valuenow"))));
  const press = async (...keys) => {
    for (const it of keys) await page.tab.keyboard.press(it);
  };
  await first.focus();
  // The plot moves on by a bar when a minute begins: more keys than it can move meanwhile.
  const [start, end] = await moments();
  await press("ArrowRight", "ArrowRight", "Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft");
  const [from, to] = await moments();
  assert.ok(start < from && to < end, `${start} ${from} ${to} ${end}`);
  assert.match(await page.tab.locator(".brush [aria-live]").innerText(), /^Last moment: /);
  await press("Escape");
  await until(async () => (await moments())[0] < from && to < (await moments())[1]);
  assert.equal((await query(page)).range, "hour");
  await press("Enter");
  assert.equal((await query(page)).range, "hour", "nothing was moved");
  await press("ArrowRight", "ArrowRight", "ArrowRight", "Shift+End", "Shift+ArrowLeft", "Enter");
  await until(async () => /Z\.\.\d{4}.*Z$/.test((await query(page)).range));
  const ends = (await query(page)).range.split("..").map((it) => Date.parse(it));
  assert.ok(50 * 60_000 < ends[1] - ends[0] && ends[1] - ends[0] < 60 * 60_000, ends.join(" "));
  assert.ok(await first.evaluate((it) => it === document.activeElement), "the focus stays");
  await page.tab.locator(".brush .part").filter({ visible: true }).waitFor();
  assert.deepEqual(await page.faults("finding-brush"), []);
  await page.close();
});

test("a finger chooses a part of a plot", options, async () => {
  const page = await Page.open(browser, engine, { width: 390 });
  await page.view("turns?range=hour&plot=1", "shown");
  const brush = page.tab.locator(".brush");
  assert.equal(await brush.evaluate((it) => getComputedStyle(it).touchAction), "pan-y");
  const touch = await page.context.newCDPSession(page.tab);
  await touch.send("Emulation.setTouchEmulationEnabled", { enabled: true });
  await page.settled();
  const box = await brush.boundingBox();
  const at = (part) => [{ x: box.x + box.width * part, y: box.y + box.height / 2 }];
  const send = (type, touchPoints) => touch.send("Input.dispatchTouchEvent", { type, touchPoints });
  await send("touchStart", at(0.3));
  for (const part of [0.4, 0.5, 0.6, 0.8]) await send("touchMove", at(part));
  await send("touchEnd", []);
  await until(async () => /Z\.\.\d{4}.*Z$/.test((await query(page)).range));
  const [from, to] = (await query(page)).range.split("..").map((it) => Date.parse(it));
  assert.ok(20 * 60_000 < to - from && to - from < 40 * 60_000, `${to - from}`);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a view is saved under a name, opened from anywhere, and deleted", options, async () => {
  const page = await Page.open(browser, engine);
  await page.view("turns?status=failed&range=day", "shown");
  await page.tab.keyboard.press("v");
  const dialog = page.tab.getByRole("dialog", { name: "Saved views" });
  await dialog.getByText("No view is saved yet.").waitFor();
  await dialog.getByRole("textbox").fill("What failed");
  await page.tab.keyboard.press("Enter");
  await dialog.getByRole("link", { name: "What failed" }).waitFor();
  await page.tab.keyboard.press("Escape");
  await page.view("costs", "Costs");
  await page.tab.reload();
  await page.button("Views").click();
  await dialog.getByRole("link", { name: "What failed" }).click();
  await page.tab.waitForURL(/#\/turns\?status=failed&range=day$/);
  await page.tab.getByRole("button", { name: "failed", pressed: true }).waitFor();
  await dialog.waitFor({ state: "detached" });
  // Two pages of one browser have the same views, and a damaged store has none.
  const other = await page.context.newPage();
  await other.goto(`${engine.url}/#/turns`);
  await other.getByRole("button", { name: "Views" }).click();
  await other.getByRole("button", { name: "Delete the view What failed" }).click();
  await page.button("Views").click();
  await dialog.getByText("No view is saved yet.").waitFor();
  await page.tab.evaluate(() =>
    localStorage.setItem("views", '[{"name": 7}, null, {"name": "x", "address": "javascript:1"}'),
  );
  await page.tab.reload();
  await page.button("Views").click();
  await dialog.getByText("No view is saved yet.").waitFor();
  assert.deepEqual(page.problems, []);
  await page.close();
});

test(
  "the most views are saved: one more is not, another in place of one is, and a failed write says so",
  options,
  async () => {
    const page = await Page.open(browser, engine);
    await page.view("turns", "shown");
    const named = (nth) => ({ name: `view ${String(nth).padStart(2, "0")}`, address: "#/turns" });
    const all = [
      ...Array.from({ length: 50 }, (_, nth) => named(nth)),
      named(0),
      { name: "x".repeat(61), address: "#/" },
    ];
    await page.tab.evaluate((it) => localStorage.setItem("views", JSON.stringify(it)), all);
    await page.tab.reload();
    await page.view("threads", "shown");
    await page.button("Views").click();
    const dialog = page.tab.getByRole("dialog", { name: "Saved views" });
    const save = dialog.getByRole("button", { name: "Save", exact: true });
    await becomes(() => dialog.getByRole("listitem").count(), 50);
    await dialog.getByText("50 views are saved").waitFor();
    await dialog.getByRole("textbox").fill("another");
    await becomes(() => save.isDisabled(), true);
    await dialog.getByRole("textbox").fill("view 07");
    await page.tab.evaluate(() => {
      Storage.prototype.setItem = () => {
        throw new Error("full");
      };
    });
    await save.click();
    await page.sees("Not saved: the storage of this browser");
    const address = () => dialog.getByRole("link", { name: "view 07" }).getAttribute("href");
    assert.equal(await address(), "#/turns");
    await page.tab.reload();
    await page.button("Views").click();
    await dialog.getByRole("textbox").fill("view 07");
    await save.click();
    await becomes(address, "#/threads");
    assert.equal(await dialog.getByRole("listitem").count(), 50);
    assert.deepEqual(page.problems, []);
    await page.close();
  },
);

test("the first batch of a period that ended long ago is looked for in parts", options, async () => {
  await engine.batch([{ strategy: "probe", input: "echo hi" }]);
  const [batch] = await listed("/v1/batches", 1);
  const page = await Page.open(browser, engine);
  const read = [];
  // 30 pages of newer batches, then the one of the period.
  await page.context.route(/\/v1\/batches\?/, (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get("after")?.slice(-4) ?? 0);
    read.push(after);
    const created_at = after < 1_500 ? batch.created_at : Date.parse("2020-01-01T00:00:00Z") / 1_000;
    const id = (nth) => `00000000-0000-7000-8000-00000000${String(nth).padStart(4, "0")}`;
    const data = Array.from({ length: 50 }, (_, nth) => ({ ...batch, created_at, id: id(after + nth + 1) }));
    return route.fulfill({ json: { object: "list", data, has_more: after < 1_500 } });
  });
  await page.view("batches?range=..2020-06-01T00:00:00Z", "found yet");
  // A search stops after 20 pages, and a poll reads the last of them.
  await until(() => read.slice(-3).join() === "950,950,950");
  assert.equal(Math.max(...read), 950);
  await page.button("Look further").click();
  await page.sees("50 shown");
  const found = read.length;
  await until(() => found + 2 <= read.length);
  assert.deepEqual(new Set(read.slice(found)), new Set([1_500]));
  assert.deepEqual(page.problems, []);
  await page.close();
});

for (const width of WIDTHS)
  test(`orders, periods and saved views are sound at ${width} px`, options, async () => {
    const faults = [];
    const now = Date.now();
    const iso = (ms) => new Date(ms).toISOString().slice(0, 19) + "Z";
    const range = `${iso(now - 1_800_000)}..${iso(now + 60_000)}`;
    for (const theme of ["light", "dark"]) {
      const page = await Page.open(browser, engine, { width, theme });
      await page.view(`turns?plot=1&order=took&range=${range}`, "Ordered are");
      await links(page).first().waitFor();
      await page.tab.getByRole("region", { name: "Turns over time" }).getByRole("img").waitFor();
      faults.push(...(await page.faults("finding-turns")));
      await page.view("inbox?range=hour", "open");
      faults.push(...(await page.faults("finding-inbox")));
      await page.button("Views").click();
      await page.tab.getByRole("dialog").getByRole("textbox").fill("Approvals of the last hour");
      await page.tab.keyboard.press("Enter");
      await page.tab.getByRole("link", { name: "Approvals of the last hour" }).waitFor();
      faults.push(...(await page.faults("finding-views")));
      await page.close();
    }
    assert.deepEqual(faults, []);
  });

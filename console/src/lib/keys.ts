/** Keyboard shortcuts of all views. */
import { tick } from "svelte";
import { go } from "./route.svelte.ts";

export const VIEWS = [
  { key: "o", path: "", name: "Overview" },
  { key: "t", path: "turns", name: "Turns" },
  { key: "h", path: "threads", name: "Threads" },
  { key: "i", path: "inbox", name: "Inbox" },
  { key: "b", path: "batches", name: "Batches" },
  { key: "s", path: "strategies", name: "Strategies" },
  { key: "r", path: "prompts", name: "Prompts" },
  { key: "m", path: "mcp", name: "MCP servers" },
  { key: "q", path: "queue", name: "Queue" },
  { key: "c", path: "costs", name: "Costs" },
  { key: "a", path: "audit", name: "Audit" },
  { key: "p", path: "playground", name: "Playground" },
] as const;

let isGoing = false;

/** Handles a key, unless it is typed into a field. `dialogs` opens a dialog for each of its keys. */
export function handleKey(event: KeyboardEvent, dialogs: Record<string, () => void>): void {
  const target = event.target as HTMLElement;
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || document.querySelector("dialog[open]");
  if (event.key === "Escape" && isTyping) target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = isGoing && VIEWS.find((it) => it.key === event.key);
  isGoing = event.key === "g" && !isGoing;
  if (view) go(view.path);
  else if (Object.hasOwn(dialogs, event.key)) dialogs[event.key]();
  else if (event.key === "/") focusSearch();
  else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
}

function focusSearch(): void {
  const field = document.querySelector<HTMLInputElement>("[data-search]");
  if (field) return field.focus();
  // The route listens first, so the field of that view is there after the tick.
  const focus = () => tick().then(() => document.querySelector<HTMLInputElement>("[data-search]")?.focus());
  addEventListener("hashchange", () => void focus(), { once: true });
  go("turns");
}

/** Moves the focus to the next or previous row of a list. */
function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  const current = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[current < 0 ? (step < 0 ? rows.length - 1 : 0) : current + step];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

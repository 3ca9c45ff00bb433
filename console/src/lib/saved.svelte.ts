/** Views that were saved under a name. They stay in this browser. */
import { notify } from "./app.svelte.ts";

export interface SavedView {
  name: string;
  /** Address of the view, with its filter, period and order. */
  address: string;
}

const KEY = "views";
export const MAX_VIEWS = 50;
export const MAX_NAME = 60;

/** Maximum length of an address. */
const MAX_ADDRESS = 4_000;

const isText = (it: unknown, max: number): it is string => typeof it === "string" && 0 < it.length && it.length <= max;
const isView = (it: SavedView | null): boolean =>
  isText(it?.name, MAX_NAME) && isText(it.address, MAX_ADDRESS) && it.address.startsWith("#/");

/** Reads what was saved, also by another version of this page. A name has one view. */
function read(): SavedView[] {
  try {
    const views: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(views)) return [];
    const named = new Map(views.filter(isView).map((it: SavedView) => [it.name, it]));
    return [...named.values()].slice(0, MAX_VIEWS);
  } catch {
    return [];
  }
}

export const saved = $state({ views: read() });

addEventListener("storage", (event) => {
  if (event.key === KEY) saved.views = read();
});

/** Reports whether the browser took the views. */
function write(views: SavedView[]): boolean {
  views.sort((a, b) => a.name.localeCompare(b.name));
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    notify("Not saved: the storage of this browser is full or switched off.", true);
    return false;
  }
  saved.views = views;
  return true;
}

/** Saves a view, in place of one with the same name. Reports whether it is saved. */
export function keep(name: string, address: string): boolean {
  if (isView({ name, address })) return write([...read().filter((it) => it.name !== name), { name, address }]);
  notify(`Not saved: the address of this page is longer than ${MAX_ADDRESS} characters.`, true);
  return false;
}

export function forget(name: string): void {
  write(read().filter((it) => it.name !== name));
}

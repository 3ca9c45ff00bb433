/** Views that were saved under a name. They stay in this browser. */

export interface SavedView {
  name: string;
  /** Address of the view, with its filter, period and order. */
  address: string;
}

const KEY = "views";
export const MAX_VIEWS = 50;
export const MAX_NAME = 60;

/** Reads what was saved, also by another version of this page. */
function read(): SavedView[] {
  try {
    const views: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const isView = (it: SavedView) => typeof it?.name === "string" && /^#\//.test(it.address);
    return Array.isArray(views) ? views.filter(isView).slice(0, MAX_VIEWS) : [];
  } catch {
    return [];
  }
}

export const saved = $state({ views: read() });

addEventListener("storage", (event) => {
  if (event.key === KEY) saved.views = read();
});

function write(views: SavedView[]): void {
  saved.views = views.sort((a, b) => a.name.localeCompare(b.name));
  localStorage.setItem(KEY, JSON.stringify(views));
}

/** Saves a view, in place of one with the same name. */
export function keep(name: string, address: string): void {
  write([...read().filter((it) => it.name !== name), { name, address }]);
}

export function forget(name: string): void {
  write(read().filter((it) => it.name !== name));
}

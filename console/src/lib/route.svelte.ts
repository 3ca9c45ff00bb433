/** The address of a view: a path and filters behind `#`, so that every view and filter is a link. */

export const route = $state<{ path: string[]; query: Record<string, string> }>({ path: [], query: {} });

export function href(path: string, query: Record<string, string | number | undefined> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const params = new URLSearchParams(set.map(([name, value]) => [name, String(value)]));
  return `#/${path}${set.length ? `?${params}` : ""}`;
}

export function go(path: string, query: Record<string, string | number | undefined> = {}): void {
  location.hash = href(path, query);
}

/** Changes filters of the current view. The list of visited pages does not grow. */
export function refine(change: Record<string, string | number | undefined>): void {
  replace(href(route.path.map(encodeURIComponent).join("/"), { ...route.query, ...change }));
}

/** Opens a view in place of the current one. */
export function replace(target: string): void {
  history.replaceState(history.state, "", target);
  read();
}

function read(): void {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  route.path = parts.map((it) => decode(it));
  route.query = Object.fromEntries(new URLSearchParams(query));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface Place {
  scroll: number;
  /** Address of the link that had the focus. */
  focus: string | null;
}

/** Where each visited page was left. */
const places = new Map<number, Place>();
/** Number of the visit of the current page, kept in its entry of the history. */
let visit = (history.state as { visit?: number } | null)?.visit ?? 0;
let visits = visit;
/** Frames in which a page that was returned to must have its rows again. */
const MAX_FRAMES = 60;

/** Opens a page at its top, or returns to where it was left: the same row has the focus. */
function arrive(): void {
  const focus = document.activeElement?.closest("a")?.getAttribute("href") ?? null;
  places.set(visit, { scroll: scrollY, focus });
  const from = route.path.join("/");
  read();
  const known = (history.state as { visit?: number } | null)?.visit;
  visit = known ?? (visits += 1);
  if (known === undefined) history.replaceState({ visit }, "");
  const place = known === undefined ? undefined : places.get(known);
  if (place) void restore(place, visit);
  else if (from !== route.path.join("/")) {
    scrollTo(0, 0);
    document.querySelector("main")?.focus({ preventScroll: true });
  }
}

async function restore(place: Place, to: number): Promise<void> {
  for (let frame = 0; frame < MAX_FRAMES && visit === to; frame += 1) {
    await new Promise(requestAnimationFrame);
    scrollTo(0, place.scroll);
    const links = [...document.querySelectorAll<HTMLElement>("main a")];
    const link = links.find((it) => it.getAttribute("href") === place.focus);
    if (Math.abs(scrollY - place.scroll) < 2 && (link || !place.focus)) return link?.focus({ preventScroll: true });
  }
}

history.scrollRestoration = "manual";
addEventListener("hashchange", arrive);
read();
history.replaceState({ visit }, "");

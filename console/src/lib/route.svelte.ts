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
  const target = href(route.path.map(encodeURIComponent).join("/"), { ...route.query, ...change });
  history.replaceState(null, "", target);
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

addEventListener("hashchange", read);
read();

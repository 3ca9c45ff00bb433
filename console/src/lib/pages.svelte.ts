/** A list of the API that is read page by page. Its first page and the rows in view are polled. */
import { errorOf, get, type Page, type Query } from "./api.ts";
import { app } from "./app.svelte.ts";
import { load, type Resource } from "./load.svelte.ts";

interface Keyed {
  id: string;
}

interface Settings<Item> {
  /** Interval in milliseconds. */
  every?: number;
  /** Text that differs between queries that the API does not tell apart. */
  key?: () => string;
  /** Reports whether an item is newer than the list, and left out, or older: the list ends before it. */
  isNewer?: (item: Item) => boolean;
  isOlder?: (item: Item) => boolean;
}

/** Number of items of a page. */
const SIZE = 50;
/** Number of pages that are read in search of the first row. */
const MAX_WALK = 20;

/** The rows of the lists that were left last, to return to. */
const kept = new Map<string, Page<unknown>>();
const MAX_KEPT = 8;

export class Pages<Item extends Keyed> {
  items = $state.raw<Item[]>([]);
  hasMore = $state(false);
  isBusy = $state(false);
  /** True while the items are those of another query. */
  isStale = $state(true);
  /** Number of rows above those in view. */
  above = 0;
  first: Resource<Page<Item>>;
  private shown = "";
  /** Cursor of the page with the first row, as far as it is known: the pages before it have none. */
  private start?: string;
  private signal?: AbortSignal;
  private identity = app.identity;

  constructor(
    private path: string,
    private query: () => Query,
    private settings: Settings<Item> = {},
  ) {
    this.first = load(() => {
      const current = query();
      // What an earlier caller was shown is under another key.
      const key = JSON.stringify([app.identity, current, settings.key?.()]);
      this.isStale = key !== this.shown;
      if (this.identity !== app.identity) {
        kept.clear();
        [this.identity, this.items, this.isStale] = [app.identity, [], true];
      }
      const known = this.isStale && (kept.get(path + key) as Page<Item> | undefined);
      if (known) [this.items, this.hasMore, this.shown] = [known.data, known.has_more, key];
      this.start = undefined;
      return async (signal) => {
        this.signal = signal;
        try {
          const page = await this.read(current, signal, this.start, this.start ? 1 : MAX_WALK);
          // `more` may have found the first row in the meantime.
          const isBehind = key === this.shown && !page.data.length && page.has_more;
          if (!isBehind) this.put(key === this.shown ? this.items : [], 0, page);
          [this.shown, this.isStale] = [key, false];
          await this.renew(current, signal);
          this.keep(path + key);
          return page;
        } catch (error) {
          if (signal.aborted) throw error;
          this.start = undefined;
          // The rows of another query are no answer to this one.
          if (this.isStale) this.items = [];
          throw error;
        }
      };
    }, settings.every ?? 4_000);
  }

  /** Loads the next page. Without a row yet, looks further for the first one. */
  async more(): Promise<void> {
    const { shown, signal } = this;
    if (this.isBusy || this.isStale || !this.hasMore || !signal) return;
    this.isBusy = true;
    try {
      const page = await this.read(this.query(), signal, this.items.at(-1)?.id ?? this.start);
      if (shown === this.shown) this.put(this.items, this.items.length, page);
    } catch (error) {
      if (!signal.aborted) this.first.error = errorOf(error);
    } finally {
      this.isBusy = false;
    }
  }

  private keep(name: string): void {
    kept.delete(name);
    kept.set(name, { data: this.items, has_more: this.hasMore });
    if (MAX_KEPT < kept.size) kept.delete(kept.keys().next().value!);
  }

  /** Reads the next page with a row, or the last one of `most` pages. */
  private async read(query: Query, signal: AbortSignal, after?: string, most = MAX_WALK): Promise<Page<Item>> {
    const { isNewer = () => false, isOlder = () => false } = this.settings;
    for (let nth = 1; ; nth += 1) {
      const page = await get<Page<Item>>(this.path, { ...query, limit: SIZE, after }, signal);
      signal.throwIfAborted();
      const end = page.data.findIndex(isOlder);
      const rows = (end < 0 ? page.data : page.data.slice(0, end)).filter((it) => !isNewer(it));
      const has_more = end < 0 && page.has_more;
      if (rows.length || !has_more || nth === most) return { data: rows, has_more };
      this.start = after = page.data.at(-1)?.id;
    }
  }

  /** Reads the rows in view again, if they are beyond the first page. */
  private async renew(query: Query, signal: AbortSignal): Promise<void> {
    const at = Math.min(this.above, this.items.length - 1);
    if (at < SIZE) return;
    const page = await this.read(query, signal, this.items[at - 1].id);
    this.put(this.items, at, page);
  }

  /** Replaces rows by a page that begins at row `at`. The rows beyond it stay. */
  private put(rows: Item[], at: number, page: Page<Item>): void {
    const fresh = new Set(page.data.map((it) => it.id));
    const last = page.data.at(-1)?.id;
    const end = page.has_more ? rows.findIndex((it) => it.id === last) : -1;
    const rest = end < 0 ? [] : rows.slice(end + 1);
    const isOther = (it: Item) => !fresh.has(it.id);
    this.items = [...rows.slice(0, at).filter(isOther), ...page.data, ...rest.filter(isOther)];
    if (!rest.length) this.hasMore = page.has_more;
  }
}

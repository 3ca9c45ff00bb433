/** Pages of the API that are read one after the other, and added up, while a view is open. */
import { errorOf, get, type ApiError, type Query } from "./api.ts";

/** A part of an answer: how many events were read for it, and where the next part begins. */
interface Part {
  events: number;
  next?: string | null;
}

export abstract class Walk<Page extends Part> {
  isRunning = $state(false);
  isDone = $state(false);
  error = $state.raw<ApiError>();
  private controller?: AbortController;
  private query: Query = {};
  private after?: string;

  /** Pages of `path`. Reading pauses after `most` events, and continues on demand. */
  constructor(
    private path: string,
    private most = Infinity,
  ) {}

  /** Adds a page to what was read. */
  protected abstract add(page: Page): void;

  /** Starts at the first page. */
  protected begin(query: Query): void {
    [this.query, this.after, this.isDone] = [query, undefined, false];
    void this.continue();
  }

  /** Reads on from where it stopped. */
  async continue(): Promise<void> {
    this.stop();
    const controller = (this.controller = new AbortController());
    [this.isRunning, this.error] = [true, undefined];
    try {
      for (let events = 0; events < this.most && !this.isDone;) {
        const query = { ...this.query, after: this.after, limit: 100 };
        const page = await get<Page>(this.path, query, controller.signal);
        if (controller.signal.aborted) return;
        this.add(page);
        events += page.events;
        this.after = page.next ?? undefined;
        this.isDone = !page.next;
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      this.error = errorOf(error);
    }
    this.isRunning = false;
  }

  stop(): void {
    this.controller?.abort();
    this.isRunning = false;
  }
}

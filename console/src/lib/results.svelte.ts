/** The results of a batch, read from the newest to the first. */
import { errorOf, request, type ApiError, type Schema } from "./api.ts";
import { compact, type Line } from "./lines.ts";
import { parsePrintable } from "./printable.ts";

/** Number of results of one request, and of those that are kept at most. */
const SIZE = 1_000;
export const MAX_LINES = 20_000;

export class Results {
  /** The last result of each line that was read, the newest first. */
  lines = $state.raw<Line[]>([]);
  /** Results with the numbers `from` + 1 to `to` were read. */
  from = $state(0);
  to = $state(0);
  isReading = $state(false);
  error = $state.raw<ApiError>();
  private last: Promise<unknown> = Promise.resolve();
  private byId = new Map<string, Line>();

  constructor(private id: string) {}

  /** Reads results that were added, up to number `last`. Of more than `step` at once, the newest. Returns false if that fails. */
  newest(last: number, step: number): Promise<boolean> {
    return this.afterOthers(async () => {
      if (last <= this.to) return;
      const isGap = this.to + step < last;
      const after = isGap ? last - step : this.to;
      await this.read(after, last, isGap);
      [this.to, this.from] = [last, isGap ? after : this.from];
    });
  }

  /** Reads this many results before those that were read. */
  older(count: number): Promise<boolean> {
    return this.afterOthers(() => this.back(count));
  }

  /** Reads all results, the newest first, as far as they are kept. Returns false if that fails. */
  async all(): Promise<boolean> {
    const isDone = await this.afterOthers(async () => {
      this.isReading = true;
      while (this.from && this.lines.length < MAX_LINES) await this.back(SIZE);
    });
    this.isReading = false;
    return isDone;
  }

  /** Reads results up to number `last`, and then all. Nothing is complete if this returns false. */
  async upTo(last: number): Promise<boolean> {
    return (await this.newest(last, SIZE)) && (await this.all());
  }

  private async back(count: number): Promise<void> {
    const after = Math.max(0, this.from - count);
    await this.read(after, this.from);
    this.from = after;
  }

  /** Works when all that was asked for before is done. Returns false if the work fails. */
  private afterOthers(work: () => Promise<void>): Promise<boolean> {
    const done = this.last.then(async () => {
      try {
        await work();
        this.error = undefined;
      } catch (error) {
        this.error = errorOf(error);
      }
      return !this.error;
    });
    this.last = done;
    return done;
  }

  private async read(after: number, until: number, isAnew = false): Promise<void> {
    if (until <= after) return;
    const query = { after: after || undefined, limit: until - after };
    const reply = await request("GET", `/v1/batches/${this.id}/results`, { query });
    const texts = (await reply.text()).split("\n");
    if (isAnew) this.byId.clear();
    for (const text of texts) {
      if (!text) continue;
      const line = compact(parsePrintable(text) as Schema<"BatchResult">);
      const known = this.byId.get(line.id);
      if (!known || known.n < line.n) this.byId.set(line.id, line);
    }
    this.lines = [...this.byId.values()].sort((a, b) => b.n - a.n);
  }
}

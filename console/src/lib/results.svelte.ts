/** The results of a batch, read from the newest to the first. */
import { ApiError, request, type Schema } from "./api.ts";
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
  private isBusy = false;
  private byId = new Map<string, Line>();

  constructor(private id: string) {}

  /** Reads results that were added, up to number `last`. Of more than `step` at once, the newest. */
  async newest(last: number, step: number): Promise<void> {
    await this.guarded(async () => {
      if (last <= this.to) return;
      const isGap = this.to + step < last;
      if (isGap) this.byId.clear();
      const after = isGap ? last - step : this.to;
      await this.read(after, last);
      [this.to, this.from] = [last, isGap ? after : this.from];
    });
  }

  /** Reads this many results before those that were read. */
  async older(count: number): Promise<void> {
    await this.guarded(() => this.back(count));
  }

  /** Reads all results, the newest first, as far as they are kept. */
  async all(): Promise<void> {
    await this.guarded(async () => {
      this.isReading = true;
      while (this.from && this.lines.length < MAX_LINES) await this.back(SIZE);
    });
    this.isReading = false;
  }

  private async back(count: number): Promise<void> {
    const after = Math.max(0, this.from - count);
    await this.read(after, this.from);
    this.from = after;
  }

  private async guarded(work: () => Promise<void>): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      await work();
      this.error = undefined;
    } catch (error) {
      this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
    this.isBusy = false;
  }

  private async read(after: number, until: number): Promise<void> {
    if (until <= after) return;
    const query = { after: after || undefined, limit: until - after };
    const reply = await request("GET", `/v1/batches/${this.id}/results`, { query });
    for (const text of (await reply.text()).split("\n")) {
      if (!text) continue;
      const line = compact(parsePrintable(text) as Schema<"BatchResult">);
      const known = this.byId.get(line.id);
      if (!known || known.n < line.n) this.byId.set(line.id, line);
    }
    this.lines = [...this.byId.values()].sort((a, b) => b.n - a.n);
  }
}

/** Server-sent events by `fetch`, because `EventSource` cannot send a key. */
import { request, type Query } from "./api.ts";
import { parsePrintable } from "./printable.ts";

export interface StreamEvent {
  id?: number;
  kind: string;
  data: unknown;
}

/** Reads events until the stream ends or is aborted. Calls `opened` once the API has accepted it. */
export async function follow(
  path: string,
  query: Query,
  signal: AbortSignal,
  take: (event: StreamEvent) => void,
  opened: () => void,
): Promise<void> {
  const reply = await request("GET", path, { query, signal, headers: { Accept: "text/event-stream" } });
  opened();
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const event = parse(block);
      if (event) take(event);
    }
  }
}

function parse(block: string): StreamEvent | undefined {
  let [id, kind, data]: [number | undefined, string, string] = [undefined, "message", ""];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name === "id") id = Number(value);
    else if (name === "event") kind = value;
    else if (name === "data") data += value;
  }
  return data ? { id, kind, data: parsePrintable(data) } : undefined;
}

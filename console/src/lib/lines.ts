/** Checks the lines of a batch file before it is uploaded. The server checks everything again, and more. */

export interface LineError {
  line: number;
  message: string;
}

export interface Checked {
  lines: number;
  errors: LineError[];
  /** Path that every line is sent to; the first one found. */
  endpoint: string;
}

const ENDPOINTS = ["/v1/turns", "/v1/chat/completions", "/v1/responses", "/v1/completions"];
/** Maximum number of errors that are listed. */
const MAX = 100;

export async function checkFile(file: Blob, progress: (share: number) => void = () => {}): Promise<Checked> {
  const checked: Checked = { lines: 0, errors: [], endpoint: "" };
  const known = new Map<string, number>();
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let [rest, line, read] = ["", 0, 0];
  for (;;) {
    const { done, value = "" } = await reader.read();
    const parts = (rest + value).split("\n");
    rest = done ? "" : parts.pop()!;
    for (const text of parts) {
      line += 1;
      if (!text.trim()) continue;
      checked.lines += 1;
      const message = problemOf(text, line, checked, known);
      if (message && checked.errors.length < MAX) checked.errors.push({ line, message });
    }
    if (done) break;
    read += value.length;
    progress(Math.min(1, read / Math.max(1, file.size)));
  }
  if (!checked.lines) checked.errors.push({ line: 1, message: "the file has no lines" });
  return checked;
}

function problemOf(text: string, line: number, checked: Checked, known: Map<string, number>): string | undefined {
  let it: Record<string, any>;
  try {
    it = JSON.parse(text);
  } catch (error) {
    return `not JSON: ${(error as Error).message}`;
  }
  if (it === null || typeof it !== "object" || Array.isArray(it)) return "expected an object";
  if (typeof it.custom_id !== "string" || !it.custom_id) return "custom_id is missing";
  const first = known.get(it.custom_id);
  if (first !== undefined) return `custom_id is the same as in line ${first}`;
  known.set(it.custom_id, line);
  if (it.method !== "POST") return "method must be POST";
  if (!ENDPOINTS.includes(it.url)) return `url must be ${ENDPOINTS.join(" or ")}`;
  checked.endpoint ||= it.url;
  if (it.url !== checked.endpoint) return `url must be the same in all lines: ${checked.endpoint}`;
  if (it.body === null || typeof it.body !== "object") return "body must be an object";
  if (it.url === "/v1/turns" && !it.body.strategy && !it.body.assistant_id && !it.body.thread_id)
    return "body needs strategy or thread_id";
  if (it.url === "/v1/turns" && it.body.input === undefined) return "body.input is missing";
  return undefined;
}

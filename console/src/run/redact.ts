/** Events without their contents: what was said, asked, sent and found, and who did it. What remains is how a run went. */
import type { Fields } from "../lib/events.ts";

/** Names of texts that remain. All others are left out, also those of fields that are not known here. */
const KEPT = new Set(
  `event kind node to resume request response model server strategy status role worker from turn thread time id tool_call_id safety ranking
  ending rating tool_servers tools purpose response_schema`.split(/\s+/),
);
/** Names of tools remain within calls and lists of tools only: elsewhere a name may be that of a person or a file. */
const NAMED = new Set(["call", "tool_calls", "tools"]);
/** Values that are left out whole, of any form: they are from people, models, tools and configurations, and their fields have any names. */
const WHOLE = new Set(
  `arguments facts config parameters structured payload metadata options value accept schema json_schema reply_options request_state note
  read_back extra data result arguments_schema output_schema input_schema`.split(/\s+/),
);
/** Lists of which the number of elements remains. */
const COUNTED = new Set(["facts", "options"]);

export const leftOut = (text: string): string => `[left out: ${Array.from(text).length} characters]`;

export function redacted(event: Fields): Fields {
  return within(event, "", "") as Fields;
}

function within(value: unknown, name: string, parent: string): unknown {
  if (WHOLE.has(name)) return Array.isArray(value) && COUNTED.has(name) ? value.map(() => "[left out]") : "[left out]";
  if (typeof value === "string") {
    const isKept = KEPT.has(name) || (name === "name" && NAMED.has(parent));
    return isKept || !value ? value : leftOut(value);
  }
  if (Array.isArray(value)) return value.map((it) => within(it, name, parent));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, within(it, key, name)]));
}

/** Requests to the API, with its types, errors and the session of the browser. */
import type { components } from "../api.d.ts";
import { parsePrintable, printable } from "./printable.ts";
import { app, compareClock } from "./app.svelte.ts";

export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];
export type Query = Record<string, string | number | boolean | undefined>;

/** A list of which the next page begins after the last item. */
export interface Page<Item> {
  data: Item[];
  has_more: boolean;
}

/** An answer other than success, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

/** Anything thrown, as an error of the API. */
export const errorOf = (thrown: unknown): ApiError =>
  thrown instanceof ApiError ? thrown : new ApiError(0, String(thrown));

interface Options {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Reads a JSON document. Its strings are printable. */
export async function get<Reply>(path: string, query?: Query, signal?: AbortSignal): Promise<Reply> {
  const reply = await request("GET", path, { query, signal });
  return parsePrintable(await reply.text()) as Reply;
}

/** Changes something. */
export async function send<Reply>(method: string, path: string, body?: unknown, query?: Query): Promise<Reply> {
  const headers: Record<string, string> = method === "POST" ? { "Idempotency-Key": randomId() } : {};
  const reply = await request(method, path, { query, body, headers });
  const text = await reply.text();
  return (text ? parsePrintable(text) : undefined) as Reply;
}

export async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  const { query, body, signal } = options;
  const isRaw = body instanceof FormData || body instanceof Blob;
  const headers = { ...identity(), ...options.headers };
  if (body !== undefined && !isRaw) headers["Content-Type"] = "application/json";
  let reply: Response;
  try {
    const content = isRaw ? body : body === undefined ? undefined : JSON.stringify(body);
    reply = await fetch(path + search(query), { method, headers, body: content, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    app.isAway = true;
    throw new ApiError(0, "The API does not answer.", "Check that the engine is running.");
  }
  if (app.isAway) {
    app.isAway = false;
    app.generation += 1;
  }
  // Other documents may come from the cache of the browser, with the date at which they entered it.
  if (path.startsWith("/v1/")) compareClock(reply.headers.get("date"));
  if (reply.ok) return reply;
  const error = await failure(reply);
  if (error.status === 401) app.needsKey = true;
  throw error;
}

/** Headers that say who makes a request. */
function identity(): Record<string, string> {
  // Without this header, the API ignores the cookie of the session. With TLS, it ignores one that another host may have set.
  const headers: Record<string, string> = { "X-Turnfold-Session": location.protocol === "https:" ? "https" : "1" };
  // A header is a string of bytes; names outside ASCII are UTF-8.
  if (app.user) headers["X-Turnfold-User"] = String.fromCharCode(...new TextEncoder().encode(app.user));
  if (app.tenant) headers["X-Turnfold-Tenant"] = app.tenant;
  return headers;
}

export function search(query: Query = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const params = new URLSearchParams(set.map(([name, value]) => [name, String(value)]));
  return set.length ? `?${params}` : "";
}

async function failure(reply: Response): Promise<ApiError> {
  const text = await reply.text().catch(() => "");
  try {
    const body = JSON.parse(text) as Partial<Schema<"Problem">>;
    const message = body.detail ?? reply.statusText;
    return new ApiError(reply.status, printable(message), printable(body.hint ?? ""));
  } catch {
    return new ApiError(reply.status, `The API answered with status ${reply.status}.`);
  }
}

let document: Promise<{ paths: Record<string, unknown> }> | undefined;

/** Reports whether the API has this path, according to its OpenAPI document. */
export async function hasPath(path: string): Promise<boolean> {
  document ??= get("/openapi.json");
  return path in (await document).paths;
}

/** A random id. `crypto.randomUUID` is missing on pages without TLS. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (it) => it.toString(16).padStart(2, "0")).join("");
}

/** The error's message and hint in one line. */
export function explain(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  return error.hint ? `${error.message}; hint: ${error.hint}` : error.message;
}

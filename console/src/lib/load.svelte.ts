/** Data of the API that a view shows: loaded, polled while the page is visible, and loaded again after a failure. */
import { errorOf, type ApiError } from "./api.ts";
import { app } from "./app.svelte.ts";

export class Resource<Value> {
  value = $state.raw<Value>();
  error = $state.raw<ApiError>();
  isLoading = $state(true);
  /** Loads again now. */
  refresh: () => void = () => {};
}

type Load<Value> = (signal: AbortSignal) => Promise<Value>;

/** Longest pause between attempts while the API does not answer. */
const MAX_BACKOFF = 15_000;

/**
 * Loads now, and again whenever state changes that `prepare` reads. With `every`, polls at that interval in milliseconds
 * while the page is visible. A null value ends the polling. What another caller was shown, or what the API now refuses to
 * show, is forgotten.
 */
export function load<Value>(
  prepare: () => Load<Value> | undefined,
  every: number | (() => number) = 0,
): Resource<Value> {
  const resource = new Resource<Value>();
  let last: unknown;
  let identity = app.identity;
  const forget = () => ([last, resource.value] = [undefined, undefined]);
  $effect(() => {
    void app.generation;
    if (identity !== app.identity) {
      [identity, resource.error] = [app.identity, undefined];
      forget();
    }
    const next = prepare();
    if (!next) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    // One request at a time: a refresh during a request causes one more after it.
    let [isRunning, isStale] = [false, false];
    const run = async () => {
      clearTimeout(timer);
      isStale = isRunning;
      if (isRunning) return;
      isRunning = true;
      try {
        const value = await next(controller.signal);
        if (controller.signal.aborted) return;
        const text = JSON.stringify(value);
        if (text !== last) resource.value = value;
        [last, resource.error, failures] = [text, undefined, 0];
      } catch (error) {
        if (controller.signal.aborted) return;
        resource.error = errorOf(error);
        failures += 1;
      }
      [resource.isLoading, isRunning] = [false, false];
      if (isStale) return run();
      const status = resource.error?.status;
      // A refusal or a missing object stays so until the next sign-in.
      const isRefused = status === 401 || status === 403 || status === 404;
      if (isRefused) forget();
      const isWorthRetrying = status === 0 || (status ?? 0) >= 500;
      const usual = typeof every === "number" ? every : every();
      const isFinal = isRefused || resource.value === null;
      const pause = isWorthRetrying ? Math.min(1_000 * 2 ** failures, MAX_BACKOFF) : isFinal ? 0 : usual;
      if (pause && !document.hidden) timer = setTimeout(run, pause);
    };
    const resume = () => {
      if (!document.hidden && every) void run();
    };
    resource.refresh = () => void run();
    document.addEventListener("visibilitychange", resume);
    void run();
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", resume);
    };
  });
  return resource;
}

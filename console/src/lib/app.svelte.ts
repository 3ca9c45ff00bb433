/** State shared by all views: identity, rights, reachability of the API, theme, clock. */
import type { components } from "../api.d.ts";

export const app = $state({
  /** Name recorded in the log with answers, retries and verdicts. */
  user: localStorage.getItem("user") ?? "",
  /** Tenant to act as; for operators. */
  tenant: sessionStorage.getItem("tenant") ?? "",
  /** True while the API requires a key: none was given, or its session is over. */
  needsKey: false,
  /** Reason for which the pages of the issuer signed no one in. */
  refusal: "",
  /** True while the API does not answer. */
  isAway: false,
  /** What the key may do; null until the API has said it. */
  caller: null as components["schemas"]["Caller"] | null,
  /** Increases whenever views should load again: after a sign-in, or when the API answers again. */
  generation: 0,
  /** Increases with every sign-in. What an earlier caller was shown must not remain. */
  identity: 0,
});

/** Acts under this name, and for this tenant. Another key may be in use since. */
export function actAs(user: string, tenant: string): void {
  Object.assign(app, { user, tenant, needsKey: false });
  localStorage.setItem("user", user);
  sessionStorage.setItem("tenant", tenant);
  // Other tabs of the browser have the same session, and read this change.
  localStorage.setItem("session", String(Math.random()));
  app.identity += 1;
  app.generation += 1;
}

/** Forgets what the earlier caller was shown, after another tab began or ended the session. */
addEventListener("storage", (event) => {
  if (event.key !== "session") return;
  Object.assign(app, { user: localStorage.getItem("user") ?? "", caller: null, needsKey: false });
  app.identity += 1;
  app.generation += 1;
});

/** The current time by the clock of the API. It advances every second while the page is visible. */
export const now = $state({ at: Date.now() });
let skew = 0;
const tick = () => (now.at = Date.now() + skew);
setInterval(() => {
  if (!document.hidden) tick();
}, 1_000);

/** Difference to the clock of the API below which the clock of the browser is used, in milliseconds. */
const MAX_SKEW = 5_000;

/** Compares the clock of the browser with the date of a reply, which has whole seconds. */
export function compareClock(date: string | null): void {
  const difference = date ? Date.parse(date) + 500 - Date.now() : 0;
  const next = MAX_SKEW < Math.abs(difference) ? difference : 0;
  if (next === skew || Math.abs(next - skew) < 1_000) return;
  skew = next;
  tick();
}

type Theme = "auto" | "light" | "dark";
const themes: Theme[] = ["auto", "light", "dark"];

export const theme = $state({ name: (localStorage.getItem("theme") ?? "auto") as Theme });

export function applyTheme(): void {
  if (theme.name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.name;
}

export function nextTheme(): void {
  theme.name = themes[(themes.indexOf(theme.name) + 1) % themes.length];
  localStorage.setItem("theme", theme.name);
  applyTheme();
}

/** Short messages about actions that succeeded or failed. */
export const notices = $state<{ id: number; text: string; isError: boolean }[]>([]);
let lastNotice = 0;

export function notify(text: string, isError = false): void {
  const id = (lastNotice += 1);
  notices.push({ id, text, isError });
  setTimeout(() => dismiss(id), isError ? 12_000 : 5_000);
}

export function dismiss(id: number): void {
  const nth = notices.findIndex((it) => it.id === id);
  if (0 <= nth) notices.splice(nth, 1);
}

/** Sign-in with the pages of an issuer: the browser leaves the console, and comes back with a session or with a reason. */
import { actAs, app } from "./app.svelte.ts";
import { href, replace, route } from "./route.svelte.ts";

/** Key under which this tab remembers the view that it left. The API learns no address to send a browser to. */
const LEFT = "left";

/** Reasons of the API for a sign-in that failed, as texts with what to do. */
const REASONS = new Map([
  ["lost", "The sign-in took more than ten minutes, or another tab or browser began it. Begin again."],
  ["denied", "The issuer reports that the sign-in was denied. Begin again, and agree to it."],
  ["reply", "The code of the issuer is used or expired. Begin again."],
  ["token", "The token of the issuer is not valid here. An operator compares [api.oidc] with the issuer."],
  ["no-tenant", "Your account at the issuer has no tenant of this API. An operator of the issuer can give it one."],
  [
    "too-long",
    "The token of the issuer is too long for a cookie. An operator of the issuer can leave claims out of it.",
  ],
  ["unavailable", "The issuer does not answer. Begin again in a moment."],
  [
    "addresses",
    "The addresses of the issuer cannot be read. Begin again in a moment; the cause is in the API's own log.",
  ],
  ["client", "The issuer does not accept this API as a client. The cause is in the API's own log."],
  ["too-many", "Many sign-ins from your address failed. Begin again in a few seconds."],
]);

/** Remembers the view before the browser leaves for the pages of the issuer, and acts under this name afterwards. */
export function leave(user: string): void {
  sessionStorage.setItem(LEFT, location.hash);
  app.user = user;
  localStorage.setItem("user", user);
}

/** Returns to the view that the browser left, if it comes back from the pages of the issuer. */
export function arrive(): void {
  const outcome = route.query.sign_in;
  if (route.path.length || !outcome) return;
  const left = sessionStorage.getItem(LEFT);
  sessionStorage.removeItem(LEFT);
  replace(left?.startsWith("#/") ? left : href(""));
  if (outcome === "done") actAs(app.user, "");
  else app.refusal = REASONS.get(outcome) ?? "The sign-in failed. Begin again; the cause is in the API's own log.";
}

/** Sign-in: the API keeps the key in a cookie that no script can read. */
import { ApiError, request } from "./api.ts";
import { actAs, app } from "./app.svelte.ts";

/** Starts a session with a key, if one is given, and acts under this name. Returns false if the API refuses the key. */
export async function signIn(key: string, user: string, tenant: string): Promise<boolean> {
  if (key) {
    const neededKey = app.needsKey;
    try {
      await request("POST", "/v1/session", { headers: { Authorization: `Bearer ${key}` } });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      // A session that began before goes on.
      app.needsKey = neededKey;
      return false;
    }
  }
  actAs(user, tenant);
  return true;
}

/** Ends the session. A session that is over already is no error. */
export async function signOut(): Promise<void> {
  await request("DELETE", "/v1/session").catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  });
  actAs(app.user, "");
}

/** Ends the session, and leaves for the page of the issuer that ends the one there. It leads back to the console. */
export async function signOutAt(url: string): Promise<void> {
  await signOut();
  location.assign(url);
}

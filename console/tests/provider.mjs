/** A certified provider of OpenID Connect, with sign-in pages, on loopback. It is another site than the console: `localhost`. */
import { Provider as OpenIdProvider } from "oidc-provider";
import { freePort } from "./ports.mjs";

/** Characters that a form encodes: the API must encode them, too. */
const SECRET = "a secret+of/the client:%";

/** People of the tenant acme; others have none. */
const OF_ACME = ["ada", "bob"];

export class Provider {
  /** Starts a provider that sends browsers back to this origin. */
  static async start(origin) {
    const provider = new Provider();
    const port = await freePort();
    provider.origin = origin;
    provider.host = `localhost:${port}`;
    const client = {
      client_id: "turnfold",
      client_secret: SECRET,
      redirect_uris: [`${origin}/v1/session/oidc/callback`],
      post_logout_redirect_uris: [`${origin}/`],
    };
    const claims = (id) => ({
      sub: id,
      tenant: OF_ACME.includes(id) ? "acme" : undefined,
      turnfold_scopes: ["submit", "read"],
    });
    const issuer = new OpenIdProvider(`http://${provider.host}`, {
      clients: [client],
      claims: { openid: ["sub", "tenant", "turnfold_scopes"] },
      // The claims are in the ID token, not only at the endpoint of user information.
      conformIdTokenClaims: false,
      findAccount: (_, id) => ({ accountId: id, claims: () => claims(id) }),
      cookies: { keys: ["a key of the test"] },
    });
    provider.server = issuer.listen(port, "127.0.0.1");
    await new Promise((done) => provider.server.once("listening", done));
    return provider;
  }

  /** The configuration of the engine. It finds the addresses in the document of the provider. */
  get config() {
    return `
[api]
keys = ["env:OPERATOR"]

[api.oidc]
issuer = "http://${this.host}"
audience = "turnfold"
scope_claim = "turnfold_scopes"

[api.oidc.sign_in]
client_id = "turnfold"
client_secret = "env:CLIENT_SECRET"
public_url = "${this.origin}"
`;
  }

  get env() {
    return { OPERATOR: "operator-key-1", CLIENT_SECRET: SECRET };
  }

  /** Fills the pages of the provider. */
  async signIn(tab, login) {
    await tab.getByPlaceholder("Enter any login").fill(login);
    await tab.getByPlaceholder("and password").fill("any");
    await tab.getByRole("button", { name: "Sign-in" }).click();
    await tab.getByRole("button", { name: "Continue" }).click();
  }

  /** Agrees on the page of the provider that signs people out. */
  async signOut(tab) {
    await tab.getByRole("button", { name: "Yes, sign me out" }).click();
  }

  stop() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** A real OpenID Connect provider (`oidc-provider`) whose people the test chooses, and a browser that visits it. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import Provider from "oidc-provider";

export const CLIENT = { id: "model-gateway", secret: "a-secret-of-the-gateway-at-the-provider" };

/** Claims of a person beside `sub`. */
export type PersonClaims = Readonly<Record<string, unknown>>;

export interface OpenidProvider {
  readonly issuer: string;
  /** The people by subject. Changes apply to the next sign-in. */
  readonly people: Map<string, PersonClaims>;
  /** Visits the provider as this person. Returns the address to which the provider sends the browser back. */
  visit(url: string, subject: string): Promise<URL>;
  stop(): Promise<void>;
}

const CLAIMS = ["email", "email_verified", "groups", "oid", "roles", "_claim_names"];

export async function startOpenidProvider(redirectUris: readonly string[]): Promise<OpenidProvider> {
  const people = new Map<string, PersonClaims>();
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  const server = createServer((request, response) => handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The provider has no port.");
  const issuer = `http://127.0.0.1:${address.port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: redirectUris }],
    cookies: { keys: ["key"] },
    claims: { openid: ["sub", ...CLAIMS] },
    // As Okta and Entra do: the claims are in the ID token.
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_: unknown, sub: string) => ({
      accountId: sub,
      claims: () => ({ sub, ...people.get(sub) }),
    }),
  });
  const callback = provider.callback();
  handle = (request, response) => {
    if (!request.url?.startsWith("/interaction/")) return callback(request, response);
    void finishInteraction(provider, request, response);
  };
  return {
    issuer,
    people,
    visit: (url, subject) => visit(issuer, url, subject),
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** Signs in the person whom the browser names, who agrees to everything. */
async function finishInteraction(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const accountId = String(request.headers["x-test-person"]);
  const { prompt, params } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    await provider.interactionFinished(request, response, { login: { accountId } });
    return;
  }
  const grant = new provider.Grant({ accountId, clientId: params.client_id });
  grant.addOIDCScope("openid email profile");
  await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

const REDIRECTS_MAX = 10;

/** Follows redirects with cookies until one leaves the provider. */
async function visit(issuer: string, start: string, subject: string): Promise<URL> {
  const cookies = new Map<string, string>();
  let url = new URL(start);
  for (let i = 0; i < REDIRECTS_MAX; i++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", headers: { cookie, "x-test-person": subject } });
    for (const line of response.headers.getSetCookie()) {
      const [name = "", value = ""] = line.split(";", 1)[0]?.split("=", 2) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get("location");
    if (location === null)
      throw new Error(`The provider returned ${response.status}: ${await response.text()}`);
    url = new URL(location, url);
    if (url.origin !== issuer) return url;
  }
  throw new Error("The provider redirected too often.");
}

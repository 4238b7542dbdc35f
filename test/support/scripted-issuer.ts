/** An issuer that the test scripts completely: its documents, its keys and every ID token. */

import { createHmac, createPrivateKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
/** A key that the issuer does not publish. */
export const FOREIGN_KEY: KeyObject = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
export const ISSUER_KEY: KeyObject = createPrivateKey(privateKey.export({ type: "pkcs8", format: "pem" }));
export const PUBLIC_PEM: string = publicKey.export({ type: "spki", format: "pem" }).toString();
const KEY_ID = "one";

export type Respond = (request: Request) => Response | Promise<Response>;

export interface ScriptedIssuer {
  readonly issuer: string;
  /** Responses that replace the ordinary ones, by path. */
  readonly overrides: Map<string, Respond>;
  /** The ID token of the next exchange; made from the nonce of the flow. */
  idToken: (nonce: string) => string;
  /** Claims of the userinfo endpoint. */
  userinfo: Record<string, unknown>;
  /** Claims of a valid token for the client `gateway`. */
  claims(nonce: string, more?: Record<string, unknown>): Record<string, unknown>;
  /** The address to which the provider returns a browser that started at `url`. */
  comeBack(url: string, more?: Record<string, string>): URL;
  /** Requests so far, by path. */
  readonly requests: string[];
  stop(): Promise<void>;
}

export function startScriptedIssuer(): ScriptedIssuer {
  const overrides = new Map<string, Respond>();
  const requests: string[] = [];
  let nonce = "";
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const { pathname } = new URL(request.url);
      requests.push(pathname);
      return overrides.get(pathname)?.(request) ?? respond(pathname);
    },
  });
  const issuer = `http://127.0.0.1:${server.port}`;
  function respond(pathname: string): Response {
    switch (pathname) {
      case "/.well-known/openid-configuration":
        return Response.json(describeIssuer(issuer));
      case "/jwks":
        return Response.json({ keys: [publishedKey()] });
      case "/token":
        return Response.json({
          access_token: "access",
          token_type: "Bearer",
          id_token: scripted.idToken(nonce),
        });
      case "/userinfo":
        return Response.json(scripted.userinfo);
      default:
        return new Response("unknown", { status: 404 });
    }
  }
  const scripted: ScriptedIssuer = {
    issuer,
    overrides,
    requests,
    userinfo: { sub: "mallory" },
    idToken: (value) => signToken(scripted.claims(value)),
    claims(value, more = {}) {
      const nowSeconds = Math.floor(Date.now() / 1000);
      const person = { sub: "mallory", email: "mallory@example.com", email_verified: true };
      const times = { iat: nowSeconds, exp: nowSeconds + 300 };
      return { iss: issuer, aud: "gateway", nonce: value, ...times, ...person, ...more };
    },
    comeBack(url, more = {}) {
      const { searchParams } = new URL(url);
      nonce = searchParams.get("nonce") ?? "";
      const returned = new URL(searchParams.get("redirect_uri") ?? "");
      returned.searchParams.set("code", "a-code");
      returned.searchParams.set("state", searchParams.get("state") ?? "");
      for (const [name, value] of Object.entries(more)) returned.searchParams.set(name, value);
      return returned;
    },
    stop: () => server.stop(true),
  };
  return scripted;
}

export function describeIssuer(issuer: string): Record<string, unknown> {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    // A hostile or careless provider offers everything.
    id_token_signing_alg_values_supported: ["RS256", "HS256", "none"],
  };
}

function publishedKey(): Record<string, unknown> {
  return { ...publicKey.export({ format: "jwk" }), kid: KEY_ID, alg: "RS256", use: "sig" };
}

interface TokenSignature {
  alg?: string;
  kid?: string | null;
  key?: KeyObject;
  /** For HS256. */
  secret?: string;
  /** More members of the header. */
  header?: Record<string, unknown>;
}

export function signToken(
  claims: Record<string, unknown>,
  { alg = "RS256", kid = KEY_ID, key = ISSUER_KEY, secret, header: more = {} }: TokenSignature = {},
): string {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const header = { alg, typ: "JWT", ...(kid === null ? {} : { kid }), ...more };
  const signed = `${encode(header)}.${encode(claims)}`;
  if (alg === "none") return `${signed}.`;
  const signature =
    secret === undefined
      ? sign("sha256", Buffer.from(signed), key).toString("base64url")
      : createHmac("sha256", secret).update(signed).digest("base64url");
  return `${signed}.${signature}`;
}

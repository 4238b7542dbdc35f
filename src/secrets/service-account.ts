/** The key of a Google service account: reads its JSON file and signs the requests for access tokens. */

import { createPrivateKey, type KeyObject, sign } from "node:crypto";

export interface ServiceAccount {
  readonly email: string;
  readonly keyId: string;
  readonly key: KeyObject;
  /** Null if the file names no project. */
  readonly project: string | null;
  readonly tokenUrl: string;
}

/** Google's token endpoints. An account with its own `base_url` may use a token endpoint at the same origin. */
const TOKEN_URLS: readonly string[] = [
  "https://oauth2.googleapis.com/token",
  "https://accounts.google.com/o/oauth2/token",
];
const TOKEN_URL_DEFAULT = "https://oauth2.googleapis.com/token";

export type ServiceAccountProblem =
  | "not_json"
  | "wrong_type"
  | "missing_field"
  | "bad_key"
  | "foreign_token_url";

/** Where signed assertions are sent: Google's, or of the same origin as the account's base URL. */
export function parseServiceAccount(text: string, baseUrl: string): ServiceAccount | ServiceAccountProblem {
  const file = parseObject(text);
  if (file === null) return "not_json";
  const { type, client_email: email, private_key_id: keyId, private_key: pem, project_id: project } = file;
  if (type !== "service_account") return "wrong_type";
  if (!isShortText(email) || !isShortText(keyId) || typeof pem !== "string") return "missing_field";
  const tokenUrl = file.token_uri ?? TOKEN_URL_DEFAULT;
  if (typeof tokenUrl !== "string" || !isTokenUrl(tokenUrl, baseUrl)) return "foreign_token_url";
  const key = parseKey(pem);
  if (key === null) return "bad_key";
  return { email, keyId, key, project: isProjectId(project) ? project : null, tokenUrl };
}

const PROJECT_ID = /^(?:[a-z0-9.-]{1,63}:)?[a-z][a-z0-9-]{4,61}[a-z0-9]$/;

/** A project id, also one with the domain of its organization before a colon. */
export function isProjectId(value: unknown): value is string {
  return typeof value === "string" && PROJECT_ID.test(value);
}

/** All products of Google Cloud; the roles of the service account limit it. */
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const ASSERTION_SECONDS = 3_600;

/** The signed assertion (JWT, RS256) that is exchanged for an access token. */
export function signAssertion({ email, keyId, key, tokenUrl }: ServiceAccount, nowMs: number): string {
  const issuedAt = Math.floor(nowMs / 1_000);
  const header = { alg: "RS256", typ: "JWT", kid: keyId };
  const claims = {
    iss: email,
    scope: SCOPE,
    aud: tokenUrl,
    iat: issuedAt,
    exp: issuedAt + ASSERTION_SECONDS,
  };
  const signed = `${encode(header)}.${encode(claims)}`;
  return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), key).toString("base64url")}`;
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

function parseKey(pem: string): KeyObject | null {
  try {
    const key = createPrivateKey(pem);
    return key.asymmetricKeyType === "rsa" ? key : null;
  } catch {
    return null;
  }
}

function isShortText(value: unknown): value is string {
  return typeof value === "string" && /^[\x21-\x7e]{1,512}$/.test(value);
}

function isTokenUrl(tokenUrl: string, baseUrl: string): boolean {
  if (TOKEN_URLS.includes(tokenUrl)) return true;
  const [token, base] = [tokenUrl, baseUrl].map((url) => (URL.canParse(url) ? new URL(url) : null));
  return token != null && base != null && token.origin === base.origin && token.username === "";
}

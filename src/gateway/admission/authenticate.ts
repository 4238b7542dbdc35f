/** Bearer → digest → key and group. Memory only: no key, good or bad, costs a query. */

import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { Key, KeyIndex } from "../../policy/key-index.ts";
import type { PolicyGroup, Snapshot } from "../../policy/snapshot.ts";
import type { BadKeyThrottle } from "./bad-keys.ts";

export interface Caller {
  readonly key: Key;
  readonly group: PolicyGroup;
}

export interface Authenticator {
  keys: KeyIndex;
  digest(secret: string): string;
  badKeys: BadKeyThrottle;
  nowMs(): number;
}

/** The client's connection. */
export interface Presenter {
  clientAddress(): string;
  /** The key is right. Left out where the connection is known already, as on a socket. */
  authenticated?(): void;
}

const SECRET_CHARS_MAX = 512;

export function authenticate(
  headers: HeaderReader,
  snapshot: Snapshot,
  auth: Authenticator,
  from: Presenter,
): Caller {
  const digest = presentedDigest(headers, auth);
  if (digest === null && presentedSecret(headers) === null) {
    throw refused("missing_api_key", "No API key was sent. Send it as `Authorization: Bearer <API_KEY>`.");
  }
  const nowMs = auth.nowMs();
  const key = digest === null ? undefined : auth.keys.find(digest, nowMs);
  if (!key) {
    const retryAfterSeconds = auth.badKeys.count(from.clientAddress());
    if (retryAfterSeconds !== null) {
      throw new ApiError(
        "rate_limit_exceeded",
        `Too many wrong API keys came from this address. Correct the key, then try again in ${retryAfterSeconds} s.`,
        { headers: { "retry-after": String(retryAfterSeconds) } },
      );
    }
    throw wrongKey(presentedSecret(headers));
  }
  const caller = callerOf(key, snapshot, nowMs);
  from.authenticated?.();
  return caller;
}

/** Requests of one connection that are alike bring the same headers, and so the same key. */
const known = new WeakMap<HeaderReader, string>();

/** The digest of the key that these headers present; null where there is none, or what can be none. */
export function presentedDigest(headers: HeaderReader, auth: Pick<Authenticator, "digest">): string | null {
  const found = known.get(headers);
  if (found !== undefined) return found;
  const secret = presentedSecret(headers);
  if (secret === null || secret.length > SECRET_CHARS_MAX) return null;
  const digest = auth.digest(secret);
  known.set(headers, digest);
  return digest;
}

/** Whoever was let in with this digest, as things stand now. */
export function lookUpKey(
  digest: string,
  snapshot: Snapshot,
  auth: Pick<Authenticator, "keys" | "nowMs">,
): Caller {
  const nowMs = auth.nowMs();
  const key = auth.keys.find(digest, nowMs);
  if (!key) throw wrongKey(null);
  return callerOf(key, snapshot, nowMs);
}

function callerOf(key: Key, snapshot: Snapshot, nowMs: number): Caller {
  if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) {
    throw incorrect("It has expired. Make a new one, or ask for a later expiry.");
  }
  const group = snapshot.groups.get(key.groupId);
  if (!group) throw incorrect("Its group no longer exists. Make a new key.");
  return { key, group };
}

/** `Authorization: Bearer`, or the headers that Azure and Anthropic style clients send instead. */
function presentedSecret(headers: HeaderReader): string | null {
  const authorization = headers.get("authorization");
  // Some other scheme may be there for a proxy in between; it does not hide the key.
  if (authorization !== null && /^bearer /i.test(authorization))
    return nonEmpty(saidOnce(authorization).slice(7).trim());
  return nonEmpty(headers.get("x-api-key")?.trim()) ?? nonEmpty(headers.get("api-key")?.trim());
}

/** Lines that say the same twice, as some proxies send them, read as one with a comma. */
function saidOnce(lines: string): string {
  if (!lines.includes(",")) return lines;
  const [first = "", ...others] = lines.split(",").map((line) => line.trim());
  return others.every((other) => other === first) ? first : lines;
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : text;
}

function wrongKey(secret: string | null): ApiError {
  return incorrect("It is wrong or has been revoked. Check it, or make a new one.", secret);
}

/** OpenAI's words first: some clients take a 401 without them for a mistake in the request. */
function incorrect(why: string, secret: string | null = null): ApiError {
  const which = secret === null ? "" : shortened(secret);
  return refused("invalid_api_key", `Incorrect API key provided${which}. ${why}`);
}

/** Enough to tell which of somebody's keys it was. Of a secret that is not of our form no part may be shown. */
function shortened(secret: string): string {
  const end = /^gwk_\w{40,}(\w{4})$/.exec(secret)?.[1];
  return end === undefined ? "" : `: gwk_****${end}`;
}

function refused(code: "missing_api_key" | "invalid_api_key", message: string): ApiError {
  return new ApiError(code, message, { headers: { "www-authenticate": "Bearer" } });
}

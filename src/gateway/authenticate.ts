/** Bearer → digest → key and group. Memory only: no key, good or bad, costs a query. */

import { ApiError } from "../errors.ts";
import type { Key, KeyIndex } from "../policy/key-index.ts";
import type { Group, Snapshot } from "../policy/snapshot.ts";
import type { HeaderReader } from "../wire/http-fields.ts";
import type { BadKeyThrottle } from "./bad-keys.ts";

export interface Caller {
  readonly key: Key;
  readonly group: Group;
}

export interface Authenticator {
  keys: KeyIndex;
  digest(secret: string): string;
  badKeys: BadKeyThrottle;
  nowMs(): number;
}

const SECRET_CHARS_MAX = 512;

export function authenticate(
  headers: HeaderReader,
  snapshot: Snapshot,
  auth: Authenticator,
  from: { clientAddress(): string },
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
    throw wrongKey();
  }
  return callerOf(key, snapshot, nowMs);
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
export function recognise(
  digest: string,
  snapshot: Snapshot,
  auth: Pick<Authenticator, "keys" | "nowMs">,
): Caller {
  const nowMs = auth.nowMs();
  const key = auth.keys.find(digest, nowMs);
  if (!key) throw wrongKey();
  return callerOf(key, snapshot, nowMs);
}

function callerOf(key: Key, snapshot: Snapshot, nowMs: number): Caller {
  if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) {
    throw refused("invalid_api_key", "The API key has expired. Make a new one, or ask for a later expiry.");
  }
  const group = snapshot.groups.get(key.groupId);
  if (!group) throw refused("invalid_api_key", "The API key's group no longer exists. Make a new key.");
  return { key, group };
}

/** `Authorization: Bearer`, or the headers that Azure and Anthropic style clients send instead. */
function presentedSecret(headers: HeaderReader): string | null {
  const authorization = headers.get("authorization");
  // Some other scheme may be there for a proxy in between; it does not hide the key.
  if (authorization !== null && /^bearer /i.test(authorization))
    return nonEmpty(authorization.slice(7).trim());
  return nonEmpty(headers.get("x-api-key")?.trim()) ?? nonEmpty(headers.get("api-key")?.trim());
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : text;
}

function wrongKey(): ApiError {
  return refused("invalid_api_key", "The API key is wrong or has been revoked. Check it, or make a new one.");
}

function refused(code: "missing_api_key" | "invalid_api_key", message: string): ApiError {
  return new ApiError(code, message, { headers: { "www-authenticate": "Bearer" } });
}

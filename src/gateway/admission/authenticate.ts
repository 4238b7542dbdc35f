/**
 * Authenticates a caller: bearer token → digest → key and group. Works in memory: no key, valid or invalid, causes a
 * query.
 */

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
  /** Called when the key is valid. Absent if the connection is already authenticated, as on a WebSocket. */
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
    throw authenticationError(
      "missing_api_key",
      "No API key was sent. Send it as `Authorization: Bearer <API_KEY>`.",
    );
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
  const caller = resolveCaller(key, snapshot, nowMs);
  from.authenticated?.();
  return caller;
}

/** Requests on one connection often share the same headers object, and therefore the same key. */
const knownDigests = new WeakMap<HeaderReader, string>();

/** The digest of the key in these headers; null if there is none or if it is too long to be one. */
export function presentedDigest(headers: HeaderReader, auth: Pick<Authenticator, "digest">): string | null {
  const knownDigest = knownDigests.get(headers);
  if (knownDigest !== undefined) return knownDigest;
  const secret = presentedSecret(headers);
  if (secret === null || secret.length > SECRET_CHARS_MAX) return null;
  const digest = auth.digest(secret);
  knownDigests.set(headers, digest);
  return digest;
}

/** Looks up the caller of a digest that was authenticated before, by the current policy. */
export function lookUpKey(
  digest: string,
  snapshot: Snapshot,
  auth: Pick<Authenticator, "keys" | "nowMs">,
): Caller {
  const nowMs = auth.nowMs();
  const key = auth.keys.find(digest, nowMs);
  if (!key) throw wrongKey(null);
  return resolveCaller(key, snapshot, nowMs);
}

function resolveCaller(key: Key, snapshot: Snapshot, nowMs: number): Caller {
  if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) {
    throw incorrectKey("It has expired. Make a new one, or ask for a later expiry.");
  }
  const group = snapshot.groups.get(key.groupId);
  if (!group) throw incorrectKey("Its group no longer exists. Make a new key.");
  return { key, group };
}

/** `Authorization: Bearer`, or the headers that Azure and Anthropic style clients send instead. */
function presentedSecret(headers: HeaderReader): string | null {
  const authorization = headers.get("authorization");
  // Another scheme may be there for a proxy; the key is then in one of the other headers.
  if (authorization !== null && /^bearer /i.test(authorization))
    return nonEmpty(removeRepeats(authorization).slice(7).trim());
  return nonEmpty(headers.get("x-api-key")?.trim()) ?? nonEmpty(headers.get("api-key")?.trim());
}

/** Some proxies repeat the header. Identical values, joined by a comma, count as one. */
function removeRepeats(lines: string): string {
  if (!lines.includes(",")) return lines;
  const [first = "", ...others] = lines.split(",").map((line) => line.trim());
  return others.every((other) => other === first) ? first : lines;
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : text;
}

function wrongKey(secret: string | null): ApiError {
  return incorrectKey("It is wrong or has been revoked. Check it, or make a new one.", secret);
}

/** Starts with OpenAI's wording: some clients treat a 401 without it as an invalid request. */
function incorrectKey(hint: string, secret: string | null = null): ApiError {
  const maskedKey = secret === null ? "" : maskSecret(secret);
  return authenticationError("invalid_api_key", `Incorrect API key provided${maskedKey}. ${hint}`);
}

/**
 * The last four characters, enough to identify which key it was. No part of a secret in another format may be shown.
 */
function maskSecret(secret: string): string {
  const end = /^gwk_\w{40,}(\w{4})$/.exec(secret)?.[1];
  return end === undefined ? "" : `: gwk_****${end}`;
}

function authenticationError(code: "missing_api_key" | "invalid_api_key", message: string): ApiError {
  return new ApiError(code, message, { headers: { "www-authenticate": "Bearer" } });
}

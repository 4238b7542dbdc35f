/** Authenticates in memory: bearer token → digest → key and group. No key causes a query. */

import { ApiError } from "../../errors.ts";
import { isInNetworks } from "../../net/http-server/networks.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { Key, KeyIndex, PresentedSecret } from "../../policy/key-index.ts";
import type { PolicyGroup, Snapshot } from "../../policy/snapshot.ts";
import { hashImported } from "../../secrets/api-key.ts";
import type { BadKeyThrottle } from "./bad-key-throttle.ts";

export interface Caller {
  readonly key: Key;
  readonly group: PolicyGroup;
}

export interface Authenticator {
  keys: KeyIndex;
  digest(secret: string): string;
  badKeys: BadKeyThrottle;
  /** Secrets of which another gateway knew only a plain hash. */
  imported: {
    /** How long after the import a first use is accepted. */
    lifeMs: number;
    /** Called at the first use: stores the keyed digest in place of the hash. */
    adopt(keyId: string, used: PresentedSecret): void;
  };
  /** Decides whether a proxy in front of the gateway is trusted. */
  readonly publicUrl: string;
  nowMs(): number;
}

/** The client's connection. */
interface Presenter {
  /** Of the peer, which may be a proxy. */
  clientAddress(): string;
  /** Of the client, also behind a trusted proxy; null if it is unknown. */
  networkAddress(publicUrl: string): string | null;
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
      "No API key was sent. Send it as `Authorization: Bearer <API_KEY>`, or in `x-goog-api-key` for the Gemini API.",
    );
  }
  const nowMs = auth.nowMs();
  const key =
    digest === null ? undefined : (auth.keys.find(digest, nowMs) ?? findImported(headers, digest, auth));
  if (!key) {
    // Not counted: a tool repeats a request several times before its person signs in again.
    if (digest !== null && auth.keys.isEndedToken(digest, nowMs)) throw endedToken();
    const retryAfterSeconds = auth.badKeys.count(from.clientAddress());
    if (retryAfterSeconds !== null) {
      throw new ApiError(
        "rate_limit_exceeded",
        `Too many requests with invalid API keys came from this address. Check the key, then try again in ${retryAfterSeconds} s.`,
        { headers: { "retry-after": String(retryAfterSeconds) } },
      );
    }
    throw wrongKey(presentedSecret(headers));
  }
  const caller = resolveCaller(key, snapshot, nowMs);
  if (caller.group.requestPolicy !== null) allowNetwork(caller, from.networkAddress(auth.publicUrl));
  from.authenticated?.();
  return caller;
}

/** A key of another gateway that knew only the SHA-256 of its secret. The first use replaces it by the keyed digest. */
function findImported(headers: HeaderReader, digest: string, auth: Authenticator): Key | undefined {
  const secret = auth.keys.hasImported ? presentedSecret(headers) : null;
  if (secret === null) return undefined;
  const presented = { sha256Hex: hashImported(secret), digest };
  const key = auth.keys.findImported(presented, { nowMs: auth.nowMs(), lifeMs: auth.imported.lifeMs });
  if (key !== undefined) auth.imported.adopt(key.id, presented);
  return key;
}

/** Requests on one connection often share the same headers object, and therefore the same key. */
const digestByHeaders = new WeakMap<HeaderReader, string>();

/** The digest of the key in these headers; null if there is none or if it is too long to be one. */
export function presentedDigest(headers: HeaderReader, auth: Pick<Authenticator, "digest">): string | null {
  const cached = digestByHeaders.get(headers);
  if (cached !== undefined) return cached;
  const secret = presentedSecret(headers);
  if (secret === null || secret.length > SECRET_CHARS_MAX) return null;
  const digest = auth.digest(secret);
  digestByHeaders.set(headers, digest);
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
  if (!key) throw auth.keys.isEndedToken(digest, nowMs) ? endedToken() : wrongKey(null);
  return resolveCaller(key, snapshot, nowMs);
}

/** Throws if the key was revoked or has expired since its request was authenticated. */
export function requireActiveKey(
  { id, isTool }: Key,
  { keys, nowMs }: Pick<Authenticator, "keys" | "nowMs">,
): void {
  const key = keys.get(id);
  if (key === undefined) throw isTool ? endedToken() : wrongKey(null);
  rejectExpired(key, nowMs());
}

function rejectExpired({ expiresAtMs, isTool }: Key, nowMs: number): void {
  if (expiresAtMs === null || expiresAtMs > nowMs) return;
  throw isTool ? endedToken() : incorrectKey("The key has expired. Create a new key, or set a later expiry.");
}

function resolveCaller(key: Key, snapshot: Snapshot, nowMs: number): Caller {
  rejectExpired(key, nowMs);
  const group = lookUpGroup(key, snapshot);
  if (!group) throw incorrectKey("The group of the key no longer exists. Create a new key.");
  return { key, group };
}

/** The group as the key sees it: with the request policies of both. */
export function lookUpGroup(
  { groupId, requestPolicy }: Pick<Key, "groupId" | "requestPolicy">,
  { groups }: Pick<Snapshot, "groups">,
): PolicyGroup | undefined {
  const group = groups.get(groupId);
  return group === undefined || requestPolicy === null ? group : group.tightenedBy(requestPolicy);
}

/** Throws unless the request policy admits the client's network. The error does not name the networks. */
export function allowNetwork({ group: { requestPolicy } }: Caller, address: string | null): void {
  if (requestPolicy === null) return;
  const { networks, unusable } = requestPolicy;
  if (unusable !== null) {
    throw new ApiError(
      "policy_violation",
      `The request policy "${unusable}" of this key has rules that this version of the gateway does not know. Ask your administrator.`,
    );
  }
  if (networks.every((list) => address !== null && isInNetworks(address, list))) return;
  throw new ApiError(
    "network_not_allowed",
    "This key cannot be used from your network. Use an allowed network, or ask your administrator.",
    { rule: "networks" },
  );
}

/** `Authorization: Bearer`, or the headers that clients of Azure, Anthropic and Google send instead. */
export function presentedSecret(headers: HeaderReader): string | null {
  const authorization = headers.get("authorization");
  // Another scheme may be there for a proxy; the key is then in one of the other headers.
  if (authorization !== null && /^bearer /i.test(authorization) && !prefersApiKey(headers))
    return nonEmpty(removeRepeats(authorization).slice(7).trim());
  return (
    nonEmpty(headers.get("x-api-key")?.trim()) ??
    nonEmpty(headers.get("api-key")?.trim()) ??
    nonEmpty(headers.get("x-goog-api-key")?.trim())
  );
}

/** Anthropic's API prefers `x-api-key` if a client sends both. */
function prefersApiKey(headers: HeaderReader): boolean {
  return headers.has("anthropic-version") && nonEmpty(headers.get("x-api-key")?.trim()) !== null;
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
  return incorrectKey("The key is invalid or has been revoked. Check the key, or create a new one.", secret);
}

function endedToken(): ApiError {
  return incorrectKey(
    "The sign-in of this tool has ended. Sign in again: /login in Claude Code, `model-gateway login` for other tools.",
  );
}

/** Starts with OpenAI's wording: some clients treat a 401 without it as an invalid request. */
function incorrectKey(hint: string, secret: string | null = null): ApiError {
  const maskedKey = secret === null ? "" : maskSecret(secret);
  return authenticationError("invalid_api_key", `Incorrect API key provided${maskedKey}. ${hint}`);
}

/** The last four characters identify the key. No part of a secret in another format may be shown. */
function maskSecret(secret: string): string {
  const end = /^gwk_\w{40,}(\w{4})$/.exec(secret)?.[1];
  return end === undefined ? "" : `: gwk_****${end}`;
}

function authenticationError(code: "missing_api_key" | "invalid_api_key", message: string): ApiError {
  return new ApiError(code, message, { headers: { "www-authenticate": "Bearer" } });
}

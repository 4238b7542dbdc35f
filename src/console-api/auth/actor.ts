/** Authenticates a request of the console API by its token or its session cookie. */

import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { isAccessToken, isServiceToken, secretDigest } from "../../secrets/random-secret.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  findAccessToken,
  lockAccessToken,
  needsAdmin,
  touchAccessToken,
} from "../../store/identity/access-tokens.ts";
import {
  findServiceToken,
  lockServiceToken,
  touchServiceToken,
} from "../../store/identity/service-tokens.ts";
import { findSession, lockSession, type SessionBounds, touchSession } from "../../store/identity/sessions.ts";
import type { StoreContext } from "../context.ts";
import { presentedSession } from "../http/cookies.ts";
import type { Actor, ApiCaller, ServiceActor } from "../http/route.ts";

export interface PresentedCredentials {
  headers: HeaderReader;
  clientAddress: string;
}

/** Null for an anonymous request. An invalid token is rejected: its sender expects authentication. */
export async function findActor(
  context: StoreContext,
  presented: PresentedCredentials,
): Promise<ApiCaller | null> {
  const token = readBearer(presented.headers);
  if (token === null) return findSessionActor(context, presented);
  return isServiceToken(token) ? findServiceActor(context, token) : findTokenActor(context, token);
}

export function readBearer(headers: HeaderReader): string | null {
  const match = /^bearer(?: +(.*))?$/i.exec(headers.get("authorization") ?? "");
  return match === null ? null : (match[1] ?? "");
}

async function findTokenActor({ installation }: StoreContext, secret: string): Promise<Actor> {
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const found = isAccessToken(secret) ? await findAccessToken(db, secretDigest(secret), nowMs) : null;
  if (found === null) {
    throw new ApiError(
      "sign_in_required",
      secret.startsWith("gwk_")
        ? "This is an API key, which can only call models. Send a personal access token, which begins with gwp_."
        : "The personal access token is invalid, expired or revoked. Create a new one in the console.",
      { headers: { "www-authenticate": "Bearer" } },
    );
  }
  const { token, owner } = found;
  if (needsAdmin(token.scope) && owner.role !== "admin") {
    throw new ApiError(
      "forbidden",
      `This personal access token has the scope \`${token.scope}\`, but its owner is not an administrator. Create a token with the scope \`read\` or \`keys\`.`,
    );
  }
  if (nowMs - (token.usedAtMs ?? 0) > limits.lastUseMs) await touchAccessToken(db, token.id, nowMs);
  return { ...owner, kind: "person", via: { kind: "token", id: token.id, scope: token.scope } };
}

async function findServiceActor({ installation }: StoreContext, secret: string): Promise<ServiceActor> {
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const found = await findServiceToken(db, secretDigest(secret), nowMs);
  if (found === null) {
    throw new ApiError(
      "sign_in_required",
      "The token of the service account is invalid, expired, replaced or revoked. An administrator can create a new one.",
      { headers: { "www-authenticate": "Bearer" } },
    );
  }
  const { token, account } = found;
  if (nowMs - (token.usedAtMs ?? 0) > limits.lastUseMs) await touchServiceToken(db, token.id, nowMs);
  return { kind: "service", account, tokenId: token.id };
}

async function findSessionActor(
  { installation }: StoreContext,
  { headers, clientAddress }: PresentedCredentials,
): Promise<Actor | null> {
  const secret = presentedSession(headers);
  if (secret === null || secret === "") return null;
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const found = await findSession(db, secretDigest(secret), sessionBounds(nowMs));
  if (found === null) return null;
  const { session, owner } = found;
  if (nowMs - session.seenAtMs > limits.lastUseMs) {
    await touchSession(db, session.id, {
      seenAtMs: nowMs,
      address: clientAddress,
      userAgent: readUserAgent(headers),
    });
  }
  return { ...owner, kind: "person", via: { kind: "session", id: session.id } };
}

/**
 * For the transaction of a change that gives access, such as a new key: fails when a reset has ended the caller's session
 * or token since the request was accepted. The row stays locked, so that a later reset also ends what is created.
 */
export async function requireLiveActor(tx: Db, caller: ApiCaller): Promise<void> {
  if (!(await lockCredential(tx, caller)))
    throw new ApiError("sign_in_required", "Your session or token has ended. Sign in again.");
}

function lockCredential(tx: Db, caller: ApiCaller): Promise<boolean> {
  if (caller.kind === "service") return lockServiceToken(tx, caller.tokenId);
  const { via } = caller;
  return via.kind === "session" ? lockSession(tx, via.id) : lockAccessToken(tx, via.id);
}

export function sessionBounds(nowMs: number): SessionBounds {
  return { createdAfterMs: nowMs - limits.sessionMs, seenAfterMs: nowMs - limits.sessionIdleMs };
}

const USER_AGENT_CHARS_MAX = 400;

export function readUserAgent(headers: HeaderReader): string {
  return (headers.get("user-agent") ?? "").slice(0, USER_AGENT_CHARS_MAX);
}

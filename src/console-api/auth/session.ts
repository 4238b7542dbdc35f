/** Begins a session with a new cookie. The previous session of the browser ends. */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { mintSecret, secretDigest } from "../../secrets/random-secret.ts";
import type { Db } from "../../store/engine/db.ts";
import { markSignedIn } from "../../store/identity/credentials.ts";
import {
  deleteSession,
  deleteSessionByDigest,
  insertSession,
  listSessions,
} from "../../store/identity/sessions.ts";
import { presentedSession, sessionCookie } from "../http/cookies.ts";
import type { RawRouteInput } from "../http/route.ts";

export type NewSession = Pick<RawRouteInput, "headers" | "clientAddress" | "userAgent">;

/** Returns the cookie to send. */
export async function beginSession(
  tx: Db,
  { clock, newId, randomBytes }: Installation,
  { headers, clientAddress, userAgent }: NewSession,
  userId: string,
): Promise<string> {
  const nowMs = clock.nowMs();
  const before = presentedSession(headers);
  if (before !== null) await deleteSessionByDigest(tx, secretDigest(before));
  const { secret, digest } = mintSecret(randomBytes);
  const session = { createdAtMs: nowMs, seenAtMs: nowMs, address: clientAddress, userAgent };
  await insertSession(tx, { id: newId("ses"), userId, ...session }, digest);
  await markSignedIn(tx, userId, nowMs);
  const all = await listSessions(tx, userId, { createdAfterMs: 0, seenAfterMs: 0 });
  for (const { id } of all.slice(limits.sessionsMax)) await deleteSession(tx, userId, id);
  return sessionCookie(secret, limits.sessionMs);
}

export function withCookie(response: unknown, cookie: string): Response {
  return Response.json(response, { headers: { "set-cookie": cookie } });
}

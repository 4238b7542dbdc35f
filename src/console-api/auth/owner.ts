/** Determines the user that a route is about: the caller or, for administrators, a user that they name. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { Db } from "../../store/engine/db.ts";
import { findKey } from "../../store/policy/keys.ts";
import type { Actor } from "../http/route.ts";

/** Query fields of a route that administrators may call for another user. */
export const ownerQuery = { user: z.string().max(100).optional() };

export function resolveOwner(actor: Actor, user: string | undefined): string {
  if (user === undefined || user === actor.userId) return actor.userId;
  if (actor.role === "admin") return user;
  throw new ApiError("forbidden", "Only administrators may request the data of other users. Remove `user`.", {
    param: "user",
  });
}

/** A key of another user is reported as not found. */
export async function ownKey(db: Db, actor: Actor, id: string): Promise<KeyRecord> {
  const key = await findKey(db, id);
  if (key !== null && (actor.role === "admin" || key.userId === actor.userId)) return key;
  throw new ApiError("not_found", "You have no such key. GET /api/keys lists your keys.");
}

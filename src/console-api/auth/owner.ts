/** Determines the user that a route is about: the caller or, for administrators and auditors, a user that they name. */

import { z } from "zod";
import { ApiError, paramError } from "../../errors.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { Db } from "../../store/engine/db.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { findKey } from "../../store/policy/keys.ts";
import type { StoreContext } from "../context.ts";
import { fieldError } from "../http/field-error.ts";
import { type Actor, type ApiCaller, seesEverything } from "../http/route.ts";

/** Query fields of a reading route that administrators and auditors may call for another user. */
export const ownerQuery = { user: z.string().max(254).optional() };

export function resolveOwner(actor: Actor, user: string | undefined): string {
  if (user === undefined || user === actor.userId) return actor.userId;
  if (seesEverything(actor)) return user;
  throw paramError(
    "user",
    "forbidden",
    "Only administrators may request the data of other users. Remove `user`.",
  );
}

/** As `resolveOwner`. A service account has no wallet of its own: it names a user, by id or by address. */
export async function resolveWalletOwner(
  context: StoreContext,
  caller: ApiCaller,
  user: string | undefined,
): Promise<string> {
  if (caller.kind === "person") return resolveOwner(caller, user);
  if (user !== undefined) return resolveNamedUser(context, caller, user);
  throw fieldError("user", "missing_required_parameter", "is missing. Name a user by id or address.");
}

/** The id of a user. Service accounts may also send the address, which other systems know. */
export async function resolveNamedUser(
  { installation: { db } }: StoreContext,
  caller: ApiCaller,
  idOrAddress: string,
): Promise<string> {
  if (caller.kind === "person" || !idOrAddress.includes("@")) return idOrAddress;
  const user = await findUserByEmail(db, idOrAddress);
  if (user !== null) return user.id;
  throw paramError("user", "not_found", "No user has this address.");
}

/** A key that the caller may change. A key of another user is reported as not found. */
export function ownKey(db: Db, actor: Actor, id: string): Promise<KeyRecord> {
  return requireKey(db, id, ({ userId }) => actor.role === "admin" || userId === actor.userId);
}

/** A key whose usage the caller may read. */
export function readableKey(db: Db, actor: Actor, id: string): Promise<KeyRecord> {
  return requireKey(db, id, ({ userId }) => seesEverything(actor) || userId === actor.userId);
}

async function requireKey(db: Db, id: string, isAllowed: (key: KeyRecord) => boolean): Promise<KeyRecord> {
  const key = await findKey(db, id);
  if (key !== null && isAllowed(key)) return key;
  throw new ApiError("not_found", "You have no such key. GET /api/keys lists your keys.");
}

/** The one-time token that makes the first administrator: its digest in the store, itself in a file of its owner's. */

import { createHash } from "node:crypto";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { z } from "zod";
import type { Db } from "../store/db.ts";
import { readSetting, writeSetting } from "../store/settings.ts";
import { listUsers } from "../store/users.ts";
import type { Installation } from "./installation.ts";
import { limits } from "./limits.ts";

export const CLAIM_SETTING = "admin_claim";
const claimForm = z.object({ digest: z.string(), expiresAtMs: z.number() });
export type AdminClaim = z.output<typeof claimForm>;

/** Makes a token while there is no administrator; false once there is one. */
export async function offerAdminClaim(installation: Installation): Promise<boolean> {
  const { db, settings, clock } = installation;
  if ((await listUsers(db)).some(({ role }) => role === "admin")) return false;
  const present = await readClaim(db);
  if (present !== null && present.expiresAtMs > clock.nowMs() && existsSync(settings.adminTokenFile))
    return true;
  const token = Buffer.from(installation.randomBytes(32)).toString("base64url");
  const claim: AdminClaim = { digest: digestOf(token), expiresAtMs: clock.nowMs() + limits.adminClaimTtlMs };
  writeFileSync(settings.adminTokenFile, `${token}\n`, { mode: 0o600 });
  chmodSync(settings.adminTokenFile, 0o600);
  await writeSetting(db, CLAIM_SETTING, JSON.stringify(claim));
  return true;
}

export async function readClaim(db: Db): Promise<AdminClaim | null> {
  const text = await readSetting(db, CLAIM_SETTING);
  if (text === null) return null;
  const claim = claimForm.safeParse(JSON.parse(text));
  return claim.success ? claim.data : null;
}

export function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

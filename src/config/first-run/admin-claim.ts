/**
 * The one-time link that creates the first administrator. The database stores the digest of its token. The link
 * itself is in a file that only its owner can read, because access to that file proves ownership of the
 * machine.
 */

import { timingSafeEqual } from "node:crypto";
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { NO_LIMITS } from "../../records/limits.ts";
import type { UserRecord } from "../../records/user.ts";
import { mintSecret, secretDigest } from "../../secrets/random-secret.ts";
import { appendChange, type ChangeActor } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { revokeAccess } from "../../store/identity/credentials.ts";
import { canAdministratorSignIn, findUserByEmail, putUser } from "../../store/identity/users.ts";
import { deleteSetting, readSetting, writeSetting } from "../../store/settings/settings.ts";
import type { Installation } from "../installation/installation.ts";
import { limits } from "../limits/product-limits.ts";
import { secretSet } from "../state/difference.ts";

const CLAIM_SETTING = "admin_claim";
const claimForm = z.object({ digest: z.string(), expiresAtMs: z.number() });
type AdminClaim = z.output<typeof claimForm>;

/**
 * Creates a link and writes it to its file, a second time with the public URL if that is different. Returns
 * null once an administrator can sign in. Earlier links become invalid, because the operator may have restarted
 * after one leaked.
 */
export async function offerAdminClaim(
  installation: Installation,
  url: string,
  publicUrl: string | null = null,
): Promise<string | null> {
  const { db, settings, clock } = installation;
  if (await canAdministratorSignIn(db)) {
    await deleteSetting(db, CLAIM_SETTING);
    rmSync(settings.adminTokenFile, { force: true });
    return null;
  }
  const token = mintSecret(installation.randomBytes).secret;
  const claim: AdminClaim = {
    digest: secretDigest(token),
    expiresAtMs: clock.nowMs() + limits.adminClaimTtlMs,
  };
  await writeSetting(db, CLAIM_SETTING, JSON.stringify(claim));
  const link = `${url}/console/claim#${token}`;
  const publicLine = publicUrl === null ? "" : `${publicUrl}/console/claim#${token}\n`;
  writeFileSync(settings.adminTokenFile, `${link}\n${publicLine}`, { mode: 0o600 });
  chmodSync(settings.adminTokenFile, 0o600);
  return link;
}

/** Reads the token that follows the `#` of each link in the file. */
export function readToken(file: string): string | null {
  try {
    return readFileSync(file, "utf8").trim().split("#").at(-1) ?? null;
  } catch {
    return null;
  }
}

/** True if a link was created and no administrator exists yet. */
export async function isUnclaimed(db: Db): Promise<boolean> {
  return (await readClaim(db)) !== null && !(await canAdministratorSignIn(db));
}

async function readClaim(db: Db): Promise<AdminClaim | null> {
  const text = await readSetting(db, CLAIM_SETTING);
  if (text === null) return null;
  const claim = claimForm.safeParse(JSON.parse(text));
  return claim.success ? claim.data : null;
}

/** `none`: no link was created; `claimed`: an administrator can sign in already. */
export type ClaimRejection = "none" | "claimed" | "wrong" | "expired";

export class ClaimRejected extends Error {
  override readonly name = "ClaimRejected";
  readonly reason: ClaimRejection;
  constructor(reason: ClaimRejection) {
    super(`The administrator account cannot be claimed: ${reason}.`);
    this.reason = reason;
  }
}

/** Returns null if the token is valid. */
export async function checkClaim(db: Db, token: string, nowMs: number): Promise<ClaimRejection | null> {
  if (await canAdministratorSignIn(db)) return "claimed";
  const claim = await readClaim(db);
  if (claim === null) return "none";
  if (!matchesClaim(claim, token)) return "wrong";
  return claim.expiresAtMs <= nowMs ? "expired" : null;
}

interface ClaimRequest {
  token: string;
  email: string;
  passwordHash: string;
  /** The operator on the command line, or null for the new administrator in a browser. */
  actor: ChangeActor | null;
  address: string | null;
}

/** Throws `ClaimRejected`. */
export async function claimAdministrator(
  { db, settings, clock, newId }: Installation,
  { token, email, passwordHash, actor, address }: ClaimRequest,
): Promise<UserRecord> {
  const made = await transaction(db, async (tx) => {
    // This takes a lock: of two concurrent claims, one must fail.
    await bumpKeyRevision(tx);
    const rejection = await checkClaim(tx, token, clock.nowMs());
    if (rejection !== null) throw new ClaimRejected(rejection);
    await deleteSetting(tx, CLAIM_SETTING);
    const present = await findUserByEmail(tx, email);
    const user: UserRecord = {
      id: present?.id ?? newId("user"),
      email: present?.email ?? email,
      role: "admin",
      status: "active",
      passwordHash,
      limits: present?.limits ?? NO_LIMITS,
      groups: present?.groups ?? [],
      createdAtMs: present?.createdAtMs ?? clock.nowMs(),
    };
    await putUser(tx, user);
    // The previous owner of the address may be a different person than the holder of the link.
    if (present !== null) await revokeAccess(tx, user.id);
    await appendChange(tx, {
      atMs: clock.nowMs(),
      actor: actor ?? { kind: "user", id: user.id, name: user.email },
      action: "user.claim",
      target: `user ${user.email}`,
      changes: [{ field: "role", from: present?.role ?? null, to: "admin" }, secretSet("password")],
      address,
    });
    return user;
  });
  rmSync(settings.adminTokenFile, { force: true });
  return made;
}

function matchesClaim({ digest }: AdminClaim, token: string): boolean {
  const made = Buffer.from(secretDigest(token));
  const storedDigest = Buffer.from(digest);
  return made.length === storedDigest.length && timingSafeEqual(made, storedDigest);
}

/** Creates one-time links, for users who cannot sign in otherwise. */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { Role } from "../../records/user.ts";
import { mintSecret } from "../../secrets/random-secret.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { insertLink } from "../../store/identity/links.ts";

export type LinkRequest =
  | { purpose: "invite"; email: string; role: Role }
  | { purpose: "reset" | "sign_in"; user: { id: string; email: string } }
  /** The link creates the account. */
  | { purpose: "verify"; email: string };

interface CreatedLink {
  /** Appended to the URL of the console. No server or log on the way sees what follows the `#`. */
  path: string;
  expiresAtMs: number;
}

const PAGES = { invite: "join", reset: "reset", verify: "verify", sign_in: "link" } as const;

export async function createLink(
  tx: Db,
  { clock, newId, randomBytes }: Pick<Installation, "clock" | "newId" | "randomBytes">,
  linkRequest: LinkRequest,
  by: Pick<ChangeEntry, "actor" | "address">,
): Promise<CreatedLink> {
  const { purpose } = linkRequest;
  const { id: userId, email } =
    "user" in linkRequest ? linkRequest.user : { id: null, email: linkRequest.email };
  const role = purpose === "invite" ? linkRequest.role : null;
  const nowMs = clock.nowMs();
  const expiresAtMs = nowMs + limits.linkTtlMs[purpose];
  const { secret, digest } = mintSecret(randomBytes);
  await insertLink(
    tx,
    {
      id: newId("link"),
      purpose,
      email,
      role,
      userId,
      createdAtMs: nowMs,
      createdBy: by.actor.name,
      expiresAtMs,
    },
    digest,
  );
  const changes: FieldChange[] = [
    ...(role === null ? [] : [{ field: "role", from: null, to: role }]),
    { field: "expires", from: null, to: new Date(expiresAtMs).toISOString() },
  ];
  const target = `${purpose === "invite" ? "invitation" : "user"} ${email}`;
  await appendChange(tx, { ...by, atMs: nowMs, action: `link.${purpose}`, target, changes });
  return { path: `/console/${PAGES[purpose]}#${secret}`, expiresAtMs };
}

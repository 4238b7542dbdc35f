/** Issues tokens of service accounts, for the console and the command line. */

import { instantText } from "../../base/time.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { ServiceAccountRecord } from "../../records/service-account.ts";
import { mintServiceToken } from "../../secrets/random-secret.ts";
import type { Db } from "../../store/engine/db.ts";
import { insertServiceToken } from "../../store/identity/service-tokens.ts";
import type { Installation } from "../installation/installation.ts";
import { secretSet } from "../state/difference.ts";

interface IssuedToken {
  /** Shown once. */
  secret: string;
  /** For the audit log. */
  changes: FieldChange[];
}

/** The tokens before it work until the overlap ends. */
export async function issueServiceToken(
  tx: Db,
  { clock, newId, randomBytes }: Pick<Installation, "clock" | "newId" | "randomBytes">,
  { account, overlapMs }: { account: Pick<ServiceAccountRecord, "id">; overlapMs: number },
): Promise<IssuedToken> {
  const { secret, digest } = mintServiceToken(randomBytes);
  const createdAtMs = clock.nowMs();
  const othersUntilMs = createdAtMs + overlapMs;
  const token = {
    id: newId("svt"),
    serviceAccountId: account.id,
    last4: secret.slice(-4),
    createdAtMs,
    worksUntilMs: null,
    usedAtMs: null,
  };
  await insertServiceToken(tx, token, { digest, othersUntilMs });
  return {
    secret,
    changes: [secretSet("token"), { field: "others_until", from: null, to: instantText(othersUntilMs) }],
  };
}

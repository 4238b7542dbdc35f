/** The `balance` of a user: applied once, when the user is created. Then the ledger is authoritative. */

import { type Nano, parseUsd, usdText } from "../../money/nano.ts";
import type { UserRecord } from "../../records/user.ts";
import type { Db } from "../../store/engine/db.ts";
import { postTransfer, userBook } from "../../store/money/ledger.ts";
import type { FileUser } from "../schema/schema.ts";
import type { FieldChange } from "../state/difference.ts";

/** Returns null if there is nothing to post: no balance, or a balance of zero. */
export function readOpeningBalance(wanted: Pick<FileUser, "balance">): Nano | null {
  const nano = wanted.balance === undefined ? 0n : parseUsd(wanted.balance);
  return nano > 0n ? nano : null;
}

export function openingField(amountNano: Nano): FieldChange {
  return { field: "balance", from: null, to: usdText(amountNano) };
}

export async function postOpening(tx: Db, user: UserRecord, amountNano: Nano): Promise<void> {
  await postTransfer(tx, {
    id: `opening:${user.id}`,
    atMs: user.createdAtMs,
    kind: "opening",
    debit: "adjust",
    credit: userBook(user.id),
    amountNano,
    userId: user.id,
    subscriptionId: null,
    requestId: null,
    actor: "apply",
    reason: "balance in the configuration file",
  });
}

/** Notes for existing users whose `balance` in the file is not applied. */
export function openingNotes(
  wanted: readonly FileUser[],
  present: readonly UserRecord[],
  openings: ReadonlyMap<string, Nano>,
): string[] {
  const byEmail = new Map(present.map((user) => [user.email.toLowerCase(), user]));
  return wanted.flatMap((user) => {
    const presentUser = byEmail.get(user.email);
    if (presentUser === undefined || user.balance === undefined) return [];
    const openingNano = openings.get(presentUser.id) ?? 0n;
    if (openingNano === parseUsd(user.balance)) return [];
    return `user ${presentUser.email}: balance ${user.balance} is ignored. The opening balance is set only when a user is created (it was ${usdText(openingNano)}). To change the balance now: npx model-gateway wallet adjust`;
  });
}

import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock, uuidV7 } from "../../base/clock.ts";
import { parseUsd } from "../../money/nano.ts";
import { openDigester } from "../../secrets/api-key.ts";
import { openKeyring } from "../../secrets/keyring.ts";
import type { Db } from "../../store/engine/db.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { exportFile } from "../export/export.ts";
import { applyChanges, planChanges } from "./apply.ts";

async function applied(db: Db, text: string, prune = false) {
  const gateway = {
    db,
    keyring: openKeyring({ file: "/nowhere", fromEnv: Buffer.alloc(32, 1).toString("base64") }),
    digest: openDigester(new Uint8Array(32)),
    clock: systemClock,
    newId: uuidV7,
    randomBytes,
  };
  const result = await planChanges(gateway, { text, fileName: "gateway.yaml", environment: {} }, { prune });
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join());
  await applyChanges(gateway, result.plan);
  return result.plan;
}

const ada = (field: string) => `users: [{ email: ada@example.com${field} }]`;

async function walletOfAda(db: Db) {
  const user = await findUserByEmail(db, "ada@example.com");
  if (user === null) throw new Error("There is no user.");
  return { user, ...(await readWallet(db, user.id)) };
}

eachEngine(({ open }) => {
  test("a new user gets the balance of the file, as a ledger entry", async () => {
    const db = await open();
    const { changes, notes } = await applied(db, ada(', balance: "10.00"'));
    expect(changes[0]?.fields).toContainEqual({ field: "balance", from: null, to: "10.00" });
    expect(notes).toEqual([]);
    const { user, balanceNano } = await walletOfAda(db);
    expect(balanceNano).toBe(parseUsd("10"));
    expect(await listUserEntries(db, user.id, { limit: 9 })).toMatchObject([
      { id: `opening:${user.id}`, kind: "opening", debit: "adjust", actor: "apply" },
    ]);
  });

  test("the same file again changes nothing and adds no note", async () => {
    const db = await open();
    await applied(db, ada(', balance: "10.00"'));
    for (const same of ['"10.00"', '"10"', '"10.000000000"']) {
      expect(await applied(db, ada(`, balance: ${same}`))).toMatchObject({ changes: [], notes: [] });
    }
    expect(await applied(db, ada(""))).toMatchObject({ changes: [], notes: [] });
    expect((await walletOfAda(db)).balanceNano).toBe(parseUsd("10"));
  });

  test("another balance in a later file changes nothing and adds a note", async () => {
    const db = await open();
    await applied(db, ada(', balance: "10.00"'));
    const { changes, notes } = await applied(db, ada(', balance: "12.00", role: admin'));
    expect(changes.flatMap(({ fields }) => fields.map(({ field }) => field))).toEqual(["role"]);
    expect(notes).toHaveLength(1);
    expect(notes[0]).toStartWith("user ada@example.com: balance 12.00 is ignored");
    expect(notes[0]).toContain("(it was 10.00)");
    expect((await walletOfAda(db)).balanceNano).toBe(parseUsd("10"));
  });

  test("a user created with zero balance gets none from a later file", async () => {
    const db = await open();
    await applied(db, ada(', balance: "0"'));
    expect((await applied(db, ada(', balance: "0.00"'))).notes).toEqual([]);
    expect((await applied(db, ada(', balance: "5"'))).notes).toHaveLength(1);
    const { user, balanceNano } = await walletOfAda(db);
    expect(balanceNano).toBe(0n);
    expect(await listUserEntries(db, user.id, { limit: 9 })).toEqual([]);
  });

  test("an export contains no balance", async () => {
    const db = await open();
    await applied(db, ada(', balance: "10.00"'));
    expect(await exportFile(db)).not.toContain("balance:");
  });

  test("pruning keeps a user with a balance, with a note", async () => {
    const db = await open();
    await applied(db, ada(', balance: "10.00"'));
    const other = "users:\n  - { email: eve@example.com, role: admin }\n";
    const { changes, notes } = await applied(db, other, true);
    expect(changes.some(({ kind }) => kind === "remove")).toBe(false);
    expect(notes).toEqual([
      "user ada@example.com: not removed, because the wallet has a balance of $10.00. Remove it with `wallet adjust` first.",
    ]);
  });

  test("pruning keeps a user with a debt, who would otherwise no longer owe it", async () => {
    const db = await open();
    await applied(db, ada(', balance: "10.00"'));
    await db.sql`UPDATE wallet SET balance_nano = -50000000, debt_nano = 50000000`;
    const other = "users:\n  - { email: eve@example.com, role: admin }\n";
    const { changes, notes } = await applied(db, other, true);
    expect(changes.some(({ kind }) => kind === "remove")).toBe(false);
    expect(notes).toEqual([
      "user ada@example.com: not removed, because the wallet has a debt of $0.05. Remove it with `wallet adjust` first.",
    ]);
  });
});

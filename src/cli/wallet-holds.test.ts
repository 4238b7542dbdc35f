import { expect, test } from "bun:test";
import { join } from "node:path";
import { openDb } from "../store/engine/db.ts";
import { findUserByEmail } from "../store/identity/users.ts";
import { insertHolds, UNSENT } from "../store/money/holds.ts";
import { setAsideHold } from "../store/money/set-aside-holds.ts";
import { openCommandLine } from "./command-line.test-support.ts";

const {
  folder,
  run,
  runOk: done,
  runFailing: refused,
  json,
} = openCommandLine('users: [{ email: ada@example.com, balance: "3.00" }]\n');

/** Two requests of a dead process, with $0.50 each, that could not be settled. */
async function setAsideTwo(): Promise<void> {
  const db = await openDb(`sqlite:${join(folder(), "data", "gateway.db")}`);
  const user = await findUserByEmail(db, "ada@example.com");
  if (user === null) throw new Error("does not exist.");
  const holds = ["req_1", "req_2"].map((requestId) => ({
    ...UNSENT,
    requestId,
    processId: "inc_dead",
    atMs: Date.now(),
    userId: user.id,
    subscriptionId: null,
    amountNano: 500_000_000n,
    tariffId: "t",
    keyId: "k",
    groupId: "g",
    interface: "chat" as const,
    endpoint: "/v1/chat/completions",
    publicModel: "m",
    stream: false,
    inputTokens: 1,
  }));
  await insertHolds(db, holds);
  await db.sql`UPDATE wallet SET held_nano = 1000000000 WHERE user_id = ${user.id}`;
  for (const { requestId, processId } of holds)
    await setAsideHold(db, { requestId, processId, reason: "the tariff is unknown", nowMs: Date.now() });
  await db.close();
}

test("holds that were set aside are listed, and charged or released with an entry in the audit log", async () => {
  await setAsideTwo();
  expect(await json("wallet", "holds")).toMatchObject([
    { request_id: "req_1", user: "ada@example.com", held: "0.50", reason: "the tariff is unknown" },
    { request_id: "req_2" },
  ]);
  const audited = await run("audit");
  expect([audited.code, audited.out]).toEqual([1, expect.stringContaining("req_1 could not be settled")]);
  expect((await run("doctor")).out).toContain("2 holds of ended processes could not be settled");
  expect(await refused("wallet", "charge-hold", "req_1", "--usd", "2", "--reason", "much")).toContain(
    "Only $0.50 is held",
  );
  expect(await done("wallet", "charge-hold", "req_1", "--usd", "0.20", "--reason", "seen")).toContain(
    "$0.20 charged for req_1.",
  );
  expect(await done("wallet", "release-hold", "req_2", "--reason", "no response")).toContain(
    "$0.50 of req_2 released.",
  );
  expect(await json("wallet", "show", "--user", "ada@example.com")).toMatchObject({
    balance: "2.80",
    held: "0.00",
    entries: [{ kind: "adjust", reason: "hold of req_1: seen" }, {}],
  });
  expect(await json("wallet", "holds")).toEqual([]);
  expect(await done("audit")).toContain("check passed");
});

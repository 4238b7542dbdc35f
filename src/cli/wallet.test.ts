import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openDb, transaction } from "../store/engine/db.ts";
import { findUserByEmail } from "../store/identity/users.ts";
import { postTransfer, REVENUE, userBook } from "../store/money/ledger.ts";
import { openCommandLine } from "./command-line.test-support.ts";

const {
  folder,
  run,
  runOk: done,
  runFailing: refused,
  json,
} = openCommandLine('users: [{ email: ada@example.com, balance: "3.00" }]\n');
const ADA = ["--user", "ada@example.com"];

async function chargeAda(requestId: string, amountNano: bigint) {
  const db = await openDb(`sqlite:${join(folder(), "data", "gateway.db")}`);
  try {
    const user = await findUserByEmail(db, "ada@example.com");
    if (user === null) throw new Error("does not exist.");
    await transaction(db, (tx) =>
      postTransfer(tx, {
        id: `charge:${requestId}`,
        atMs: Date.now(),
        kind: "charge",
        debit: userBook(user.id),
        credit: REVENUE,
        amountNano,
        userId: user.id,
        subscriptionId: null,
        requestId,
        actor: "system",
        reason: null,
      }),
    );
  } finally {
    await db.close();
  }
}

test("top-up, adjustment and refund are in the ledger with actor and reason", async () => {
  expect(await done("wallet", "top-up", ...ADA, "--usd", "10", "--reason", "paid by card")).toContain(
    "$10.00 added for ada@example.com.",
  );
  expect(await done("wallet", "adjust", ...ADA, "--usd", "-2.50", "--reason", "typo")).toContain(
    "$2.50 deducted from ada@example.com.",
  );
  await chargeAda("req_1", 1_000_000_001n);
  expect(await done("wallet", "refund", "req_1", "--usd", "0.4")).toContain("$0.40 refunded");
  expect(await json("wallet", "show", ...ADA)).toMatchObject({
    user: "ada@example.com",
    balance: "9.899999999",
    held: "0.00",
    available: "9.899999999",
  });
  const actor = `cli:${Bun.spawnSync(["id", "-un"]).stdout.toString().trim()}`;
  expect(await json("wallet", "ledger", ...ADA)).toMatchObject([
    { kind: "refund", usd: "0.40", request_id: "req_1", actor },
    { kind: "charge", usd: "1.000000001", actor: "system" },
    { kind: "adjust", usd: "2.50", credit: "adjust", actor, reason: "typo" },
    { kind: "topup", usd: "10.00", debit: "topup:manual", actor, reason: "paid by card" },
    { kind: "opening", usd: "3.00", actor: "apply" },
  ]);
  const shown = await done("wallet", "show", ...ADA);
  expect(shown).toMatch(/available\s+\$9\.899999999/);
  expect(shown).toMatch(/charge\s+-\$1\.000000001/);
  expect((await json("wallet", "ledger", ...ADA, "--limit", "2")).length).toBe(2);
});

test("a repeat with the same idempotency key books nothing", async () => {
  const order = ["wallet", "top-up", ...ADA, "--usd", "1", "--idempotency-key", "invoice-7"];
  await done(...order);
  expect(await done(...order)).toContain("No new entry was posted.");
  expect(await refused("wallet", "top-up", ...ADA, "--usd", "2", "--idempotency-key", "invoice-7")).toContain(
    "already used for a different operation",
  );
  expect(await json("wallet", "show", ...ADA)).toMatchObject({ balance: "4.00" });
});

test("an invalid operation fails with a message", async () => {
  const adjust = (usd: string) => ["wallet", "adjust", ...ADA, "--reason", "x", "--usd", usd];
  expect(await refused(...adjust("-3.01"))).toContain("Only $3.00 is available");
  for (const wrong of ["0", "ten", "1e3", "0.0000000001", "--", "-"]) {
    expect(await refused(...adjust(wrong))).toContain("--usd");
  }
  expect(await refused("wallet", "adjust", ...ADA, "--usd", "1")).toContain("--reason TEXT is missing");
  expect(await refused("wallet", "show", "--user", "bob@example.com")).toContain("does not exist");
  expect(await refused("wallet", "refund", "req_9")).toContain('The request "req_9" was not charged.');
});

test("the wallet reservation of a server is shown separately", async () => {
  const db = await openDb(`sqlite:${join(folder(), "data", "gateway.db")}`);
  await db.sql`INSERT INTO wallet_reservation (process_id, user_id, amount_nano) SELECT 'inc', user_id, 500000000 FROM wallet`;
  await db.sql`UPDATE wallet SET held_nano = 500000000`;
  await db.close();
  expect(await json("wallet", "show", ...ADA)).toMatchObject({ held: "0.50", reserved: "0.50" });
  expect(await done("wallet", "show", ...ADA)).toContain("$0.50 of the held amount is reserved by a server");
});

test("codes are created, shown once, redeemed once and voided", async () => {
  const made = await run(
    "codes",
    "create",
    "--count",
    "3",
    "--usd",
    "5",
    "--batch",
    "spring",
    "--print-secret",
  );
  const codes = made.out.trim().split("\n");
  expect(codes).toHaveLength(3);
  expect(made.err).toContain("shown only once");
  const [code = "", other = ""] = codes;
  expect(await done("codes", "redeem", code.toLowerCase(), ...ADA)).toContain(
    "$5.00 redeemed for ada@example.com.",
  );
  expect(await refused("codes", "redeem", code, ...ADA)).toContain("already redeemed");
  expect(await done("codes", "void", "spring")).toContain('2 codes of batch "spring" voided.');
  expect(await refused("codes", "redeem", other, ...ADA)).toContain("This code was voided.");
  expect(await json("codes", "list")).toMatchObject([
    { batch: "spring", usd: "5.00", codes: 3, redeemed: 1, voided: 2, unused: 0, expires: null },
  ]);
  expect(await done("codes", "list")).toContain("spring");
  const mistyped = await refused("codes", "redeem", `${code}X`, ...ADA);
  expect(mistyped).toContain("mistyped");
  expect(mistyped).not.toContain(code);
  expect(await json("wallet", "show", ...ADA)).toMatchObject({ balance: "8.00" });
});

test("apply reports a different balance in the file and changes nothing", async () => {
  writeFileSync(join(folder(), "gateway.yaml"), 'users: [{ email: ada@example.com, balance: "9.00" }]\n');
  const out = await done("apply", "gateway.yaml");
  expect(out).toContain("No changes");
  expect(out).toContain("note: user ada@example.com: balance 9.00 is ignored");
  expect((await json("apply", "gateway.yaml")).notes).toHaveLength(1);
});

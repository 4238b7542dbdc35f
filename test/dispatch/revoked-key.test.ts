/** A request that waits while its key is revoked is not sent to an account any more. */

import { afterEach, describe, expect, test } from "bun:test";
import { revokeKey } from "../../src/store/policy/keys.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  keySecret,
  type PooledGateway,
  type PoolSetup,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { listSeen, occupySlots, stuckBeside, untilWaiting } from "../support/queue-control.ts";

let gateway: PooledGateway;
afterEach(() => gateway.stop());

const QUEUE = { max_waiting: 10, timeout: "30s" };

async function start(setup: Partial<PoolSetup>): Promise<void> {
  gateway = await startPooledGateway({
    accounts: [{ models: stuckBeside("sim-fast") }],
    group: { queue: QUEUE },
    keys: { a: {} },
    ...setup,
  });
}

async function revoke(name: string): Promise<void> {
  const { db } = gateway.installation;
  const [key] = await db.sql`SELECT id FROM api_key WHERE name = ${name}`;
  await revokeKey(db, String(key?.id), Date.now());
  const headers = { authorization: `Bearer ${keySecret(name)}` };
  await eventually(async () => (await fetch(`${gateway.url}/v1/models`, { headers })).status, {
    equals: 401,
  });
}

async function expectUnsent(response: Response): Promise<void> {
  expect((await expectRejection(response, 401)).code).toBe("invalid_api_key");
  expect(listSeen(gateway, "sim-fast").map(({ requests }) => requests)).toEqual([0]);
}

describe("a revoked key", () => {
  test("gets no account for which its request has waited", async () => {
    await start({ accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }] });
    const free = await occupySlots(gateway, 1);
    const waiting = gateway.send({ key: "a" });
    await untilWaiting(gateway, 1);
    await revoke("a");
    await free();
    await expectUnsent(await waiting);
    // The slot that the rejected request had taken is free again.
    expect((await gateway.send({})).status).toBe(200);
  });

  test("gets no account after its request has waited for its own concurrency", async () => {
    await start({ keys: { a: { limits: { concurrency: 1 } } } });
    const free = await occupySlots(gateway, 1, "a");
    const waiting = gateway.send({ key: "a" });
    await untilWaiting(gateway, 1);
    await revoke("a");
    await free();
    await expectUnsent(await waiting);
  });
});

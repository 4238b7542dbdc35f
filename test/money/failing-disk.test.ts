/** A disk that fails to write: no new paid requests are accepted, and recorded settlements are kept. */

import { afterEach, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { doneId, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

let gateway: PaidGateway;

afterEach(() => gateway.stop());

const ask = () =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "paid", messages: [{ role: "user", content: "Hello" }] }),
  });

const readiness = async () => (await fetch(`${gateway.url}/readyz`)).status;

test("paid requests are rejected and the gateway is not ready while flushes fail", async () => {
  gateway = await startPaidGateway({ balance: "10.00" });
  const { db } = gateway.installation;
  const { flush } = db;
  Object.assign(db, { flush: () => Promise.reject(new Error("EIO: i/o error, fdatasync")) });
  // No flush has failed yet, so this request is in flight when the disk fails, and completes.
  const before = await doneId(await ask());
  await eventually(() => readiness(), { equals: 503 });
  const refused = await ask();
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ error: { code: "store_unavailable" } });
  Object.assign(db, { flush });
  await eventually(() => readiness(), { equals: 200 });
  const after = await doneId(await ask());
  for (const id of [before, after]) expect((await gateway.records.row(id)).payer).toBe("balance");
  await gateway.records.expectReconciled();
});

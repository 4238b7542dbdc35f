import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { findRoute } from "../usage/usage.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import {
  endHolds,
  findHeldResponses,
  findHolds,
  type Hold,
  insertHolds,
  listHolds,
  moveResponseHolds,
  recordResponse,
} from "./holds.ts";

const hold = (requestId: string, change: Partial<Hold> = {}): Hold => ({
  requestId,
  processId: "inc_1",
  state: "admitted",
  atMs: 5,
  userId: "u1",
  subscriptionId: null,
  amountNano: 1n,
  tariffId: "t1",
  keyId: "k1",
  groupId: "g1",
  accountId: null,
  interface: "responses",
  endpoint: "responses",
  publicModel: "fast",
  upstreamModel: null,
  stream: false,
  inputTokens: 1,
  outputTokens: 0,
  ...change,
});

const made = (responseId: string) => ({ responseId, accountId: "a7", upstreamModel: "gpt-6" });

eachEngine(({ open }) => {
  test("a response in flight has a route to its key and account until its hold ends", async () => {
    const db = await open();
    await insertHolds(db, [hold("r1"), hold("r2", { keyId: "k2" })]);
    await recordResponse(db, "r1", made("resp_1"));
    expect(await findRoute(db, "resp_1")).toEqual({
      requestId: "r1",
      keyId: "k1",
      accountId: "a7",
      publicModel: "fast",
      upstreamModel: "gpt-6",
      outcome: "pending",
      isHeld: true,
    });
    const isHeld = async () => (await findHeldResponses(db, ["r1", "r2"])).has("r1");
    expect(await isHeld()).toBe(true);
    // If the process dies now, recovery knows that an account is producing the response.
    expect((await findHolds(db, ["r1"])).get("r1")).toMatchObject({ state: "dispatched", accountId: "a7" });
    await endHolds(db, ["r1"]);
    expect([await isHeld(), await findRoute(db, "resp_1")]).toEqual([false, null]);
  });

  test("a response in flight moves to another process once, and is not among the holds to settle by estimate", async () => {
    const db = await open();
    await insertHolds(db, [hold("r1"), hold("r2"), hold("r3", { processId: "inc_2" })]);
    for (const requestId of ["r1", "r3"]) await recordResponse(db, requestId, made(`resp_${requestId}`));
    const listIds = async (processId: string) =>
      (await listHolds(db, processId, 10, 10)).map(({ requestId }) => requestId);
    expect(await listIds("inc_1")).toEqual(["r2"]);
    const moved = await Promise.all(["inc_8", "inc_9"].map((to) => moveResponseHolds(db, "inc_1", to)));
    expect(moved.flat()).toEqual(["r1"]);
    expect([...(await findHeldResponses(db, ["r1", "r2"])).values()]).toMatchObject([
      {
        requestId: "r1",
        processId: moved[0]?.length === 1 ? "inc_8" : "inc_9",
        responseId: "resp_r1",
        isAdopted: true,
      },
    ]);
    expect((await findHeldResponses(db, ["r3"])).get("r3")).toMatchObject({ isAdopted: false });
    expect(await listIds("inc_1")).toEqual(["r2"]);
  });

  test("a response with a usage row is not replaced by another one in flight", async () => {
    const db = await open();
    await insertUsage(db, [
      usageRow({ requestId: "r1", interface: "responses", responseId: "resp_1", atMs: 9 }),
    ]);
    await insertHolds(db, [hold("r2", { keyId: "k2" })]);
    await recordResponse(db, "r2", made("resp_1"));
    expect(await findRoute(db, "resp_1")).toMatchObject({ requestId: "r1", isHeld: false });
  });

  test("an id that cannot be stored and a hold that has ended change nothing", async () => {
    const db = await open();
    await insertHolds(db, [hold("r1")]);
    await recordResponse(db, "r1", made("x".repeat(9_000)));
    await recordResponse(db, "gone", made("resp_1"));
    expect((await findHolds(db, ["r1"])).get("r1")).toEqual(hold("r1"));
    expect(await findRoute(db, "resp_1")).toBeNull();
  });
});

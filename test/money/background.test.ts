/** Paid background responses: held until they end, charged once, in every case. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  eventStream,
  type GatewayWithResponses,
  responsesEvent,
  startGatewayWithResponses,
} from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

/** For all tests that need no gateway of their own. */
let gateway: PaidGateway;
const running: PaidGateway[] = [];

beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "1.00",
    models: { paid: "sim-fast", slow: "sim-fast@events=2000,interval=5ms" },
  });
});
afterEach(async () => {
  await gateway.records.expectReconciled();
  for (const own of running.splice(0)) {
    await own.records.expectReconciled();
    await own.stop();
  }
});
afterAll(() => gateway.stop());

interface Made {
  id: string;
  status: string;
}

async function begin(gateway: PaidGateway): Promise<{ requestId: string; made: Made }> {
  const body = { model: "paid", input: "Hello", background: true };
  const response = await gateway.call("/v1/responses", body);
  expect(response.status).toBe(200);
  return { requestId: response.headers.get("x-request-id") ?? "", made: (await response.json()) as Made };
}

const look = async (gateway: PaidGateway, id: string) =>
  (await (await gateway.call(`/v1/responses/${id}`)).json()) as Made;
const send = (gateway: PaidGateway, method: "POST" | "DELETE", path: string) =>
  gateway.call(path, undefined, { method });

test("the hold stays until the response has ended, and then the upstream's usage is charged", async () => {
  const { requestId, made } = await begin(gateway);
  expect(made.status).not.toBe("completed");
  expect((await gateway.records.wallet()).heldNano).toBeGreaterThan(0n);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({
    outcome: "completed",
    usageSource: "upstream",
    responseId: made.id,
    flags: [],
  });
  expect(row.chargedNano).toBe(
    bill([
      [row.inputTokens, PRICE.input],
      [row.outputTokens, PRICE.output],
    ]),
  );
  expect(row.outputTokens).toBeGreaterThan(0);
  expect((await gateway.records.wallet()).heldNano).toBe(0n);
});

test("a response that is read and deleted at once is charged in full", async () => {
  const { requestId, made } = await begin(gateway);
  await eventually(async () => (await look(gateway, made.id)).status, { equals: "completed" });
  const deleted = await send(gateway, "DELETE", `/v1/responses/${made.id}`);
  expect(deleted.status).toBe(200);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream" });
  expect(row.outputTokens).toBeGreaterThan(0);
});

test("a cancelled response is charged and has a usage row", async () => {
  const { requestId, made } = await begin(gateway);
  await (await send(gateway, "POST", `/v1/responses/${made.id}/cancel`)).text();
  const row = await gateway.records.row(requestId);
  expect(["cancelled", "completed"]).toContain(row.outcome);
  expect(row.chargedNano).toBeGreaterThan(0n);
});

test("a response that is still in progress cannot be deleted before it is settled", async () => {
  const { requestId, made } = await begin(gateway);
  gateway.simulator.force("500");
  const refused = await send(gateway, "DELETE", `/v1/responses/${made.id}`);
  expect(refused.status).toBe(400);
  expect(((await refused.json()) as { error: { message: string } }).error.message).toContain(
    "Cancel the response first",
  );
  gateway.simulator.force(null);
  expect((await gateway.records.row(requestId)).outcome).toBe("completed");
});

test("a response whose stream loses its client continues, and the upstream's usage is charged", async () => {
  const body = { model: "slow", input: "Hello", background: true, stream: true };
  const response = await gateway.call("/v1/responses", body);
  const reader = response.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream", flags: [] });
  expect(row.chargedNano).toBe(
    bill([
      [row.inputTokens, PRICE.input],
      [row.outputTokens, PRICE.output],
    ]),
  );
});

test("an unpaid response records its usage and cost when it is retrieved after its end", async () => {
  const gateway = await startPaidGateway({ billing: { charge: "none", multiplier: "3" } });
  running.push(gateway);
  const { requestId, made } = await begin(gateway);
  await eventually(async () => (await look(gateway, made.id)).status, { equals: "completed" });
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream", chargedNano: 0n });
  expect(row.outputTokens).toBeGreaterThan(0);
  const used = [
    [row.inputTokens, PRICE.input],
    [row.outputTokens, PRICE.output],
  ] as const;
  expect([row.costNano, row.upstreamNano]).toEqual([bill(used, "3"), bill(used)]);
});

/** An upstream with one response that reports its status and handles cancellation with `cancel`. */
async function startSlow(
  cancel: (standing: { status: string }) => Response,
  limits: Parameters<typeof startGatewayWithResponses>[2],
): Promise<{ gateway: GatewayWithResponses; standing: { status: string } }> {
  const standing = { status: "in_progress" };
  const gateway = await startGatewayWithResponses(
    ({ method, url }) =>
      method === "POST" && url.endsWith("/cancel")
        ? cancel(standing)
        : Response.json(response(standing.status)),
    {},
    limits,
  );
  running.push(gateway);
  return { gateway, standing };
}

const USED = { input_tokens: 10, output_tokens: 900, total_tokens: 910 };
const response = (status: string): Record<string, unknown> => ({
  id: "resp_slow",
  object: "response",
  status,
  model: "up",
  background: true,
  output: [],
  usage: status === "in_progress" ? null : USED,
});

test("a response that takes too long is cancelled, and the upstream's usage is charged", async () => {
  const { gateway } = await startSlow(
    (standing) => {
      standing.status = "cancelled";
      return Response.json(response("cancelled"));
    },
    { backgroundMsMax: 1 },
  );
  const { requestId } = await begin(gateway);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "cancelled", usageSource: "upstream", responseId: "resp_slow" });
  expect(row.chargedNano).toBe(
    bill([
      [USED.input_tokens, PRICE.input],
      [USED.output_tokens, PRICE.output],
    ]),
  );
  expect((await look(gateway, "resp_slow")).status).toBe("cancelled");
});

test("a cancelled response without usage is charged the requested reasoning", async () => {
  let status = "in_progress";
  const gateway = await startGatewayWithResponses(({ url }) => {
    if (url.endsWith("/cancel")) status = "cancelled";
    return Response.json({ ...response("in_progress"), status });
  });
  running.push(gateway);
  const body = { model: "paid", input: "Hello", background: true, reasoning: { effort: "low" } };
  const begun = await gateway.call("/v1/responses", body);
  await begun.text();
  await (await send(gateway, "POST", "/v1/responses/resp_slow/cancel")).text();
  const row = await gateway.records.row(begun.headers.get("x-request-id") ?? "");
  expect(row).toMatchObject({ outcome: "cancelled", reasoningTokens: 512, flags: ["estimated", "partial"] });
});

test("a stream that is cancelled by its id without usage is charged the same", async () => {
  const created = responsesEvent("response.created", { response: response("in_progress") });
  const delta = responsesEvent("response.output_text.delta", { delta: "hello" });
  const last = responsesEvent("response.cancelled", {
    response: { ...response("in_progress"), status: "cancelled" },
  });
  const gateway = await startGatewayWithResponses(() => eventStream([created, delta, last]));
  running.push(gateway);
  const body = { model: "paid", input: "Hello", stream: true, reasoning: { effort: "low" } };
  const asked = await gateway.call("/v1/responses", body);
  await asked.text();
  const row = await gateway.records.row(asked.headers.get("x-request-id") ?? "");
  expect(row).toMatchObject({ outcome: "cancelled", reasoningTokens: 512, flags: ["estimated", "partial"] });
});

test("a response that takes too long and does not stop is not found after its settlement", async () => {
  const { gateway, standing } = await startSlow(() => new Response("no", { status: 500 }), {
    backgroundMsMax: 1,
  });
  const { requestId } = await begin(gateway);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "upstream_cut", responseId: null });
  expect(row.chargedNano).toBeGreaterThan(0n);
  standing.status = "completed";
  expect((await gateway.call("/v1/responses/resp_slow")).status).toBe(404);
});

test("a response that this node does not remember is found, and not deleted before its settlement", async () => {
  // Like on another node: nothing is remembered here.
  const { gateway, standing } = await startSlow(() => Response.json(response("in_progress")), {
    cachedResponseRoutesMax: 0,
  });
  const { requestId } = await begin(gateway);
  expect((await look(gateway, "resp_slow")).status).toBe("in_progress");
  expect((await send(gateway, "POST", "/v1/responses/resp_slow/cancel")).status).toBe(200);
  expect((await send(gateway, "DELETE", "/v1/responses/resp_slow")).status).toBe(400);
  standing.status = "completed";
  expect((await look(gateway, "resp_slow")).status).toBe("completed");
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream", outputTokens: 900 });
  expect((await send(gateway, "DELETE", "/v1/responses/resp_slow")).status).toBe(200);
});

test("at shutdown an ended response is settled, and one in progress keeps its hold", async () => {
  for (const status of ["completed", "in_progress"]) {
    const { gateway, standing } = await startSlow(() => Response.json(response("in_progress")), {});
    running.pop();
    const { db } = gateway.installation;
    const close = db.close;
    db.close = async () => {};
    await begin(gateway);
    standing.status = status;
    await gateway.stop();
    expect(await gateway.records.holds()).toBe(status === "completed" ? 0 : 1);
    await close();
  }
});

/** The output limit of a request policy holds on accounts that reject the parameter: they are not used. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import type { PaidGateway } from "../support/paid-gateway.ts";
import { type FallbackSetup, startFallbackGateway } from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const POLICY = {
  policies: [{ name: "short", output_tokens: { max: 16 } }],
  saver: { request_policy: "short", billing: { charge: "none" } },
  steps: [],
};
const NAMES = ["max_output_tokens", "max_completion_tokens", "max_tokens"];

const running: { stop(): unknown }[] = [];
afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

/** An account that accepts no output limit and returns 2,000 tokens. Returns the limits that it received. */
function openUpstream(describe: (name: string) => string) {
  const limits: (string | null)[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const body = (await request.json()) as object;
      const name = NAMES.find((one) => one in body) ?? null;
      limits.push(name);
      if (name !== null) {
        const error = { message: describe(name), param: name, type: "invalid_request_error" };
        return Response.json({ error }, { status: 400 });
      }
      const content = [{ type: "output_text", text: "word ".repeat(2_000) }];
      return Response.json({
        id: "resp_1",
        object: "response",
        created_at: 1,
        model: "up",
        status: "completed",
        output: [{ type: "message", id: "m", role: "assistant", content }],
        usage: { input_tokens: 10, output_tokens: 2_000, total_tokens: 2_010 },
      });
    },
  });
  running.push(server);
  return { limits, account: { base_url: `http://127.0.0.1:${server.port}/v1` } };
}

async function start(setup: FallbackSetup): Promise<PaidGateway> {
  const gateway = await startFallbackGateway({ ...POLICY, ...setup });
  running.push(gateway);
  return gateway;
}

const send = (gateway: PaidGateway, more: object = {}) =>
  gateway.call("/v1/responses", { model: "asked", input: "Hi", ...more });

const unsupported = (name: string) => `Unsupported parameter: ${name}`;

test("a request that only such an account could serve is rejected, each time", async () => {
  const { limits, account } = openUpstream(unsupported);
  const gateway = await start({ firstAccount: account });
  for (const more of [{}, {}, { stream: true }]) {
    const error = await expectRejection(await send(gateway, more), 400);
    expect(error).toMatchObject({ code: "policy_violation", param: "max_output_tokens" });
    expect(error.message).toContain("16 tokens");
  }
  expect(limits).toEqual(["max_output_tokens"]);
});

test("a rejection that names no reason counts for the request", async () => {
  const { limits, account } = openUpstream((name) => `Bad ${name}`);
  const gateway = await start({ firstAccount: account });
  for (let i = 0; i < 2; i++)
    expect(await expectRejection(await send(gateway), 400)).toMatchObject({ code: "policy_violation" });
  expect(limits).toEqual(["max_output_tokens", "max_output_tokens"]);
});

test("another account serves the request, and later requests go there directly", async () => {
  const { limits, account } = openUpstream(unsupported);
  const gateway = await start({
    firstAccount: { ...account, priority: 0 },
    moreAccounts: { more: "sim-fast" },
  });
  for (let i = 0; i < 3; i++) expect((await send(gateway)).status).toBe(200);
  expect(limits.length).toBeLessThanOrEqual(1);
});

test("requests at the same time are all kept from the account", async () => {
  const { limits, account } = openUpstream(unsupported);
  const gateway = await start({ firstAccount: account });
  const responses = await Promise.all(Array.from({ length: 8 }, () => send(gateway)));
  for (const response of responses)
    expect(await expectRejection(response, 400)).toMatchObject({ code: "policy_violation" });
  expect(limits).not.toContain(null);
});

test("an account whose own maximum is lower serves the request without the limit", async () => {
  const { limits, account } = openUpstream((name) => `${name} is too large: 16. At most 8 are supported.`);
  const gateway = await start({ firstAccount: account });
  expect((await send(gateway)).status).toBe(200);
  expect(limits).toEqual(["max_output_tokens", null]);
});

test("without the policy the request is sent again without the limit", async () => {
  const { limits, account } = openUpstream(unsupported);
  const gateway = await start({
    firstAccount: account,
    saver: {},
    user: { balance: "0.01" },
  });
  expect((await send(gateway)).status).toBe(200);
  expect(limits).toEqual(["max_output_tokens", null]);
});

/** What operators and callers learn about each request: the access log, metrics of waits and limits, and the cost. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { METRICS } from "../../src/observe/metric-catalogue.ts";
import { type ConsoleClient, createTokenClient } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

let gateway: PaidGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  gateway = await startPaidGateway(
    {
      models: { paid: "sim-fast", broken: "fault/500" },
      balance: "1.00",
      group: { cost_headers: true, limits: { rpm: 1_000 } },
      keys: [
        { name: "slow", user: "payer@example.com", group: "paying", secret: SLOW_KEY, limits: { rpm: 1 } },
      ],
    },
    { environment: { ACCESS_LOG: "on" } },
  );
  admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
});
afterAll(() => gateway.stop());

const SLOW_KEY = "slow-key-0123456789-0123456789-0123456789";
const MESSAGES = [{ role: "user", content: "A prompt that no log may contain" }];

const chat = (model: string, body: object = {}, init: RequestInit = {}) =>
  gateway.call("/v1/chat/completions", { model, messages: MESSAGES, max_tokens: 40, ...body }, init);

async function scrape(): Promise<string> {
  return (await admin.fetch("/metrics")).text();
}

function readSeries(text: string, series: string): number {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? 0 : Number(line.slice(series.length + 1));
}

describe("the access log", () => {
  const findLine = (requestId: string | null) =>
    eventually(() => {
      const line = gateway.accessLog.find((one) => JSON.parse(one).request_id === requestId);
      return line === undefined ? null : JSON.parse(line);
    });

  test("has one line for each request, with what it used", async () => {
    const response = await chat("paid", { stream: true }, { headers: { "user-agent": "client/2.0" } });
    await response.text();
    const line = await findLine(response.headers.get("x-request-id"));
    const [row] = (await gateway.usageRows()).slice(-1);
    expect(line).toMatchObject({
      event: "request",
      group: "paying",
      endpoint: "chat.completions",
      model: "paid",
      upstream_model: "sim-fast",
      account: "sim",
      stream: true,
      status: 200,
      code: null,
      outcome: "completed",
      attempts: 1,
      input_tokens: Number(row?.input_tokens),
      output_tokens: Number(row?.output_tokens),
      request_bytes: JSON.stringify({ model: "paid", messages: MESSAGES, max_tokens: 40, stream: true })
        .length,
      client: "client/2.0",
    });
    expect(line.first_content_ms).toBeGreaterThanOrEqual(0);
    expect(Number(line.cost_usd)).toBeGreaterThan(0);
  });

  test("has a line for a rejected request, without the name that the client sent for its model", async () => {
    const response = await chat("unheard-of");
    await response.text();
    const line = await findLine(response.headers.get("x-request-id"));
    expect(line).toMatchObject({ status: 404, code: "model_not_found", model: null, account: null });
    expect(line.request_bytes).toBeGreaterThan(50);
  });

  test("contains no content and no secret", async () => {
    await (await chat("paid")).text();
    await eventually(() => gateway.accessLog.length > 2);
    const text = gateway.accessLog.join("\n");
    for (const secret of [TEST_KEY, "A prompt that", "credential", "unheard-of"])
      expect(text).not.toContain(secret);
  });
});

describe("the cost for the caller", () => {
  test("of a whole response is in its headers, with the balance after the charge", async () => {
    const response = await chat("paid");
    await response.text();
    const requestId = response.headers.get("x-request-id") ?? "";
    const row = await gateway.records.row(requestId);
    const { balanceNano } = await gateway.records.wallet();
    expect(Number(response.headers.get("x-gateway-cost"))).toBe(Number(row.costNano) / 1e9);
    expect(row.costNano > 0n).toBeTrue();
    expect(Number(response.headers.get("x-gateway-balance"))).toBe(Number(balanceNano) / 1e9);
  });

  test.each([
    ["/v1/chat/completions", { messages: MESSAGES, stream: true }, "data: [DONE]"],
    ["/v1/responses", { input: "Hello", stream: true }, "event: response.completed"],
  ])("of a stream of %s is in a comment of its terminal event", async (path, body, last) => {
    const response = await gateway.call(path, { model: "paid", ...body });
    const text = await response.text();
    const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
    const event = text.split("\n\n").find((one) => one.startsWith(": x-gateway-cost")) ?? "";
    const [cost = "", balance = "", next = ""] = event.split("\n");
    expect(Number(/^: x-gateway-cost: ([\d.]+)$/.exec(cost)?.[1])).toBe(Number(row.costNano) / 1e9);
    expect(balance).toMatch(/^: x-gateway-balance: 0\.\d+$/);
    expect(next).toStartWith(last);
  });

  test("is not sent by default", async () => {
    const other = await startPaidGateway({ balance: "1.00" });
    const response = await other.call("/v1/chat/completions", { model: "paid", messages: MESSAGES });
    await response.text();
    expect(response.headers.has("x-gateway-cost")).toBeFalse();
    await other.stop();
  });
});

describe("metrics", () => {
  test("contain the first token and the speed of streams, and the attempts of each account", async () => {
    await (await chat("paid", { stream: true })).text();
    const text = await scrape();
    expect(readSeries(text, 'gateway_first_token_seconds_count{model="paid"}')).toBeGreaterThan(0);
    expect(readSeries(text, 'gateway_upstream_attempts_total{account="sim",class="ok"}')).toBeGreaterThan(0);
    expect(readSeries(text, 'gateway_upstream_seconds_count{account="sim"}')).toBeGreaterThan(0);
    expect(readSeries(text, "gateway_policy_age_seconds")).toBeLessThan(30);
    expect(readSeries(text, "gateway_held_usd")).toBe(0);
  });

  test("name the limits that reject requests", async () => {
    const headers = { authorization: `Bearer ${SLOW_KEY}` };
    await (await chat("paid", {}, { headers })).text();
    const refused = await chat("paid", {}, { headers });
    expect(refused.status).toBe(429);
    await refused.text();
    expect(readSeries(await scrape(), 'gateway_limit_rejections_total{scope="key",kind="rpm"}')).toBe(1);
  });

  test("count open WebSockets and their turns", async () => {
    const client = await openSocketClient(gateway.url);
    await client.turn({ model: "paid", input: "Hello" });
    const text = await scrape();
    expect(readSeries(text, "gateway_sockets_open")).toBe(1);
    expect(readSeries(text, "gateway_socket_turns_total")).toBe(1);
    client.close();
    await eventually(async () => readSeries(await scrape(), "gateway_sockets_open"), { equals: 0 });
  });

  test("are those of the catalogue, with their declared labels", async () => {
    await (await chat("broken")).text();
    for (const line of (await scrape()).trimEnd().split("\n")) {
      if (line.startsWith("#")) continue;
      const [, name = "", inner = ""] = /^([a-z_]+)(?:\{(.*)\})? /.exec(line) ?? [];
      const base = name in METRICS ? name : name.replace(/_(?:bucket|sum|count)$/, "");
      const labels = [...inner.matchAll(/([a-z]+)="/g)]
        .map(([, label]) => label)
        .filter((one) => one !== "le");
      expect([line, METRICS[base as keyof typeof METRICS]?.labels]).toEqual([line, labels as never]);
    }
  });
});

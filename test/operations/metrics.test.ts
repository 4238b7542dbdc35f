/** `GET /metrics`: numbers that agree with the usage rows, for administrators, without secrets. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { CANARY_WORDS } from "../../simulator/delivery/faults.ts";
import { type ConsoleClient, createTokenClient } from "../support/console-client.ts";
import {
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
  UPSTREAM_CREDENTIAL,
} from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  gateway = await startTestGateway({ models: { "fast-chat": "sim-fast", wary: "fault/canary@400" } });
  admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
});
afterAll(() => gateway.stop());

async function scrape(): Promise<string> {
  const response = await admin.fetch("/metrics");
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  return await response.text();
}

/** Sums the lines that start with this name and these labels. */
function sumSamples(text: string, start: string): number {
  const lines = text.split("\n").filter((line) => line.startsWith(start));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

const chat = (model: string) =>
  gateway.call("/v1/chat/completions", { model, messages: [{ role: "user", content: "Hello" }] });

test("metrics agree with the usage rows", async () => {
  for (let i = 0; i < 3; i++) await (await chat("fast-chat")).text();
  await (await chat("unheard-of")).text();
  await (await gateway.call("/v1/embeddings", { model: "fast-chat", input: "Hello" })).text();
  const rows = await gateway.usageRows();
  const text = await scrape();
  const total = (column: string) => rows.reduce((sum, row) => sum + Number(row[column]), 0);
  expect(sumSamples(text, "gateway_requests_total{")).toBe(rows.length);
  expect(sumSamples(text, 'gateway_requests_total{endpoint="chat.completions",model="fast-chat"')).toBe(3);
  expect(sumSamples(text, 'gateway_tokens_total{model="fast-chat",kind="input"}')).toBe(
    total("input_tokens"),
  );
  expect(sumSamples(text, 'gateway_tokens_total{model="fast-chat",kind="output"}')).toBe(
    total("output_tokens"),
  );
  expect(sumSamples(text, 'gateway_errors_total{endpoint="chat.completions",code="model_not_found"}')).toBe(
    1,
  );
  expect(sumSamples(text, "gateway_request_duration_seconds_count{")).toBe(rows.length);
  expect(sumSamples(text, 'gateway_account_usable{account="sim"}')).toBe(1);
  expect(text).not.toContain("unheard-of");
});

test("metrics are valid Prometheus text: every line is a comment or a sample of a declared family", async () => {
  const announced = new Set<string>();
  for (const line of (await scrape()).trimEnd().split("\n")) {
    const [, comment, family = ""] = /^# (HELP|TYPE) ([a-z_]+) \S/.exec(line) ?? [];
    if (comment === "TYPE") announced.add(family);
    if (comment !== undefined) continue;
    const sample = /^([a-z_]+)(?:\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (?:\d[\d.e+-]*|\+Inf)$/.exec(
      line,
    );
    expect([line, sample !== null]).toEqual([line, true]);
    const name = sample?.[1] ?? "";
    expect([line, announced.has(name) || announced.has(name.replace(/_(?:bucket|sum|count)$/, ""))]).toEqual([
      line,
      true,
    ]);
  }
  expect(announced.size).toBeGreaterThan(15);
});

test("metrics are OpenMetrics if the scraper accepts it, with the same values", async () => {
  const response = await admin.fetch("/metrics", {
    headers: { accept: "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5" },
  });
  expect(response.headers.get("content-type")).toBe(
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
  );
  const text = await response.text();
  expect(text).toEndWith("\n# EOF\n");
  expect(text).toContain("# TYPE gateway_requests counter\n");
  expect(sumSamples(text, "gateway_requests_total{")).toBe(
    sumSamples(await scrape(), "gateway_requests_total{"),
  );
});

test("metrics contain no secret of an upstream", async () => {
  await (await chat("wary")).text();
  const text = await scrape();
  expect(text).toContain('model="wary"');
  for (const secret of [...CANARY_WORDS, UPSTREAM_CREDENTIAL, TEST_KEY]) expect(text).not.toContain(secret);
});

test("metrics are for administrators only", async () => {
  const stranger = await fetch(`${gateway.url}/metrics`);
  expect(stranger.status).toBe(401);
  const user = await createTokenClient(gateway, "somebody@example.com", "read");
  expect(await user.callRejected("metrics.get")).toMatchObject({ status: 403, code: "forbidden" });
  expect((await gateway.call("/metrics")).status).toBe(401);
});

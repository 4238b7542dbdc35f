/** The capture and the spans of a request with fallback name the step of each attempt. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Collector, startCollector } from "../support/collector.ts";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import type { PaidGateway } from "../support/paid-gateway.ts";
import { ask, startFallbackGateway } from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const CLIENT = 3;

let collector: Collector;
let gateway: PaidGateway;
beforeAll(async () => {
  collector = startCollector();
  gateway = await startFallbackGateway(
    { saver: { capture: "all" } },
    { telemetry: { endpoint: collector.url } },
  );
});
afterAll(async () => {
  await gateway.stop();
  await collector.stop();
});

test("an attempt has the step and its group, in the capture and in its span", async () => {
  const response = await ask(gateway);
  await response.text();
  const id = response.headers.get("x-request-id") ?? "";
  expect([response.status, response.headers.get("x-gateway-step")]).toEqual([200, "1"]);
  const admin = await signInAs(gateway, "root@example.com", "admin");
  const { attempts } = await eventually(async () => {
    const { data } = await admin.call("admin.captures.list");
    if (!JSON.stringify(data).includes(id)) return null;
    return (await admin.call("admin.captures.read", { params: { id }, body: {} })).document;
  });
  expect(attempts.map(({ step }) => step)).toEqual([
    { number: 0, group: "saver" },
    { number: 1, group: "standard" },
  ]);
  const spans = await collector.findSpans(id, 3);
  const sent = spans.filter(({ kind }) => kind === CLIENT).map(({ attributes }) => attributes);
  expect(sent).toMatchObject([
    { "gateway.group": "saver", "gateway.fallback_step": 0 },
    { "gateway.group": "standard", "gateway.fallback_step": 1 },
  ]);
});

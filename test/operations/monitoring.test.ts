/** The dashboard and the alert rules: generated, valid for a real Prometheus, and about metrics that a gateway has. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ALERT_RULES } from "../../deploy/monitoring/alert-rules.ts";
import { ROWS } from "../../deploy/monitoring/dashboard-rows.ts";
import { buildFiles } from "../../deploy/monitoring/files.ts";
import { METRICS, type MetricName } from "../../src/observe/metric-catalogue.ts";
import { createTokenClient } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { ALERT_FILE, type Prometheus, startPrometheus } from "../support/prometheus.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

const DEPLOY = join(import.meta.dir, "../../deploy");
const NARROW_KEY = "narrow-key-0123456789-0123456789-012345678";

const account = (name: string, models: string, more = "") =>
  `{ name: ${name}, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, models: ${models}${more} }`;

const FILE = `
models:
  - { id: fast, interfaces: [chat, responses], context_tokens: 100000 }
  - { id: flaky, interfaces: [chat] }
  - { id: foreign, interfaces: [chat, responses] }
  - { id: broken, interfaces: [chat], fallback: [{ model: fast, when: [failing] }] }
accounts:
  - ${account("first", "{ fast: sim-fast, flaky: fault/500 }")}
  - ${account("second", "{ flaky: sim-fast }", ", priority: 2")}
  - ${account("fourth", "{ broken: fault/500 }")}
  - ${account("third", "{ foreign: sim-fast }", ", interfaces: [responses]")}
request_policies: [{ name: short, output_tokens: { max: 100 } }]
groups:
  - { name: default, models: [fast, flaky, foreign, broken], accounts: [first, second, third, fourth] }
  - { name: narrow, models: [fast], accounts: [first], request_policy: short, limits: { concurrency: 1 }, queue: { max_waiting: 1, timeout: 1s } }
users: [{ email: dev@example.com, role: user }]
usage_export:
  webhooks: [{ name: warehouse, url: "http://127.0.0.1:1/usage", private_network: true }]
keys:
  - { name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }
  - { name: narrow, user: dev@example.com, group: narrow, secret: ${NARROW_KEY} }
`;

let gateway: RunningGateway;
let prometheus: Prometheus;

beforeAll(async () => {
  gateway = await startTestGateway({
    file: FILE,
    environment: { ACCESS_LOG: "on", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" },
  });
  await sendTraffic();
  const { secret } = await createTokenClient(gateway, "root@example.com", "read", "admin");
  prometheus = await startPrometheus(gateway.url, secret);
}, 60_000);

afterAll(async () => {
  await prometheus?.stop();
  await gateway?.stop();
});

/** One of everything that a dashboard shows: streams, failovers, fallback, translations, rules, waits, rejections, turns. */
async function sendTraffic(): Promise<void> {
  const chat = async (model: string, body: object, key = TEST_KEY) => {
    const response = await gateway.call(
      "/v1/chat/completions",
      { model, messages: [{ role: "user", content: "Hello" }], ...body },
      { headers: { authorization: `Bearer ${key}` } },
    );
    await response.text();
  };
  await chat("fast", { stream: true });
  await chat("flaky", {});
  await chat("foreign", { seed: 1 });
  await chat("broken", {});
  await chat("unheard-of", {});
  await Promise.all(
    Array.from({ length: 16 }, () => chat("fast", { stream: true, max_tokens: 1_000 }, NARROW_KEY)),
  );
  const client = await openSocketClient(gateway.url);
  await client.turn({ model: "fast", input: "Hello" });
  client.close();
}

const DASHBOARD_QUERIES = ROWS.flatMap(({ panels }) => panels.flatMap(({ queries }) => queries));

/** The query of a panel with all of its variables chosen. */
function withoutVariables(query: string): string {
  return query.replaceAll("$__rate_interval", "1m").replaceAll(/\$(?:node|model|group)/g, ".*");
}

function namedMetrics(query: string): MetricName[] {
  const words = query.match(/[a-z_]{6,}/g) ?? [];
  return words
    .map((word) => word.replace(/_bucket$/, ""))
    .filter((word): word is MetricName => Object.hasOwn(METRICS, word));
}

test("the files are up to date (npm run deploy:monitoring)", () => {
  for (const [path, text] of buildFiles()) {
    expect([path, readFileSync(join(DEPLOY, path), "utf8") === text]).toEqual([path, true]);
  }
});

test("promtool accepts the alert rules", () => {
  const { exitCode, stdout, stderr } = Bun.spawnSync(["promtool", "check", "rules", ALERT_FILE]);
  expect([exitCode, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining("SUCCESS")]);
});

test("every query of the dashboard is valid, and most of them have a value after some traffic", async () => {
  for (const { query } of DASHBOARD_QUERIES) {
    const hasValue = async () => (await prometheus.query(withoutVariables(query))).length > 0;
    // The cost of the day is known only after a while. A rate has a value after the second scrape.
    if (query.includes("gateway_spent_today_usd")) await hasValue();
    else await eventually(hasValue);
  }
});

test("every metric that a query names is scraped", async () => {
  const queries = [...DASHBOARD_QUERIES.map(({ query }) => query), ...ALERT_RULES.map(({ query }) => query)];
  const names = new Set(queries.flatMap(namedMetrics));
  expect(names.size).toBeGreaterThan(25);
  for (const name of names) {
    if (name === "gateway_spent_today_usd") continue;
    const series = METRICS[name].type === "histogram" ? `${name}_bucket` : name;
    expect([name, await prometheus.query(`count(${series}) > 0`)]).toEqual([name, [expect.anything()]]);
  }
});

test("every metric of the catalogue is on the dashboard or in an alert rule, apart from two", () => {
  const queries = [...DASHBOARD_QUERIES, ...ALERT_RULES];
  const shown = new Set(queries.flatMap(({ query }) => namedMetrics(query)));
  const missing = Object.keys(METRICS).filter((name) => !shown.has(name as MetricName));
  expect(missing.toSorted()).toEqual(["gateway_telemetry_exported_total", "process_start_time_seconds"]);
});

test("Prometheus evaluates every rule, and none fires for a healthy gateway", async () => {
  const rules = await prometheus.rules();
  expect(rules.map(({ name }) => name)).toEqual(ALERT_RULES.map(({ name }) => name));
  for (const { name, health } of rules) expect([name, health]).toEqual([name, "ok"]);
  expect(rules.filter(({ state }) => state === "firing").map(({ name }) => name)).toEqual([]);
});

test("docs/monitoring.md lists every metric of the gateway", () => {
  const page = readFileSync(join(DEPLOY, "../docs/monitoring.md"), "utf8");
  const names = Object.keys(METRICS).filter((name) => name.startsWith("gateway_"));
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  const written = page.match(/`gateway_[a-z_]+`/g) ?? [];
  expect(written.filter((name) => !Object.hasOwn(METRICS, name.slice(1, -1)))).toEqual([]);
});

test("Prometheus stores the traces of requests as exemplars of the latency histograms", async () => {
  for (const name of ["gateway_request_duration_seconds_bucket", "gateway_first_token_seconds_bucket"]) {
    const found = await eventually(async () => {
      const exemplars = await prometheus.exemplars(name);
      return exemplars.length > 0 ? exemplars : undefined;
    });
    for (const { trace_id } of found) expect(trace_id).toMatch(/^[0-9a-f]{32}$/);
  }
});

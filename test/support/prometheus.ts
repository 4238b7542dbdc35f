/** A real Prometheus that scrapes one gateway every second, with the alert rules of the project. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { eventually } from "./eventually.ts";

export const ALERT_FILE = resolve(import.meta.dir, "../../deploy/prometheus/alerts.yaml");

const series = z.object({
  metric: z.record(z.string(), z.string()),
  value: z.tuple([z.number(), z.string()]),
});
const rule = z.object({ name: z.string(), health: z.string(), state: z.string() });
const apiResponse = z.union([
  z.object({ status: z.literal("success"), data: z.unknown() }),
  z.object({ status: z.literal("error"), error: z.string() }),
]);
const queryData = z.object({ result: z.array(series) });
const rulesData = z.object({ groups: z.array(z.object({ rules: z.array(rule) })) });

const labels = z.record(z.string(), z.string());
const exemplarsData = z.array(z.object({ exemplars: z.array(z.object({ labels })) }));

export type PrometheusSeries = z.output<typeof series>;
export type PrometheusRule = z.output<typeof rule>;

export interface Prometheus {
  /** Rejects with the error of Prometheus if the query is invalid. */
  query(expression: string): Promise<readonly PrometheusSeries[]>;
  rules(): Promise<readonly PrometheusRule[]>;
  /** The labels of the exemplars of the last hour. */
  exemplars(expression: string): Promise<readonly Readonly<Record<string, string>>[]>;
  stop(): Promise<void>;
}

export async function startPrometheus(gatewayUrl: string, token: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), "prometheus-test-"));
  const configFile = join(folder, "prometheus.yml");
  const config = {
    global: { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" },
    rule_files: [ALERT_FILE],
    scrape_configs: [
      {
        job_name: "model-gateway",
        authorization: { credentials: token },
        static_configs: [{ targets: [new URL(gatewayUrl).host] }],
      },
    ],
  };
  writeFileSync(configFile, JSON.stringify(config));
  const port = freePort();
  const child = Bun.spawn(
    [
      "prometheus",
      `--config.file=${configFile}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--enable-feature=exemplar-storage",
    ],
    { stdout: "ignore", stderr: "ignore" },
  );
  const call = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    const received = apiResponse.parse(await response.json());
    if (received.status !== "success") throw new Error(received.error);
    return received.data;
  };
  const query = async (expression: string) =>
    queryData.parse(await call(`query?query=${encodeURIComponent(expression)}`)).result;
  const stop = async () => {
    child.kill();
    await child.exited;
    rmSync(folder, { recursive: true, force: true });
  };
  // Two scrapes, so that rates are known.
  const isScraped = async () => {
    const [scraped] = await query("count_over_time(gateway_info[1m])").catch(() => []);
    return scraped !== undefined && Number(scraped.value[1]) > 1;
  };
  await eventually(isScraped).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    query,
    async exemplars(expression) {
      const seconds = Date.now() / 1_000;
      const range = `start=${seconds - 3_600}&end=${seconds + 60}`;
      const found = await call(`query_exemplars?query=${encodeURIComponent(expression)}&${range}`);
      return exemplarsData.parse(found).flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels));
    },
    rules: async () => rulesData.parse(await call("rules")).groups.flatMap((group) => group.rules),
    stop,
  };
}

function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = server;
  server.stop(true);
  return port;
}

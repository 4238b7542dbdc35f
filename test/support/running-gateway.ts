/** A real gateway on a loopback port, set up through a configuration file, with the simulator as its upstream. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import { type Simulator, type SimulatorOptions, startSimulator } from "../../simulator/simulator.ts";
import type { Clock } from "../../src/base/clock.ts";
import { readSettings } from "../../src/config/installation/environment.ts";
import { openNewInstallation } from "../../src/config/installation/installation.test-support.ts";
import type { Installation } from "../../src/config/installation/installation.ts";
import { applyChanges, planChanges } from "../../src/config/plan/apply.ts";
import { capture } from "../../src/config/schema/capture.ts";
import { telemetry } from "../../src/config/schema/telemetry.ts";
import { type StartOptions, startGateway } from "../../src/main.ts";
import type { Row } from "../../src/store/engine/db.ts";

export const TEST_KEY = "test-key-0123456789-0123456789-0123456789";
/** A key of another user in the same group. */
export const OTHER_KEY = "other-key-0123456789-0123456789-012345678";
export const UPSTREAM_CREDENTIAL = "upstream-credential-canary-5f2e";

export interface RunningGateway {
  /** Without `/v1`. */
  url: string;
  simulator: Simulator;
  installation: Installation;
  /** Sends a request with the test key; a body that is an object is sent as JSON. */
  call(path: string, body?: unknown, init?: RequestInit): Promise<Response>;
  /** Every line of the access log so far. */
  accessLog: readonly string[];
  /** Every log line so far. They are not printed, because tests provoke failures. */
  log: readonly string[];
  /** Applies another file while the gateway runs, which reads the change a moment later. */
  apply(file: string): Promise<void>;
  /** Usage rows in order, after all pending rows have been written. */
  usageRows(): Promise<Row[]>;
  stop(): Promise<void>;
}

export interface GatewayOptions {
  /** Public model → upstream model, served by the simulator. */
  models?: Readonly<Record<string, string>>;
  /**
   * Replaces the whole file; `${SIMULATOR_URL}`, `${SIMULATOR_ORIGIN}` and the variables of `environment` can be used in
   * it.
   */
  file?: string;
  environment?: Readonly<Record<string, string>>;
  /** A free port unless set. The public address of the environment is used only with one. */
  port?: number;
  onDisconnect?: "cancel" | "drain";
  databaseUrl?: string;
  /** Origins of web pages that may open a WebSocket. */
  allowedOrigins?: string[];
  /** Further host names under which pages and the console's API are served. */
  allowedHosts?: string[];
  /** Memory for large bodies; may be below the minimum of the file. */
  largeBodiesMib?: number;
  /** The `telemetry` section of the file. */
  telemetry?: z.input<typeof telemetry>;
  /** The `capture` section of the file. */
  capture?: z.input<typeof capture>;
  /** How the simulator counts. */
  tokens?: "bytes" | "o200k" | "words";
  /** The credentials that the simulator requires. */
  simulator?: Pick<SimulatorOptions, "credential" | "serviceAccount">;
  /** Replaces the system's clock. */
  clock?: Clock;
  /** Shorter deadlines for the test. */
  limits?: StartOptions["limits"];
  /** The folder of the built pages; without it those of the project are served, if there are any. */
  builtDir?: string;
}

/** A request that hangs must fail its test, not delay the following ones. */
const TEST_LIMITS: StartOptions["limits"] = { drainTimeoutMs: 5_000 };

const ALL = "[chat, responses, embeddings, images]";

export function gatewayFile(options: GatewayOptions): string {
  const models = Object.entries(options.models ?? { "fast-chat": "sim-fast" });
  const named = (names: string[]) => `[${names.map((name) => JSON.stringify(name)).join(", ")}]`;
  return `
models:
${models.map(([id]) => `  - { id: ${JSON.stringify(id)}, interfaces: ${ALL} }`).join("\n")}
accounts:
  - name: sim
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: ${UPSTREAM_CREDENTIAL}
    private_network: true
    models: { ${models.map(([id, upstream]) => `${JSON.stringify(id)}: ${JSON.stringify(upstream)}`).join(", ")} }
groups:
  - name: default
    interfaces: ${ALL}
    models: ${named(models.map(([id]) => id))}
    accounts: [sim]
    on_disconnect: ${options.onDisconnect ?? "cancel"}
users:
  - { email: dev@example.com, role: user }
  - { email: other@example.com, role: user }
keys:
  - { name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }
  - { name: other, user: other@example.com, group: default, secret: ${OTHER_KEY} }
`;
}

export async function startTestGateway(options: GatewayOptions = {}): Promise<RunningGateway> {
  const dataDir = mkdtempSync(join(tmpdir(), "model-gateway-test-"));
  const simulator = startSimulator({
    record: "full",
    seed: 1,
    tokens: options.tokens ?? "bytes",
    ...options.simulator,
  });
  const environment = {
    SIMULATOR_URL: simulator.url,
    DRAIN_DELAY: "0s",
    SIMULATOR_ORIGIN: new URL(simulator.url).origin,
    ...options.environment,
    ...(options.databaseUrl === undefined ? {} : { DATABASE_URL: options.databaseUrl }),
  };
  const settings = readSettings({
    flags: { data: dataDir, port: String(options.port ?? 0) },
    environment,
    file: {
      allowed_origins: options.allowedOrigins,
      allowed_hosts: options.allowedHosts,
      large_bodies_mib: options.largeBodiesMib,
    },
    fileCapture: options.capture === undefined ? undefined : capture.parse(options.capture),
    fileTelemetry: options.telemetry === undefined ? undefined : telemetry.parse(options.telemetry),
  });
  if (!settings.ok) throw new Error(settings.problems.join("\n"));
  const opened = await openNewInstallation(settings.settings, environment);
  const installation = options.clock === undefined ? opened : { ...opened, clock: options.clock };
  const apply = async (text: string) => {
    const planned = await planChanges(
      installation,
      { text, fileName: "gateway.yaml", environment },
      { prune: false },
    );
    if (!planned.ok) throw new Error(JSON.stringify(planned.problems, null, 2));
    await applyChanges(installation, planned.plan);
  };
  await apply(options.file ?? gatewayFile(options));
  const log: string[] = [];
  const accessLog: string[] = [];
  const running = await startGateway(installation, settings.settings, {
    limits: { ...TEST_LIMITS, ...options.limits },
    ...(options.builtDir === undefined ? {} : { builtDir: options.builtDir }),
    writeLog: (line) => log.push(line),
    writeAccess(text, onWritten) {
      accessLog.push(...text.trimEnd().split("\n"));
      onWritten();
    },
  });
  const { url } = running;
  return {
    url,
    simulator,
    installation,
    log,
    accessLog,
    apply,
    call(path, body, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has("authorization")) headers.set("authorization", `Bearer ${TEST_KEY}`);
      const raw = typeof body === "string" || body instanceof Uint8Array || body instanceof FormData;
      if (body !== undefined && !(body instanceof FormData) && !headers.has("content-type")) {
        headers.set("content-type", "application/json");
      }
      return fetch(url + path, {
        method: body === undefined ? "GET" : "POST",
        ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
        ...init,
        headers,
      });
    },
    async usageRows() {
      // Reading usage writes pending rows first.
      await fetch(`${url}/v1/usage`, { headers: { authorization: `Bearer ${TEST_KEY}` } });
      return installation.db.sql`SELECT * FROM usage ORDER BY request_id`;
    },
    async stop() {
      await running.stop();
      await simulator.stop();
      await installation.db.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

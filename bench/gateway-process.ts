/** The gateway as its users start it, with authentication, policy and the recording of usage on. */

import { join, resolve } from "node:path";
import { type BenchProcess, freePort, type ProcessGroup, readyAfterMs } from "./processes.ts";
import { NATIVE_MODEL, PUBLIC_MODEL } from "./request-bodies.ts";

/** Not in the gateway's own form on purpose: imported secrets take the longer path of authentication. */
export const BENCH_KEY = "bench-key-0123456789-0123456789-0123456789";

const PROGRAM = resolve(import.meta.dir, "../bin/model-gateway");
const READY_TIMEOUT_MS = 60_000;

interface UpstreamAccount {
  readonly name: string;
  readonly interfaces: readonly string[];
  /** The public model that it serves. */
  readonly model: string;
  readonly websocket?: boolean;
}

/** An entry of `accounts` for the upstream of the bench. */
export function buildUpstreamAccount(
  upstreamPort: number,
  { name, interfaces, model, websocket = false }: UpstreamAccount,
): string {
  return `  - name: ${name}
    kind: openai
    base_url: http://127.0.0.1:${upstreamPort}/v1
    credential: sk-bench-upstream-credential
    private_network: true
    websocket: ${websocket}
    interfaces: [${interfaces.join(", ")}]
    models: { ${model}: bench-model }`;
}

function configuration(upstreamPort: number, isOtherKeyCaptured: boolean): string {
  const accounts: readonly UpstreamAccount[] = [
    { name: "bench-upstream", interfaces: ["chat", "responses"], model: PUBLIC_MODEL },
    { name: "bench-upstream-sockets", interfaces: ["responses"], model: NATIVE_MODEL, websocket: true },
  ];
  return `registration: closed
models:
  - id: ${PUBLIC_MODEL}
    interfaces: [chat, responses]
  - id: ${NATIVE_MODEL}
    interfaces: [responses]
accounts:
${accounts.map((account) => buildUpstreamAccount(upstreamPort, account)).join("\n")}
groups:
  - name: bench
    interfaces: [chat, responses]
    models: [${PUBLIC_MODEL}, ${NATIVE_MODEL}]
    accounts: [bench-upstream, bench-upstream-sockets]
    billing: { charge: none }
  - name: other
    interfaces: [chat]
    models: [${PUBLIC_MODEL}]
    accounts: [bench-upstream]
    billing: { charge: none }
    capture: ${isOtherKeyCaptured ? "all" : "off"}
users:
  - email: bench@example.com
keys:
  - { name: other, user: bench@example.com, group: other, secret: "other-\${BENCH_KEY}" }
  - { name: bench, user: bench@example.com, group: bench, secret: "\${BENCH_KEY}" }
`;
}

function manyKeys(count: number): string {
  let text = "";
  for (let i = 0; i < count; i++) {
    text += `  - { name: key-${i}, user: bench@example.com, group: bench, secret: "${extraKey(i)}" }\n`;
  }
  return text;
}

export function extraKey(i: number): string {
  return `bench-many-keys-${String(i).padStart(32, "0")}`;
}

export interface GatewayProcess {
  readonly running: BenchProcess;
  readonly url: string;
  /** From the process being started to its first 200 at /readyz. */
  readonly readyMs: number;
}

export interface GatewayStart {
  core?: number | undefined;
  upstreamPort: number;
  /** Two starts with one name share a data folder. */
  name: string;
  /** How many keys the file holds beside the one of the bench; null starts from the data folder, without a file. */
  extraKeys?: number | null;
  /** Whether the requests of a key that the bench does not use are captured. */
  isOtherKeyCaptured?: boolean;
  env?: Readonly<Record<string, string>>;
}

export async function startGateway(stage: ProcessGroup, options: GatewayStart): Promise<GatewayProcess> {
  const { core, upstreamPort, name, extraKeys = 0, isOtherKeyCaptured = false, env = {} } = options;
  const text =
    extraKeys === null ? null : configuration(upstreamPort, isOtherKeyCaptured) + manyKeys(extraKeys);
  return startConfigured(stage, { core, name, text, env: { BENCH_KEY, ...env } });
}

export interface ConfiguredStart {
  core?: number | undefined;
  name: string;
  /** Of the configuration file; null starts without one. */
  text: string | null;
  env: Record<string, string>;
}

export async function startConfigured(
  stage: ProcessGroup,
  options: ConfiguredStart,
): Promise<GatewayProcess> {
  const { core, name, text, env } = options;
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const command = [PROGRAM, "start", "--data", dataFolder(stage, name), "--port", String(port)];
  if (text !== null) {
    const file = join(stage.dir, `${name}.yaml`);
    await Bun.write(file, text);
    command.push("--config", file);
  }
  const running = stage.start({ name: "gateway", command, core, env });
  const readyMs = await readyAfterMs(running, `${url}/readyz`, READY_TIMEOUT_MS);
  return { running, url, readyMs };
}

export function dataFolder({ dir }: Pick<ProcessGroup, "dir">, name: string): string {
  return join(dir, `data-${name}`);
}

/** Installed copies of the gateway: how they are started, and the request that each of them must serve. */

import { expect } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { ROOT } from "../../release/source.ts";
import { eventually } from "../support/eventually.ts";

export const RELEASE = join(ROOT, "dist", "release");
export const VERSION = manifest.version;

export function artefact(suffix: string): string {
  return join(RELEASE, `model-gateway-${VERSION}${suffix}`);
}

export function emptyFolder(): string {
  return mkdtempSync(join(tmpdir(), "model-gateway-installed-"));
}

export interface Installed {
  readonly url: string;
  readonly pid: number;
  output(): string;
  /** Resolves to the exit code. */
  stop(): Promise<number>;
}

export interface StartOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** npm and unshare run the gateway as a child, so the signal goes to the whole group. */
  readonly isGroup?: boolean;
}

/** The environment of a clean machine: only the PATH, and the settings of npm. */
export function cleanEnvironment(): Record<string, string> {
  const npm = Object.entries(process.env).filter(([name]) =>
    /^npm_config_(?:registry|cache|userconfig)$/i.test(name),
  );
  return {
    PATH: process.env.PATH ?? "",
    HOME: process.env.HOME ?? "/",
    ...Object.fromEntries(npm),
  } as Record<string, string>;
}

export async function startInstalled(command: readonly string[], options: StartOptions): Promise<Installed> {
  const port = await freePort();
  const { isGroup = false } = options;
  const child = Bun.spawn(isGroup ? ["setsid", ...command] : [...command], {
    cwd: options.cwd,
    env: { ...cleanEnvironment(), PORT: String(port), ...options.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    for await (const chunk of stream) output += new TextDecoder().decode(chunk);
  };
  void collect(child.stdout);
  void collect(child.stderr);
  const url = `http://127.0.0.1:${port}`;
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}:\n${output}`);
    return fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  }, 120_000);
  return {
    url,
    pid: child.pid,
    output: () => output,
    async stop() {
      process.kill(isGroup ? -child.pid : child.pid, "SIGTERM");
      return child.exited;
    },
  };
}

async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, fetch: () => new Response() });
  const { port = 0 } = server;
  await server.stop(true);
  return port;
}

/** One streamed response of the built-in simulator, and the three sites. */
export async function expectWorking({ url }: Pick<Installed, "url">, key: string): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.trim()}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sim-fast", stream: true, messages: [{ role: "user", content: "Hello" }] }),
  });
  expect(response.status).toBe(200);
  const text = await response.text();
  expect(text.split("\n\n").length).toBeGreaterThan(3);
  expect(text).toEndWith("data: [DONE]\n\n");
  for (const site of ["console", "explorer", "docs"])
    expect({ site, status: (await fetch(`${url}/${site}/`)).status }).toEqual({ site, status: 200 });
}

/** Fails with its output if the command fails. */
export function run(
  command: readonly string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], { env: cleanEnvironment(), ...options });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}:\n${stdout}\n${stderr}`);
  return stdout.toString() + stderr.toString();
}

/** The real Codex with a separate home: one prompt at a time, by `codex exec`. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { TEST_KEY } from "../support/running-gateway.ts";

const CODEX = resolve(import.meta.dir, "../clients/node_modules/.bin/codex");

export interface CodexSetup {
  /** Of the gateway, without `/v1`. */
  url: string;
  model: string;
  key?: string;
  transport: "http" | "websocket";
  /** Further settings of the provider; few retries by default. */
  provider?: Readonly<Record<string, string | number>>;
  /** "command": the key comes from a program, and Codex fetches the list of models. */
  auth?: "environment" | "command";
  /** A whole `config.toml`, which replaces the generated one. */
  config?: string;
}

export interface CodexHome {
  /** The working folder. */
  workspace: string;
  ask(question: string): Promise<Asked>;
  /** Continues the conversation of an earlier process. */
  resume(threadId: string, question: string): Promise<Asked>;
  /** For tests that run Codex in another way. */
  command(args: readonly string[]): { command: string[]; cwd: string; env: Record<string, string> };
  remove(): void;
}

export interface Asked {
  exitCode: number;
  threadId: string;
  /** The messages of the agent. */
  messages: readonly string[];
  commands: readonly { command: string; output: string }[];
  files: readonly { path: string; kind: string }[];
  /** What the user sees meanwhile: retries, warnings. */
  notices: readonly string[];
  /** Why the turn failed, or null. */
  failure: string | null;
  usage: Readonly<Record<string, number>> | null;
  /** Its log. */
  complaints: string;
}

const item = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("agent_message"), text: z.string() }),
  z.looseObject({ type: z.literal("command_execution"), command: z.string(), aggregated_output: z.string() }),
  z.looseObject({
    type: z.literal("file_change"),
    changes: z.array(z.object({ path: z.string(), kind: z.string() })),
  }),
  z.looseObject({ type: z.literal("error"), message: z.string() }),
  z.looseObject({ type: z.literal("reasoning"), text: z.string() }),
]);

const line = z.discriminatedUnion("type", [
  z.object({ type: z.literal("thread.started"), thread_id: z.string() }),
  z.object({ type: z.literal("turn.started") }),
  z.object({ type: z.literal("item.started"), item: z.looseObject({}) }),
  z.object({ type: z.literal("item.updated"), item: z.looseObject({}) }),
  z.object({ type: z.literal("item.completed"), item }),
  z.looseObject({ type: z.literal("error"), message: z.string() }),
  z.object({ type: z.literal("turn.completed"), usage: z.record(z.string(), z.number()) }),
  z.object({ type: z.literal("turn.failed"), error: z.looseObject({ message: z.string() }) }),
]);

export function openCodex(setup: CodexSetup): CodexHome {
  const home = mkdtempSync(join(tmpdir(), "model-gateway-codex-"));
  const workspace = join(home, "workspace");
  mkdirSync(workspace);
  writeFileSync(join(home, "config.toml"), setup.config ?? buildConfig(setup));

  function command(args: readonly string[]) {
    const env = {
      PATH: process.env.PATH ?? "",
      HOME: home,
      CODEX_HOME: home,
      KEY: setup.key ?? TEST_KEY,
    };
    return { command: [CODEX, ...args], cwd: workspace, env };
  }

  async function run(args: readonly string[]): Promise<Asked> {
    const { command: words, ...place } = command(["exec", "--skip-git-repo-check", "--json", ...args]);
    const child = Bun.spawn(words, { ...place, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    const [printed, complaints] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    return summary(printed, await child.exited, complaints);
  }

  return {
    workspace,
    ask: (question) => run([question]),
    resume: (threadId, question) => run(["resume", threadId, question]),
    command,
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

function buildConfig(setup: CodexSetup): string {
  const { url, model, transport, provider = {}, auth = "environment" } = setup;
  const settings = {
    name: "Model Gateway",
    base_url: `${url}/v1`,
    wire_api: "responses",
    ...(auth === "environment" ? { env_key: "KEY" } : {}),
    request_max_retries: 0,
    stream_max_retries: 0,
    ...provider,
  };
  const lines = [
    `model = ${JSON.stringify(model)}`,
    'model_provider = "gateway"',
    'approval_policy = "never"',
    // The test provides the tools that it calls.
    'sandbox_mode = "danger-full-access"',
    "[model_providers.gateway]",
    ...Object.entries(settings).map(([name, value]) => `${name} = ${JSON.stringify(value)}`),
    `supports_websockets = ${transport === "websocket"}`,
    ...(auth === "command"
      ? ["[model_providers.gateway.auth]", 'command = "/bin/sh"', 'args = ["-c", "echo $KEY"]']
      : []),
    "[analytics]",
    "enabled = false",
  ];
  return `${lines.join("\n")}\n`;
}

function summary(printed: string, exitCode: number, complaints: string): Asked {
  const lines = printed
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => line.parse(JSON.parse(text)));
  const items = lines.flatMap((one) => (one.type === "item.completed" ? [one.item] : []));
  return {
    exitCode,
    threadId: lines.find((one) => one.type === "thread.started")?.thread_id ?? "",
    messages: items.flatMap((one) => (one.type === "agent_message" ? [one.text] : [])),
    commands: items.flatMap((one) =>
      one.type === "command_execution" ? [{ command: one.command, output: one.aggregated_output }] : [],
    ),
    files: items.flatMap((one) => (one.type === "file_change" ? one.changes : [])),
    notices: [
      ...items.flatMap((one) => (one.type === "error" ? [one.message] : [])),
      ...lines.flatMap((one) => (one.type === "error" ? [one.message] : [])),
    ],
    failure: lines.find((one) => one.type === "turn.failed")?.error.message ?? null,
    usage: lines.find((one) => one.type === "turn.completed")?.usage ?? null,
    complaints,
  };
}

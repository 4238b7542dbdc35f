/** Test support: Google's own clients as processes, from the package of real clients. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { TEST_KEY } from "../support/running-gateway.ts";

const CLIENTS = join(import.meta.dir, "../clients");

const turn = z.object({
  text: z.string(),
  thoughts: z.string(),
  calls: z.array(z.object({ name: z.string(), args: z.unknown() })),
  finish: z.string().nullable(),
  usage: z.looseObject({ promptTokenCount: z.number().optional() }).nullable(),
});

const genaiResult = z.looseObject({
  ...turn.partial().shape,
  turns: z.array(turn).optional(),
  totalTokens: z.number().optional(),
  vectors: z.array(z.array(z.number())).optional(),
  names: z.array(z.string()).optional(),
  cancelled: z.boolean().optional(),
  error: z.object({ name: z.string(), status: z.number().nullable(), message: z.string() }).optional(),
});
export type GenaiResult = z.output<typeof genaiResult>;

export interface GenaiScenario {
  readonly run: "plain" | "stream" | "tool" | "image" | "json" | "cancel" | "count" | "embed" | "models";
  readonly model?: string;
  readonly stream?: boolean;
  readonly steps?: number;
  readonly dimensions?: number;
  readonly config?: object;
}

/** Runs all scenarios in one process, because starting one takes longer than a scenario. */
export async function runGenai(
  url: string,
  scenarios: readonly GenaiScenario[],
  key = TEST_KEY,
): Promise<GenaiResult[]> {
  const command = ["node", join(CLIENTS, "genai.mjs"), url, key, JSON.stringify(scenarios)];
  const child = Bun.spawn(command, { cwd: CLIENTS, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(errors);
  return output
    .trim()
    .split("\n")
    .map((line) => genaiResult.parse(JSON.parse(line)));
}

const cliOutput = z.looseObject({
  response: z.string().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
  stats: z
    .looseObject({ tools: z.looseObject({ totalCalls: z.number(), totalSuccess: z.number() }) })
    .optional(),
});

export interface CliRun {
  readonly exitCode: number;
  readonly response: string;
  readonly toolCalls: number;
  readonly toolSuccesses: number;
  readonly errors: string;
}

/** Without this line gemini-cli selects a sign-in method that its own check rejects. */
export const CLI_SETTINGS = { security: { auth: { selectedType: "gemini-api-key" } } };

export interface CliOptions {
  readonly model: string;
  readonly prompt: string;
  readonly settings?: object;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs gemini-cli with a separate home. */
export async function runGeminiCli(
  url: string,
  { model, prompt, settings = CLI_SETTINGS, environment = {} }: CliOptions,
): Promise<CliRun> {
  const home = mkdtempSync(join(tmpdir(), "gemini-cli-home-"));
  mkdirSync(join(home, ".gemini"));
  writeFileSync(join(home, ".gemini/settings.json"), JSON.stringify(settings));
  try {
    const program = join(CLIENTS, "node_modules/@google/gemini-cli/bundle/gemini.js");
    const child = Bun.spawn(["node", program, "--skip-trust", "-m", model, "-o", "json", "-p", prompt], {
      cwd: home,
      env: {
        PATH: process.env.PATH ?? "",
        HOME: home,
        GOOGLE_GEMINI_BASE_URL: url,
        GEMINI_API_KEY: TEST_KEY,
        ...environment,
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, errors] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    const exitCode = await child.exited;
    const start = output.indexOf("{");
    const parsed = start === -1 ? null : cliOutput.parse(JSON.parse(output.slice(start)));
    return {
      exitCode,
      response: parsed?.response ?? "",
      toolCalls: parsed?.stats?.tools.totalCalls ?? 0,
      toolSuccesses: parsed?.stats?.tools.totalSuccess ?? 0,
      errors: parsed?.error?.message ?? errors,
    };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

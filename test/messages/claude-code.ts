/** The real Claude Code with a separate home: one prompt at a time, by `claude -p`. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TEST_KEY } from "../support/running-gateway.ts";

/** The program of the platform's own package, which needs no Node. */
export const CLAUDE = join(
  import.meta.dir,
  `../clients/node_modules/@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`,
);

export interface ClaudeCodeSetup {
  /** Of the gateway, without `/v1`. */
  url: string;
  model: string;
  /** Whether the key is sent as a bearer token or in `x-api-key`. */
  auth?: "token" | "key";
  environment?: Readonly<Record<string, string>>;
}

export interface ClaudeCodeResponse {
  exitCode: number;
  /** The text of the response, or the error as a user sees it. */
  text: string;
  isError: boolean;
  sessionId: string;
  turns: number;
  usage: Readonly<Record<string, unknown>>;
  complaints: string;
}

export interface ClaudeCodeHome {
  workspace: string;
  ask(question: string, args?: readonly string[]): Promise<ClaudeCodeResponse>;
  remove(): void;
}

const TIMEOUT_MS = 60_000;

export function openClaudeCode(setup: ClaudeCodeSetup): ClaudeCodeHome {
  const home = mkdtempSync(join(tmpdir(), "model-gateway-claude-"));
  const workspace = join(home, "work");
  mkdirSync(workspace);
  writeFileSync(join(workspace, "notes.txt"), "The code word is periwinkle.\n");
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? "",
    HOME: home,
    ANTHROPIC_BASE_URL: setup.url,
    ...(setup.auth === "key" ? { ANTHROPIC_API_KEY: TEST_KEY } : { ANTHROPIC_AUTH_TOKEN: TEST_KEY }),
    ANTHROPIC_MODEL: setup.model,
    ANTHROPIC_SMALL_FAST_MODEL: setup.model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    IS_SANDBOX: "1",
    ...setup.environment,
  };
  return {
    workspace,
    async ask(question, args = []) {
      const command = [CLAUDE, "-p", question, "--model", setup.model, "--output-format", "json", ...args];
      const child = Bun.spawn(command, {
        cwd: workspace,
        env,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        timeout: TIMEOUT_MS,
      });
      const [output, complaints, exitCode] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
      ]);
      return readResponse(output, complaints, exitCode);
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

function readResponse(output: string, complaints: string, exitCode: number): ClaudeCodeResponse {
  const json: Record<string, unknown> = output.trim() === "" ? {} : JSON.parse(output);
  return {
    exitCode,
    text: String(json.result ?? ""),
    isError: json.is_error === true,
    sessionId: String(json.session_id ?? ""),
    turns: Number(json.num_turns ?? 0),
    usage: typeof json.usage === "object" && json.usage !== null ? { ...json.usage } : {},
    complaints,
  };
}

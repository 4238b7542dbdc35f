/** `model-gateway setup` and `run`: connect a tool of this computer with the gateway at which it is signed in. */

import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { type CommandDefinition, fail, type Input, misuse } from "../command.ts";
import { PROGRAM } from "../program-name.ts";
import { askLine, requireTerminal } from "../questions.ts";
import { ToolCredentials } from "./credentials.ts";
import { checkGatewayUrl } from "./gateway-client.ts";
import { URL_OPTION } from "./sign-in.ts";
import {
  CLAUDE_CREDENTIALS,
  editClaude,
  editClaudeMachine,
  editCodex,
  editGemini,
  editJson,
  editOpencode,
  GETS_TOKEN_AT_START,
  RUN_ONCE,
  TOOLS,
  type Tool,
} from "./tool-settings.ts";
import { chooseGateway, getValidToken } from "./valid-token.ts";

/** Read by Claude Code on Linux. */
const MACHINE_TOOL: Tool = "claude";
const CLAUDE_MACHINE_FILE = "/etc/claude-code/managed-settings.json";

export const setupTool: CommandDefinition = {
  changes: "computer",
  about: `Shows the change of the tool's file first, and asks before it is written. The tool then gets its tokens from
\`token\`. With --machine, Claude Code signs in by /login instead: that needs root, and no \`login\` before.`,
  options: {
    url: URL_OPTION,
    machine: { about: `claude: write ${CLAUDE_MACHINE_FILE}, for all users of this computer` },
    yes: { about: "write without asking" },
    "dry-run": { about: "show the change without writing it" },
  },
  async run(input) {
    const tool = readTool(input);
    const { path, after } = await buildChange(tool, input);
    const before = readIfPresent(path);
    if (before === after) {
      input.terminal.print(`${path} is up to date.`);
      return 0;
    }
    showDifference(path, before, after, input);
    if (input.flag("dry-run")) return 0;
    if (!input.flag("yes")) {
      requireTerminal("The change needs a confirmation", "Run the command again with --yes.");
      if ((await askLine("Write this change? (yes/no)", "no")) !== "yes") return 1;
    }
    writeSettings(path, after);
    input.terminal.print(`Wrote ${path}.`);
    if (GETS_TOKEN_AT_START.has(tool))
      input.terminal.printNote(`It gets its token at the start: ${PROGRAM} run ${tool}`);
    const others = CLAUDE_CREDENTIALS.filter((name) => Boolean(input.environment[name]));
    if (tool === "claude" && others.length > 0)
      input.terminal.printNote(
        `Claude Code prefers ${others.join(" and ")} of your shell, and would send it to the gateway. Remove it, or start Claude Code with: ${PROGRAM} run claude`,
      );
    return 0;
  },
};

export const runTool: CommandDefinition = {
  changes: "computer",
  about: `TOOL is claude, codex, gemini or opencode. Arguments of the tool follow after --:

  ${PROGRAM} run codex -- exec "Say hello"`,
  options: { url: URL_OPTION },
  async run(input) {
    const tool = readTool(input);
    const credentials = new ToolCredentials(input.environment);
    const url = chooseGateway(credentials, input.text("url"));
    const token = await getValidToken(credentials, url, input.terminal.printNote);
    const { args, env } = RUN_ONCE[tool](url, token);
    if (Bun.which(tool) === null) fail(`${tool} is not installed, or not on the PATH.`);
    const child = Bun.spawn([tool, ...args, ...input.rest], {
      env: { ...process.env, ...env },
      stdio: ["inherit", "inherit", "inherit"],
    });
    // The terminal sends Ctrl+C to both; the tool decides what it means.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    return child.exited;
  },
};

function readTool(input: Input): Tool {
  const typed = input.require("TOOL");
  return (
    TOOLS.find((tool) => tool === typed) ??
    misuse(`TOOL must be ${TOOLS.join(", ")}.`, `For example: ${PROGRAM} setup codex`)
  );
}

async function buildChange(tool: Tool, input: Input): Promise<FileChange> {
  const { environment } = input;
  const home = environment.HOME || homedir();
  if (input.flag("machine")) {
    if (tool !== MACHINE_TOOL)
      misuse(
        "--machine is for claude only.",
        `For example: ${PROGRAM} setup claude --machine --url https://llm.example.com`,
      );
    const url = checkGatewayUrl(
      input.text("url") ?? chooseGateway(new ToolCredentials(environment), undefined),
    );
    const path = CLAUDE_MACHINE_FILE;
    return {
      path,
      after: editJson(path, readIfPresent(path), (settings) => editClaudeMachine(url, settings)),
    };
  }
  const credentials = new ToolCredentials(environment);
  const url = chooseGateway(credentials, input.text("url"));
  return CHANGES[tool]({ input, credentials, url, home });
}

interface SetupContext {
  readonly input: Input;
  readonly credentials: ToolCredentials;
  readonly url: string;
  readonly home: string;
}

type FileChange = { readonly path: string; readonly after: string };

const CHANGES: Readonly<Record<Tool, (context: SetupContext) => FileChange | Promise<FileChange>>> = {
  claude({ input: { environment }, url, home }) {
    const path = join(environment.CLAUDE_CONFIG_DIR || join(home, ".claude"), "settings.json");
    return { path, after: editJson(path, readIfPresent(path), (settings) => editClaude(url, settings)) };
  },
  codex({ input: { environment }, url, home }) {
    const path = join(environment.CODEX_HOME || join(home, ".codex"), "config.toml");
    return { path, after: editCodex(url, readIfPresent(path)) };
  },
  gemini({ home }) {
    const path = join(home, ".gemini", "settings.json");
    return { path, after: editJson(path, readIfPresent(path), editGemini) };
  },
  async opencode({ input, credentials, url, home }) {
    const folder = input.environment.XDG_CONFIG_HOME || join(home, ".config");
    const path = join(folder, "opencode", "opencode.json");
    const models = await listModels(url, await getValidToken(credentials, url, input.terminal.printNote));
    return { path, after: editJson(path, readIfPresent(path), (found) => editOpencode(url, models, found)) };
  },
};

const modelList = z.object({ data: z.array(z.object({ id: z.string() })) });

async function listModels(url: string, token: string): Promise<string[]> {
  const response = await fetch(`${url}/v1/models`, {
    headers: { authorization: `Bearer ${token}` },
    redirect: "error",
    signal: AbortSignal.timeout(30_000),
  }).catch(() => null);
  const body = modelList.safeParse(await response?.json().catch(() => null));
  return body.success ? body.data.data.map(({ id }) => id) : fail(`${url} did not list its models.`);
}

function readIfPresent(path: string): string | null {
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}

/** Lines that are removed and added. Most files are short; equal lines at the start and the end are left out. */
function showDifference(path: string, before: string | null, after: string, { terminal }: Input): void {
  const old = (before ?? "").split("\n").slice(0, before === null ? 0 : undefined);
  const lines = after.split("\n");
  let start = 0;
  while (start < old.length && old[start] === lines[start]) start++;
  let end = 0;
  while (end < old.length - start && end < lines.length - start && old.at(-1 - end) === lines.at(-1 - end))
    end++;
  terminal.print(before === null ? `${path} (new)` : path);
  for (const line of old.slice(start, old.length - end)) terminal.print(terminal.paint.red(`- ${line}`));
  for (const line of lines.slice(start, lines.length - end))
    terminal.print(terminal.paint.green(`+ ${line}`));
}

/** The mode of an existing file is kept. */
function writeSettings(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    const mode = existsSync(path) ? statSync(path).mode & 0o777 : 0o644;
    writeFileSync(`${path}.new`, text, { mode });
    chmodSync(`${path}.new`, mode);
    renameSync(`${path}.new`, path);
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "EACCES" || error.code === "EPERM"))
      fail(`No permission to write ${path}.`, "Run the command as root, for example with sudo.");
    throw error;
  }
}

/** The guides of opencode and Python work exactly as printed, with the packages from npm and PyPI. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GuidedTools } from "../support/guided-tools.ts";
import { readProcessResult } from "../support/process-result.ts";

export async function guidesWork(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "tool-guides-"));
  const tools = await GuidedTools.open();
  try {
    await run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "opencode-ai@1"]);
    await run(["python3", "-m", "venv", folder]);
    await run([join(folder, "bin/pip"), "install", "--quiet", "openai"]);
    tools.home.install("opencode", join(folder, "node_modules/.bin/opencode"));
    const outputs = [
      ["opencode", await tools.follow("opencode")],
      ["Python", await tools.follow("python", `${join(folder, "bin/python")} hello.py`)],
    ] as const;
    const silent = outputs.filter(([, output]) => !output.includes("built-in simulator"));
    if (silent.length > 0) throw new Error(silent.map(([name, output]) => `${name}: ${output}`).join("\n"));
    return `${outputs.map(([name]) => name).join(" and ")} printed the response`;
  } finally {
    await tools.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { stdout: "pipe", stderr: "pipe" });
  const { code, err } = await readProcessResult(child);
  if (code !== 0) throw new Error(`${command.join(" ")}: ${err}`);
}

/** The tool runner of Anthropic's Python SDK on an account of another dialect, with the package from PyPI. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  chatCall,
  chatCompletion,
  type Json,
  startVendorGateway,
  VENDOR_MODEL,
} from "../vendors/vendor-gateway.ts";

const CALLS = 3;
const PROGRAM = `
import os
from anthropic import Anthropic, beta_tool

@beta_tool
def add(number: int) -> str:
    """Adds a number."""
    return f"added {number}"

client = Anthropic(base_url=os.environ["GATEWAY"], api_key=os.environ["KEY"], max_retries=0)
runner = client.beta.messages.tool_runner(
    model=os.environ["MODEL"], max_tokens=100, system="Use the tool.", tools=[add],
    messages=[{"role": "user", "content": "Add up to two."}],
)
print(runner.until_done().content[0].text)
`;

export async function pythonKeepsConversation(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "python-threads-"));
  const gateway = await startVendorGateway([
    {
      account: { kind: "openai", interfaces: ["chat"] },
      respond({ body }) {
        const results = (body.messages as Json[]).filter(({ role }) => role === "tool").length;
        return results < CALLS
          ? chatCompletion(
              { tool_calls: [chatCall(`call_${results}`, "add", { number: results })] },
              "tool_calls",
            )
          : chatCompletion({ content: "The sum is 3." });
      },
    },
  ]);
  try {
    await run(["python3", "-m", "venv", folder]);
    await run([join(folder, "bin/pip"), "install", "--quiet", "anthropic>=2.9"]);
    const environment = { GATEWAY: gateway.url, KEY: TEST_KEY, MODEL: VENDOR_MODEL };
    const text = await run([join(folder, "bin/python"), "-c", PROGRAM], environment);
    const turns = (gateway.received[0] ?? []).map(({ body }) => (body.messages as Json[]).length);
    const summary = `the conversation arrived with ${turns.join(", ")} messages; the runner returned "${text.trim()}"`;
    // The first message is the system prompt, and each call adds its result.
    if ([...new Set(turns)].join() !== "2,4,6,8" || text.trim() !== "The sum is 3.") throw new Error(summary);
    return summary;
  } finally {
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = Bun.spawn([...command], {
    env: { ...process.env, ...environment },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`${command[0]} failed: ${errors}`);
  return output;
}

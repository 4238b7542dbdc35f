/** `npm test`: everything that must hold, in the order in which it fails fastest, with one summary line at the end. */

import { prepareMachine } from "./machine.ts";

interface Step {
  name: string;
  command: string[];
}

const bin = (name: string) => `node_modules/.bin/${name}`;

const STEPS: readonly Step[] = [
  { name: "types", command: [bin("tsc"), "--noEmit"] },
  { name: "lint and format", command: [bin("biome"), "ci", "--error-on-warnings", "--colors=off"] },
  { name: "tests", command: [process.execPath, "test", "--timeout=60000", ...Bun.argv.slice(2)] },
];

await prepareMachine((message) => console.log(`── ${message}`));

let passed = 0;
let failed = 0;
for (const step of STEPS) {
  const startedMs = performance.now();
  console.log(`── ${step.name}`);
  const child = Bun.spawn(step.command, {
    stdout: "inherit",
    stderr: "pipe",
    // Tests hold a thousand streams open at once; the runtime reads this only when it starts.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535", NO_COLOR: "1" },
  });
  const output = await echo(child.stderr);
  const code = await child.exited;
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  if (step.name === "tests") {
    passed = countOf(output, "pass");
    failed = countOf(output, "fail");
  }
  if (code !== 0) {
    console.log(`── ${step.name} failed after ${seconds} s\n${passed} passed, ${Math.max(failed, 1)} failed`);
    process.exit(1);
  }
  console.log(`── ${step.name} done in ${seconds} s`);
}
console.log(`${passed} passed, ${failed} failed`);

/** The runner reports on standard error: shown as it comes, kept for the counts. */
async function echo(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    process.stderr.write(chunk);
    text += decoder.decode(chunk, { stream: true });
  }
  return text;
}

function countOf(output: string, word: string): number {
  return Number(new RegExp(`^ *(\\d+) ${word}$`, "m").exec(output)?.[1] ?? 0);
}

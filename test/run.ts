/** `npm test`: everything that must hold, in the order in which it fails fastest, with one summary line at the end. */

import { Glob } from "bun";
import { prepareMachine } from "./machine.ts";

const bin = (name: string) => `node_modules/.bin/${name}`;
const runTests = (files: readonly string[]) => [process.execPath, "test", "--timeout=60000", ...files];

const CHECKS: readonly { name: string; command: string[] }[] = [
  { name: "types", command: [bin("tsc"), "--noEmit"] },
  { name: "types of the console", command: [bin("tsc"), "-b", "console"] },
  { name: "lint and format", command: [bin("biome"), "ci", "--error-on-warnings", "--colors=off"] },
];

/** What drives other programs, browsers and Codex, mostly waits for them: it runs beside the rest. */
const BESIDE = ["./test/browser/", "./test/codex/"];
const asked = Bun.argv.slice(2);

await prepareMachine((message) => console.log(`── ${message}`));
for (const { name, command } of CHECKS) {
  await step(name, async () => (await run(command, "shown")).code === 0);
}
let passed = 0;
let failed = 0;
await step("tests", async () => {
  const results =
    asked.length > 0
      ? [await run(runTests(asked), "shown")]
      : await Promise.all([run(runTests(await alone()), "shown"), run(runTests(BESIDE), "kept")]);
  for (const { output, isShown } of results) {
    if (!isShown) process.stderr.write(output);
    passed += countOf(output, "pass");
    failed += countOf(output, "fail");
  }
  return results.every(({ code }) => code === 0);
});
console.log(`${passed} passed, ${failed} failed`);

async function alone(): Promise<string[]> {
  const files = await Array.fromAsync(new Glob("test/*.test.ts").scan());
  const folders = ["./src/", "./console/", "./test/compliance/", "./test/http/"];
  return [...folders, ...files.toSorted().map((file) => `./${file}`)];
}

async function step(name: string, work: () => Promise<boolean>): Promise<void> {
  const startedMs = performance.now();
  console.log(`── ${name}`);
  const isGood = await work();
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  if (isGood) {
    console.log(`── ${name} done in ${seconds} s`);
    return;
  }
  console.log(`── ${name} failed after ${seconds} s\n${passed} passed, ${Math.max(failed, 1)} failed`);
  process.exit(1);
}

interface Result {
  code: number;
  /** The runner reports on standard error. */
  output: string;
  isShown: boolean;
}

/** `shown` as it comes; `kept` for the end, so that two do not speak at once. */
async function run(command: string[], how: "shown" | "kept"): Promise<Result> {
  const isShown = how === "shown";
  const child = Bun.spawn(command, {
    stdout: isShown ? "inherit" : "ignore",
    stderr: "pipe",
    // Tests hold a thousand streams open at once; the runtime reads this only when it starts.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535", NO_COLOR: "1" },
  });
  const decoder = new TextDecoder();
  let output = "";
  for await (const chunk of child.stderr) {
    if (isShown) process.stderr.write(chunk);
    output += decoder.decode(chunk, { stream: true });
  }
  return { code: await child.exited, output, isShown };
}

function countOf(output: string, word: string): number {
  return Number(new RegExp(`^ *(\\d+) ${word}$`, "m").exec(output)?.[1] ?? 0);
}

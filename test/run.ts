/**
 * `npm test`: all checks, the fastest to fail first, with one summary line at the end. A test that fails in parallel
 * with the other lanes is run once more alone, because two cores can delay it beyond any deadline. Such tests are
 * listed at the end, and fail the run if they fail again.
 */

import { prepareMachine } from "./support/install-dependencies.ts";

const bin = (name: string) => `node_modules/.bin/${name}`;
const runTests = (files: readonly string[]) => [process.execPath, "test", "--timeout=60000", ...files];

const CHECKS: readonly { name: string; command: string[] }[] = [
  { name: "types", command: [bin("tsc"), "--noEmit"] },
  { name: "types of the console", command: [bin("tsc"), "-b", "console"] },
  { name: "lint and format", command: [bin("biome"), "ci", "--error-on-warnings", "--colors=off"] },
];

/**
 * Lanes that run in parallel, each in a separate process: most of them wait for a database, a deadline or another
 * program, while the browser computes. More lanes would gain nothing on two cores.
 */
const END_TO_END = [
  "architecture.test.ts",
  "language.test.ts",
  "documentation.test.ts",
  "abuse/",
  "api/",
  "compliance/",
  "console-api/",
  "dispatch/",
  "money/",
  "operations/",
  "websocket/",
];

/** Real clients and browsers, and tests that balance the lanes. */
const CLIENTS = [
  "browser/",
  "codex/",
  "gemini/",
  "matrix/",
  "messages/",
  "sdk/",
  "translation/",
  "streams/",
  "vendors/",
];

const LANES: readonly (readonly string[])[] = [
  ["./src/", "./simulator/", "./console/", "./release/", "./test/http/"],
  END_TO_END.map((folder) => `./test/${folder}`),
  CLIENTS.map((folder) => `./test/${folder}`),
];
const asked = Bun.argv.slice(2);
let passed = 0;
let failed = 0;
let starved: readonly Failure[] = [];

await prepareMachine((message) => console.log(`── ${message}`));
for (const { name, command } of CHECKS) {
  await step(name, async () => (await run(command, "shown")).code === 0);
}
await step("tests", async () => {
  const [first = [], ...others] = asked.length > 0 ? [asked] : LANES;
  const results = await Promise.all([
    run(runTests(first), "shown"),
    ...others.map((lane) => run(runTests(lane), "kept")),
  ]);
  for (const { output, isShown } of results) {
    if (!isShown) process.stderr.write(output);
    passed += countOf(output, "pass");
    failed += countOf(output, "fail");
  }
  const bad = results.filter(({ code }) => code !== 0);
  if (bad.length === 0) return true;
  const failures = bad.flatMap(({ output }) => failuresIn(output));
  console.log(`\n── failed\n${failures.map(describeFailure).join("\n")}`);
  // A process that ended before its count has not run all of its tests.
  const isCounted = bad.every(({ output }) => countOf(output, "fail") > 0) && failures.length === failed;
  if (!isCounted || asked.length > 0) return false;
  const files = [...new Set(failures.map(({ file }) => file))];
  console.log(`── once more, alone: ${files.join(" ")}`);
  const again = await run(runTests(files), "shown");
  if (again.code !== 0) return false;
  [passed, failed, starved] = [passed + failed, 0, failures];
  return true;
});
for (const { file, name } of starved)
  console.log(`passed only when run alone, to be mended: ${file} > ${name}`);
console.log(`${passed} passed, ${failed} failed`);

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

/** `shown` is printed at once; `kept` at the end, so that outputs do not mix. */
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

interface Failure {
  file: string;
  name: string;
  /** The output of the runner about it. */
  words: string;
}

/** The runner prints the name of a file, then the result of each test, with the error before the result. */
function failuresIn(output: string): Failure[] {
  const failures: Failure[] = [];
  let file = "";
  let words: string[] = [];
  for (const line of output.split("\n")) {
    // From here on the runner repeats the names.
    if (/^\d+ tests failed:$/.test(line)) break;
    const verdict = /^\((pass|fail|skip|todo)\) (.*?)(?: \[[\d.]+ms\])?$/.exec(line);
    if (verdict === null) {
      const heading = /^(\S+\.test\.ts):$/.exec(line);
      const last = failures.at(-1);
      // A missed deadline is printed after the result.
      if (words.length === 0 && last !== undefined && line.startsWith("  ^ ")) last.words += `\n${line}`;
      else if (heading === null) words.push(line);
      else file = `./${heading[1]}`;
      continue;
    }
    if (verdict[1] === "fail")
      failures.push({ file, name: verdict[2] ?? "", words: words.join("\n").trimEnd() });
    words = [];
  }
  return failures;
}

function describeFailure({ file, name, words }: Failure): string {
  return `${file} > ${name}\n${words.replaceAll(/^/gm, "    ")}`;
}

function countOf(output: string, word: string): number {
  return Number(new RegExp(`^ *(\\d+) ${word}$`, "m").exec(output)?.[1] ?? 0);
}

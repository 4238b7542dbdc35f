/**
 * `npm test` and `npm run test:system`: the checks and tests of one suite, the fastest to fail first, with one summary
 * line at the end. Worker processes share the files, the slowest first. A test that fails beside the others is repeated
 * alone, because a busy machine can delay it beyond any deadline; more than two such tests fail the run.
 *
 * With paths as arguments only those tests run. `--write-times` updates the checked-in times of the suite.
 */

import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { readTimes, timingFlags, writeCheckedInTimes } from "./runner/file-times.ts";
import { listSuite, listTestFiles } from "./runner/suites.ts";
import { createMemoryFolder } from "./runner/temporary-folder.ts";
import { type Failure, TestReport } from "./runner/test-report.ts";
import { ENGINE_VARIABLE, type Engine } from "./support/engines.ts";
import { prepareMachine } from "./support/install-dependencies.ts";

const ROOT = resolve(import.meta.dir, "..");
const bin = (name: string) => join(ROOT, "node_modules/.bin", name);

interface Check {
  readonly name: string;
  readonly command: string[];
}

interface Plan {
  readonly engine: Engine;
  /** After the generated files, side by side. */
  readonly checks: readonly Check[];
  prepare(): Promise<void>;
}

/** Alone and first: it takes seconds, and one command repairs what it finds. */
const GENERATED_FILES: Check = {
  name: "generated files",
  command: [process.execPath, join(ROOT, "test/runner/check-generated.ts")],
};

const PLANS: Readonly<Record<"daily" | "system", Plan>> = {
  daily: {
    engine: "sqlite",
    checks: [
      { name: "types", command: [bin("tsc"), "--noEmit"] },
      { name: "types of the console", command: [bin("tsc"), "-b", "console"] },
      { name: "lint and format", command: [bin("biome"), "ci", "--error-on-warnings", "--colors=off"] },
    ],
    prepare: async () => {},
  },
  system: {
    engine: "postgres",
    checks: [
      { name: "types of the tests with clients", command: [bin("tsc"), "-p", "tsconfig.clients.json"] },
    ],
    prepare: () => prepareMachine((message) => console.log(`── ${message}`)),
  },
};

/** Most tests wait for a deadline, a database or another program now and then. */
const WORKERS = Math.min(availableParallelism() + 1, 6);
const REPEATED_MAX = 2;
const SLOWEST_SHOWN = 10;
const PROGRESS_LINES = 20;

const [name, ...args] = Bun.argv.slice(2);
const suite = name === "system" ? "system" : "daily";
const isWriting = args.includes("--write-times");
const asked = args.filter((arg) => !arg.startsWith("--"));
const { engine, checks, prepare } = PLANS[suite];
/** The system suite has other programs and large files. */
const memoryFolder = suite === "daily" ? createMemoryFolder() : null;
let shownFiles = 0;
process.chdir(ROOT);

const files =
  asked.length === 0
    ? listSuite(suite, ROOT)
    : listTestFiles(ROOT).filter((file) => asked.some((path) => file.startsWith(join(path))));
if (files.length === 0) throw new Error(`There are no tests in ${asked.join(", ")}.`);
if (asked.length === 0) await runChecks([GENERATED_FILES]);
await prepare();
if (asked.length === 0) await runChecks(checks);
await runTests();

/** Side by side: the type checker uses one core. */
async function runChecks(list: readonly Check[]): Promise<void> {
  const areGood = await Promise.all(list.map(runCheck));
  if (areGood.includes(false)) finish({ passed: 0, failed: 1, repeated: 0 });
}

async function runCheck({ name, command }: Check): Promise<boolean> {
  const startedMs = performance.now();
  const child = Bun.spawn(command, { stdout: "inherit", stderr: "inherit" });
  const isGood = (await child.exited) === 0;
  console.log(`── ${name}: ${isGood ? "done in" : "failed after"} ${secondsSince(startedMs)} s`);
  return isGood;
}

async function runTests(): Promise<void> {
  const startedMs = performance.now();
  console.log(`── tests: ${files.length} files, ${WORKERS} processes`);
  const parallel = [`--parallel=${WORKERS}`, "--no-isolate", ...timingFlags(suite)];
  const { code, report } = await run([...parallel, ...files], (done) => showProgress(done, startedMs));
  console.log(`── tests: done in ${secondsSince(startedMs)} s`);
  if (asked.length === 0) showSlowest();
  const { passed, failures, failed } = report;
  if (isWriting && code === 0) writeCheckedInTimes(suite, files);
  if (code === 0) finish({ passed, failed: 0, repeated: 0 });
  // Without a whole list of failures there is nothing to repeat.
  if (!report.isWhole || asked.length > 0) finish({ passed, failed: Math.max(failed ?? 0, 1), repeated: 0 });
  await repeatAlone(passed, failures);
}

async function repeatAlone(passed: number, failures: readonly Failure[]): Promise<void> {
  const repeatedFiles = [...new Set(failures.map(({ file }) => `./${file}`))];
  console.log(`── repeated alone: ${repeatedFiles.join(" ")}`);
  const { code, report } = await run(repeatedFiles, () => {});
  const again = report.failures;
  const failedAgain = new Set(again.map(nameFailure));
  const repeated = failures.filter((failure) => !failedAgain.has(nameFailure(failure)));
  for (const failure of repeated) console.log(`   passed only alone, to be mended: ${nameFailure(failure)}`);
  for (const failure of again) console.log(`   failed twice: ${nameFailure(failure)}`);
  const failed = code === 0 ? 0 : Math.max(again.length, 1);
  finish({ passed: passed + failures.length - failed, failed, repeated: repeated.length });
}

/** The last line of every run. */
function finish(result: { passed: number; failed: number; repeated: number }): never {
  const { passed, failed, repeated } = result;
  const note =
    repeated === 0 ? "" : `, ${repeated} passed only when repeated alone (at most ${REPEATED_MAX})`;
  console.log(`${passed} passed, ${failed} failed${note}`);
  process.exit(failed === 0 && repeated <= REPEATED_MAX ? 0 : 1);
}

/** Shows failures as they happen. */
async function run(
  words: readonly string[],
  onFile: (done: number) => void,
): Promise<{ code: number; report: TestReport }> {
  const report = new TestReport((failure) => {
    console.log(`✗ ${nameFailure(failure)}\n${failure.words.replaceAll(/^/gm, "    ")}`);
  });
  const child = Bun.spawn([process.execPath, "test", "--timeout=60000", ...words], {
    stdout: "ignore",
    stderr: "pipe",
    // Tests hold a thousand streams open at once; the runtime reads this only when it starts.
    env: {
      ...process.env,
      BUN_CONFIG_MAX_HTTP_REQUESTS: "65535",
      NO_COLOR: "1",
      ...(memoryFolder === null ? {} : { TMPDIR: memoryFolder }),
      ...(asked.length > 0 ? {} : { [ENGINE_VARIABLE]: engine }),
    },
  });
  const decoder = new TextDecoder();
  let tail = "";
  let done = 0;
  for await (const chunk of child.stderr) {
    const text = decoder.decode(chunk, { stream: true });
    tail = (tail + text).slice(-4_000);
    report.push(text);
    if (report.files.size > done) {
      done = report.files.size;
      onFile(done);
    }
  }
  report.end();
  const code = await child.exited;
  if (code !== 0 && !report.isWhole) console.log(tail);
  return { code, report };
}

function showProgress(done: number, startedMs: number): void {
  if (done - shownFiles < files.length / PROGRESS_LINES) return;
  shownFiles = done;
  console.log(`   ${done} of ${files.length} files, ${secondsSince(startedMs)} s`);
}

function showSlowest(): void {
  const slowest = Object.entries(readTimes(suite, files))
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, SLOWEST_SHOWN);
  console.log("── slowest files");
  for (const [file, ms] of slowest) console.log(`   ${(ms / 1_000).toFixed(1).padStart(6)} s  ${file}`);
}

function nameFailure({ file, name }: Failure): string {
  return `${file} > ${name}`;
}

function secondsSince(startedMs: number): string {
  return ((performance.now() - startedMs) / 1_000).toFixed(1);
}

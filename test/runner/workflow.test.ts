import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { ROOT } from "../architecture/source-graph.ts";

interface Step {
  readonly uses?: string;
  readonly run?: string;
}

interface Job {
  readonly "runs-on": string;
  readonly "timeout-minutes": number;
  readonly steps: readonly Step[];
}

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const workflow: { on: object; jobs: Readonly<Record<string, Job>> } = parse(read(".github/workflows/ci.yml"));
const jobs = Object.values(workflow.jobs);
const commands = [...read(".ci/run").matchAll(/^npm [\w: ]*\w/gm)].map(([command]) => command);

test("the workflow of the forge runs the commands of .ci/run, and no others", () => {
  const run = jobs.flatMap(({ steps }) => steps.flatMap((step) => step.run ?? []));
  expect(commands).toEqual(["npm ci", "npm test", "npm run test:system"]);
  expect([...new Set(run)]).toEqual(commands);
});

test("each job of the workflow installs the packages first, and has a deadline", () => {
  expect(Object.keys(workflow.on)).toEqual(["push", "pull_request"]);
  for (const { steps, ...job } of jobs) {
    expect(job["runs-on"]).toStartWith("ubuntu-");
    expect(job["timeout-minutes"]).toBeGreaterThan(0);
    expect(steps[0]?.uses).toStartWith("actions/checkout@");
    expect(steps.find(({ run }) => run !== undefined)?.run).toBe("npm ci");
  }
});

describe(".ci/run", () => {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-ci-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Runs it with an npm that writes its arguments down, and fails for those given. */
  function run(failing: string): { code: number; calls: string[] } {
    const calls = join(folder, "calls");
    const script = `#!/bin/sh\necho "$*" >> ${calls}\ntest "$*" != "${failing}"\n`;
    writeFileSync(calls, "");
    writeFileSync(join(folder, "npm"), script, { mode: 0o755 });
    const { exitCode } = Bun.spawnSync([join(ROOT, ".ci/run")], {
      env: { ...process.env, PATH: `${folder}:${process.env.PATH}` },
    });
    return { code: exitCode, calls: readFileSync(calls, "utf8").trim().split("\n") };
  }

  test("runs both suites, and fails if one of them failed", () => {
    const all = ["ci", "test", "run test:system"];
    expect(run("")).toEqual({ code: 0, calls: all });
    expect(run("test")).toEqual({ code: 1, calls: all });
    expect(run("run test:system")).toEqual({ code: 1, calls: all });
  });

  test("stops if the packages cannot be installed", () => {
    expect(run("ci")).toEqual({ code: 1, calls: ["ci"] });
  });
});

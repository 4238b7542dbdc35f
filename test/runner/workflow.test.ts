import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
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
const commands = read(".ci/run").split("\n").at(-2)?.split(" && ") ?? [];

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

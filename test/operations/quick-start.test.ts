/** Follows the quick start exactly, with nothing but the source. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { eventually } from "../support/eventually.ts";
import { type ProcessResult, readProcessResult } from "../support/process-result.ts";

const ROOT = join(import.meta.dir, "../..");
/** Folders that a fresh copy of the source does not have. */
const NOT_SOURCE = new Set([".git", "node_modules", "data", "dist"]);

// It installs the product.
setDefaultTimeout(300_000);

const PAGE = readFileSync(join(ROOT, "docs", "quick-start.md"), "utf8");
const [install = "", ...rest] = [...PAGE.matchAll(/```sh\n(.*?)```/gs)].map(([, text = ""]) => text);

let folder: string;
let port: number;
let server: Bun.Subprocess;
let shell: (text: string) => Promise<ProcessResult>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-quick-start-"));
  cpSync(ROOT, folder, {
    recursive: true,
    filter: (path) => !NOT_SOURCE.has(relative(ROOT, path).split("/")[0] ?? ""),
  });
  const taken = Bun.serve({ port: 0, fetch: () => new Response() });
  port = taken.port ?? 0;
  await taken.stop(true);
  // A clean machine: only PATH and the registry's settings are taken from this process's environment.
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: process.env.HOME ?? "/",
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => /^npm_config_/i.test(name))),
  };
  server = Bun.spawn(["setsid", "sh", "-c", install], {
    cwd: folder,
    env: { ...env, PORT: String(port) },
    stdout: "ignore",
    stderr: "ignore",
  });
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(isReady, 240_000);
  shell = (text) => {
    const words = ["sh", "-ec", text.replaceAll(":8787", `:${port}`)];
    return readProcessResult(Bun.spawn(words, { cwd: folder, env, stdout: "pipe", stderr: "pipe" }));
  };
});

afterAll(async () => {
  // The shell, npm and the gateway are one process group.
  process.kill(-server.pid, "SIGTERM");
  await server.exited;
  rmSync(folder, { recursive: true, force: true });
});

test("every command of the quick start works in order", async () => {
  expect(rest.length).toBeGreaterThanOrEqual(4);
  // The commands share their exported variables, like in one terminal.
  let before = "";
  const outputs: string[] = [];
  for (const text of rest) {
    const { code, out, err } = await shell(before + text);
    expect({ text, code, err }).toEqual({ text, code: 0, err: "" });
    outputs.push(out);
    before += text
      .split("\n")
      .filter((line) => line.startsWith("export "))
      .map((line) => `${line}\n`)
      .join("");
  }
  const [models = "", response = "", stream = "", usage = ""] = outputs;
  expect(JSON.parse(models).data.map(({ id }: { id: string }) => id)).toContain("sim-fast");
  expect(JSON.parse(response).status).toBe("completed");
  expect(stream).toEndWith("data: [DONE]\n\n");
  expect(JSON.parse(usage).usage.today.requests).toBe(2);
});

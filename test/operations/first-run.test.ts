/** The first run: an empty folder, one command, and its result. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";

// Every command is a separate process, and the machine can be busy.
setDefaultTimeout(60_000);

let folder: string;
let gateway: GatewayProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-first run-"));
  gateway = await startGatewayProcess({ folder });
});

afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true, force: true });
});

const demoKey = () => readFileSync(join(folder, "data/demo.key"), "utf8").trim();
const adminToken = () => readFileSync(join(folder, "data/admin-token"), "utf8").trim();
const mode = (name: string) => (statSync(join(folder, name)).mode & 0o777).toString(8);

/** The curl command from the start-up text, as a user would copy it. */
function printedCurl(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  const from = lines.findIndex((line) => line.startsWith("curl "));
  const to = lines.findIndex((line, index) => index >= from && !line.endsWith("\\"));
  return lines.slice(from, to + 1).join("\n");
}

async function shell(script: string): Promise<string> {
  const child = Bun.spawn(["sh", "-c", script], { cwd: "/", stdout: "pipe", stderr: "pipe" });
  const [out] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return out;
}

describe("the start-up text", () => {
  test("shows the API's address, the data folder, and how to become the administrator", () => {
    const text = gateway.output();
    expect(text).toContain("Model Gateway");
    expect(text).toMatch(/ready in \d+ ms/);
    expect(text).toContain(`${gateway.url}/v1`);
    expect(text).toContain(`SQLite in ${join(folder, "data")} (1 group, 1 key)`);
    expect(text).toContain("admin claim --email you@example.com");
  });

  test("contains no secret, because terminals end up in logs and screenshots", () => {
    expect(gateway.output()).not.toContain(demoKey());
    expect(gateway.output()).not.toContain(adminToken());
    expect(gateway.output()).not.toMatch(/gwk_/);
  });

  test("has a curl command that works at once", async () => {
    const received = JSON.parse(await shell(printedCurl(gateway.output())));
    expect(received).toMatchObject({
      object: "chat.completion",
      model: "sim-fast",
      choices: [{ message: { content: expect.stringContaining("Hello") } }],
    });
  });

  test('has a curl command that streams with "stream": true', async () => {
    const script = printedCurl(gateway.output()).replace("-d '{", `-d '{"stream": true, `);
    const text = await shell(script);
    expect(text).toStartWith("data: {");
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(text.split("\n\n").length).toBeGreaterThan(4);
  });
});

test("secret files are readable only by their owner", () => {
  expect(mode("data")).toBe("700");
  for (const name of ["master.key", "demo.key", "admin-token"]) expect(mode(`data/${name}`)).toBe("600");
  for (const name of readdirSync(join(folder, "data")).filter((entry) => entry.startsWith("gateway.db"))) {
    expect(`${name} ${mode(`data/${name}`)}`).toBe(`${name} 600`);
  }
});

test("the demo serves all four interfaces", async () => {
  const call = async (path: string, body?: object) => {
    const response = await fetch(`${gateway.url}/v1/${path}`, {
      headers: { authorization: `Bearer ${demoKey()}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    return (await response.json()) as { data: { id: string }[]; output: { type: string }[] };
  };
  const models = (await call("models")).data.map(({ id }) => id);
  expect(models).toEqual(["sim-fast", "sim-reason", "sim-tools", "sim-embed", "sim-image"]);
  const received = await call("responses", { model: "sim-reason", input: "Why?" });
  expect(received.output[0]?.type).toBe("reasoning");
  expect((await call("embeddings", { model: "sim-embed", input: "x" })).data).toHaveLength(1);
  expect((await call("images/generations", { model: "sim-image", prompt: "x" })).data).toHaveLength(1);
});

describe("the administrator", () => {
  const claim = (email: string) =>
    runCommand(["admin", "claim", "--email", email, "--password-stdin"], {
      folder,
      stdin: "correct horse battery\n",
    });

  test("is created once with the token file, while the server runs", async () => {
    const first = await claim("ops@example.com");
    expect(first).toMatchObject({
      code: 0,
      output: expect.stringContaining("ops@example.com is now the administrator."),
    });
    expect(existsSync(join(folder, "data/admin-token"))).toBe(false);
    const second = await claim("mallory@example.com");
    expect(second.code).not.toBe(0);
    expect(second.output).toContain("An administrator already exists");
  });
});

test("a second start keeps keys, usage and the administrator", async () => {
  const key = demoKey();
  const masterKey = readFileSync(join(folder, "data/master.key"));
  const usage = async () => {
    const response = await fetch(`${gateway.url}/v1/usage`, { headers: { authorization: `Bearer ${key}` } });
    const report = (await response.json()) as { usage: { total: { requests: number } } };
    return report.usage.total.requests;
  };
  const before = await usage();
  expect(before).toBeGreaterThan(0);
  expect(await gateway.stop()).toBe(0);
  gateway = await startGatewayProcess({ folder });
  expect(demoKey()).toBe(key);
  expect(readFileSync(join(folder, "data/master.key"))).toEqual(masterKey);
  expect(await usage()).toBe(before);
  expect(gateway.output()).not.toContain("admin claim");
  expect(JSON.parse(await shell(printedCurl(gateway.output())))).toMatchObject({ model: "sim-fast" });
  expect(await usage()).toBe(before + 1);
});

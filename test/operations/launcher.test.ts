/** The running process: listening address, changes at run time, capacity and shutdown. */

import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BUILT_DIR } from "../../src/main.ts";
import { eventually } from "../support/eventually.ts";
import { type GatedUpstream, startGatedUpstream } from "../support/gated-upstream.ts";
import {
  type CommandOptions,
  type GatewayProcess,
  runCommand,
  startGatewayProcess,
} from "../support/gateway-process.ts";
import { rawRequest } from "../support/raw-http.ts";

setDefaultTimeout(60_000);

const KEY = "launcher-key-0123456789-0123456789-0123456789";

let folder: string;
let upstream: GatedUpstream;
let started: GatewayProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-launcher-"));
  upstream = startGatedUpstream();
  started = [];
});

afterEach(async () => {
  upstream.release();
  for (const process of started) await process.stop();
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: Omit<CommandOptions, "folder"> = {}): Promise<GatewayProcess> {
  const process = await startGatewayProcess({ folder, ...options });
  started.push(process);
  return process;
}

function file(text: string, name = "gateway.yaml"): string {
  writeFileSync(join(folder, name), text);
  return name;
}

const gatedFile = (extra = "") => `
models: [{ id: patient, interfaces: [chat] }, { id: newcomer, interfaces: [chat] }]
accounts:
  - { name: gated, kind: openai, base_url: ${upstream.url}, credential: up, private_network: true, models: { "*": "*" } }
groups: [{ name: default, models: [patient], accounts: [gated] }]
keys: [{ name: launcher, group: default, secret: ${KEY} }]
${extra}`;

const authorized = { authorization: `Bearer ${KEY}` };

function ask(gateway: GatewayProcess, model = "patient"): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...authorized, "content-type": "application/json" },
    body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] }),
  });
}

async function status(gateway: GatewayProcess, path: string, headers: Record<string, string> = authorized) {
  const response = await fetch(gateway.url + path, { headers });
  await response.arrayBuffer();
  return response.status;
}

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

describe("the listening address", () => {
  test("is set by PORT and HOST", async () => {
    const port = freePort();
    const gateway = await start({ env: { PORT: String(port), HOST: "127.0.0.2" } });
    expect(gateway.url).toBe(`http://127.0.0.2:${port}`);
    expect(await status(gateway, "/healthz", {})).toBe(200);
    expect(await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => "refused")).toBe("refused");
  });

  test("is set by flags before the environment, and by the environment before the file", async () => {
    const port = freePort();
    const config = file(gatedFile("server: { host: 127.0.0.3, port: 1 }"));
    const gateway = await start({
      args: ["--config", config, "--port", String(port)],
      env: { HOST: "127.0.0.2" },
    });
    expect(gateway.url).toBe(`http://127.0.0.2:${port}`);
  });

  test("is printed as it is, with the public URL beside it", async () => {
    const port = freePort();
    const config = file(gatedFile("server: { port: 1, public_url: https://gw.example }"));
    const gateway = await start({ args: ["--config", config, "--port", String(port)] });
    expect(gateway.url).toBe(`http://127.0.0.1:${port}`);
    // Without the built pages there is no address.
    const pages = existsSync(join(BUILT_DIR, "console")) ? `http://127.0.0.1:${port}/console/` : "not built";
    expect(gateway.output()).toContain(`Console  ${pages}`);
    expect(gateway.output()).toContain("Public   https://gw.example\n");
    const links = readFileSync(join(folder, "data/admin-token"), "utf8").trim().split("\n");
    const [token] = links.map((link) => link.split("#")[1]);
    expect(links).toEqual([
      `http://127.0.0.1:${port}/console/claim#${token}`,
      `https://gw.example/console/claim#${token}`,
    ]);
  });

  test("that is taken is reported in one sentence, and the other process continues", async () => {
    const first = await start();
    const port = new URL(first.url).port;
    const second = await runCommand(["start", "--data", "elsewhere"], { folder, env: { PORT: port } });
    expect(second.code).toBe(1);
    expect(second.output).toContain(`Port ${port} on 127.0.0.1 is already in use.`);
    expect(second.output).toContain("--port");
    expect(second.output).not.toContain("    at ");
    expect(await status(first, "/healthz", {})).toBe(200);
  });

  test("--data sets the data folder", async () => {
    await start({ args: ["--data", "my things"] });
    expect(existsSync(join(folder, "my things/gateway.db"))).toBe(true);
    expect(existsSync(join(folder, "data"))).toBe(false);
  });
});

describe("--config", () => {
  test("is applied before the server listens, and there is no demo then", async () => {
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    const response = await fetch(`${gateway.url}/v1/models`, { headers: authorized });
    expect(await response.json()).toMatchObject({ data: [{ id: "patient" }] });
    expect(gateway.output()).not.toContain("curl");
    expect(existsSync(join(folder, "data/demo.key"))).toBe(false);
  });

  test("writes new keys to a private file, and no secret to output that is not a terminal", async () => {
    const people = "users: [{ email: ops@example.com, role: admin }]\n";
    const config = file(
      gatedFile(people).replace("keys: [", "keys: [{ name: ci, user: ops@example.com, group: default }, "),
    );
    const gateway = await start({ args: ["--config", config, "--data", "my things"] });
    const kept = join(folder, "my things/new-keys");
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    const secret = /^ci {2}(gwk_\w+)\n$/.exec(readFileSync(kept, "utf8"))?.[1] ?? "";
    expect(await status(gateway, "/v1/models", { authorization: `Bearer ${secret}` })).toBe(200);
    expect(gateway.output()).toContain(`1 new key in ${kept}`);
    expect(gateway.output()).not.toContain("gwk_");
    const claim = `admin claim --email you@example.com --data '${join(folder, "my things")}'`;
    expect(gateway.output()).toContain(claim);
    const args = ["admin", "claim", "--email", "ops@example.com", "--password-stdin", "--data", "my things"];
    const claimed = await runCommand(args, { folder, stdin: "correct horse battery\n" });
    expect(claimed).toMatchObject({ code: 0, output: expect.stringContaining("is now the administrator") });
  });

  test("names the file of new keys even if the port is taken", async () => {
    const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("mine") });
    const config = file(gatedFile().replace("keys: [", "keys: [{ name: ci, group: default }, "));
    const env = { PORT: String(taken.port) };
    const { code, output } = await runCommand(["start", "--config", config], { folder, env });
    await taken.stop();
    expect(code).toBe(1);
    expect(output).toContain(`1 new key in ${join(folder, "data/new-keys")}`);
    expect(output).toContain("is already in use.");
  });

  test("reports an address on which it cannot listen, and exits", async () => {
    const config = file(gatedFile());
    const args = ["start", "--config", config, "--host", "192.0.2.1", "--port", "8787"];
    const { code, output } = await runCommand(args, { folder });
    expect(code).toBe(1);
    expect(output).toContain("Cannot listen on port 8787 of 192.0.2.1 (EADDRNOTAVAIL).");
  });

  test("exits with the file name if it cannot read a leftover journal", async () => {
    const config = file(gatedFile());
    const gateway = await start({ args: ["--config", config] });
    await gateway.stop();
    // A folder cannot be read as a file, even by root.
    mkdirSync(join(folder, "data/settlements/journal-inc_dead.1.jsonl"));
    const { code, output } = await runCommand(["start", "--config", config], { folder, env: { PORT: "0" } });
    expect(code).toBe(1);
    expect(output).toContain("EISDIR");
    expect(output).not.toContain("policy_refresh_failed");
  });

  test("with an error prevents the start, with file, line and field", async () => {
    const config = file("groups:\n  - name: default\n    modles: [x]\n");
    const { code, output } = await runCommand(["start", "--config", config], { folder, env: { PORT: "0" } });
    expect(code).toBe(1);
    expect(output).toContain("gateway.yaml:3");
    expect(output).toContain("modles");
  });
});

describe("at run time", () => {
  test("an applied model appears, and a revoked key is rejected", async () => {
    upstream.release();
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    expect(await status(gateway, "/v1/models/newcomer")).toBe(404);

    file("groups: [{ name: default, models: [patient, newcomer], accounts: [gated] }]", "more.yaml");
    expect(await runCommand(["apply", "more.yaml"], { folder })).toMatchObject({ code: 0 });
    await eventually(() => status(gateway, "/v1/models/newcomer"), { equals: 200 });
    expect(await (await ask(gateway, "newcomer")).text()).toEndWith("data: [DONE]\n\n");

    const listed = await runCommand(["keys", "list", "--json"], { folder });
    const [key] = JSON.parse(listed.output);
    expect(await runCommand(["keys", "revoke", key.public_id], { folder })).toMatchObject({ code: 0 });
    await eventually(() => status(gateway, "/v1/models"), { equals: 401 });
  });

  test("a new key works", async () => {
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    const create = ["keys", "create", "--name", "new", "--group", "default", "--print-secret", "--json"];
    const made = await runCommand(create, { folder });
    const { secret } = JSON.parse(made.output);
    await eventually(
      async () => (await status(gateway, "/v1/models", { authorization: `Bearer ${secret}` })) === 200,
    );
    expect(gateway.output()).not.toContain(secret);
  });

  test("60 KiB of headers are accepted, and 70 KiB are rejected", async () => {
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    const get = (bytes: number) =>
      rawRequest(
        gateway.url,
        `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nx-codex-turn-metadata: ${"m".repeat(bytes)}\r\n\r\n`,
      );
    expect((await get(60 * 1024)).status).toBe(200);
    expect((await get(70 * 1024)).status).toBe(431);
  });

  test("1,000 concurrent streams all complete", async () => {
    const COUNT = 1000;
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    const streams = Array.from({ length: COUNT }, () => rawStream(gateway.url));
    await eventually(() => upstream.open(), { equals: COUNT });
    await eventually(() => streams.every(({ received }) => received().includes("first ")));
    upstream.release();
    for (const { ended } of streams) expect(await ended).toContain("data: [DONE]\n\n");
    expect(upstream.open()).toBe(0);
  });
});

/** A stream read from a raw socket, because a client library in the test process may open fewer. */
function rawStream(url: string): { received(): string; ended: Promise<string> } {
  const { port, hostname } = new URL(url);
  const body = JSON.stringify({
    model: "patient",
    stream: true,
    messages: [{ role: "user", content: "Hello" }],
  });
  let text = "";
  const ended = new Promise<string>((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
    socket.on("data", (part) => {
      text += part.toString();
      if (text.endsWith("\r\n0\r\n\r\n")) socket.end();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
  });
  return { received: () => text, ended };
}

describe("a signal to stop", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "%s finishes open streams, accepts no new requests, and exits with 0",
    async (name) => {
      const gateway = await start({ args: ["--config", file(gatedFile())] });
      const stream = await ask(gateway);
      const reader = stream.body?.getReader();
      const first = new TextDecoder().decode((await reader?.read())?.value);
      expect(first).toContain("first ");

      gateway.signal(name);
      await eventually(() =>
        fetch(`${gateway.url}/healthz`).then(
          () => false,
          () => true,
        ),
      );
      upstream.release();
      let rest = "";
      for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
        rest += new TextDecoder().decode(part.value);
      }
      expect(rest).toEndWith("data: [DONE]\n\n");
      expect(await gateway.exited).toBe(0);
      expect(gateway.output()).toContain("Stopping");
    },
  );

  test("that is sent twice exits at once", async () => {
    const gateway = await start({ args: ["--config", file(gatedFile())] });
    const stream = await ask(gateway);
    gateway.signal("SIGTERM");
    await eventually(() => gateway.output().includes("Stopping"));
    gateway.signal("SIGTERM");
    expect(await gateway.exited).toBe(1);
    await stream.text().catch(() => {});
  });

  test("without requests in flight exits without waiting", async () => {
    const gateway = await start();
    // An idle keep-alive connection does not delay the exit.
    expect(await status(gateway, "/healthz", {})).toBe(200);
    gateway.signal("SIGTERM");
    expect(await gateway.exited).toBe(0);
  });

  test("writes the usage of requests that just ended", async () => {
    upstream.release();
    const config = file(gatedFile());
    const gateway = await start({ args: ["--config", config] });
    await (await ask(gateway)).text();
    gateway.signal("SIGTERM");
    expect(await gateway.exited).toBe(0);
    const again = await start({ args: ["--config", config] });
    const response = await fetch(`${again.url}/v1/usage`, { headers: authorized });
    expect(await response.json()).toMatchObject({ usage: { total: { requests: 1 } } });
  });
});

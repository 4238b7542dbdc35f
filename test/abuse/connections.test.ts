/** Connections of clients without a key: how much memory they can occupy, and that they block no other client. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { connectionsMax, fileDescriptorsMax } from "../../src/net/http-server/file-descriptors.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

const MiB = 1024 * 1024;
/**
 * An exception to the limit of a turn, for the end of a flood: 15,200 connections that their client closes together take
 * 100 to 180 ms. The kernel needs 8 µs to close a socket, and the runtime closes all that are ready before it returns to
 * the loop: a listener whose handlers are empty has the same turn, nearly all of it in the kernel. Accepting the connections
 * and reading their first bytes takes turns of up to 15 ms. The server cannot divide these closes: the runtime closes a
 * socket whose client has reset it before any handler runs.
 */
const FLOOD_TURN_MS_MAX = 250;
let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget();
  // Loads the modules of the console's API with a first call, so that the attack does not measure it.
  await fetch(`${target.url}/api/openapi.json`);
});
afterAll(() => target.stop());

interface Flood {
  readonly connections: number;
  /** What each connection sends first, and what it repeats up to this many bytes. */
  readonly first?: string;
  readonly more?: string;
  readonly bytes?: number;
}

/** Runs in a separate process from the first connection until `during` is done. */
async function flood({ connections, first = "", more = "", bytes = 0 }: Flood, during: () => Promise<void>) {
  const options = { port: new URL(target.url).port, connections, first, more, bytes };
  const process = Bun.spawn(
    [
      globalThis.process.execPath,
      join(import.meta.dir, "flood.ts"),
      ...Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ],
    { stdout: "pipe", stderr: "inherit" },
  );
  try {
    // The process prints one line.
    await process.stdout.getReader().read();
    await during();
  } finally {
    process.kill();
    await process.exited;
  }
}

async function askWithKey(): Promise<number> {
  const headers = { authorization: `Bearer ${TEST_KEY}`, connection: "close" };
  return (await fetch(`${target.url}/v1/models`, { headers })).status;
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
const post = (path: string, ...fields: string[]) =>
  [`POST ${path} HTTP/1.1`, "Host: 127.0.0.1", ...fields, "", ""].join("\r\n");

describe("200 connections without a key that do not read and send another MiB", () => {
  test.each([
    ["after requests for a long document", get("/api/openapi.json").repeat(50), "x"],
    ["of further requests", get("/healthz"), get("/nothing")],
    ["of an endless head", "GET / HTTP/1.1\r\nX-A: ", "x"],
    ["of an unexpected body", post("/v1/responses", `Content-Length: ${MiB}`), "x"],
    ["of a body in one-byte chunks", post("/api/session", "Transfer-Encoding: chunked"), "1\r\nx\r\n"],
  ])("uses bounded memory: %s", async (name, first, more) => {
    const report = await measureAttack(`200 × 1 MiB ${name}`, target, {
      bytes: 200 * (first.length + MiB),
      run: () =>
        flood({ connections: 200, first, more, bytes: MiB }, async () => {
          await Bun.sleep(500);
          expect(await askWithKey()).toBe(200);
        }),
    });
    // 200 such connections used 400 to 600 MB. Now they share 32 MiB; the rest is uncollected garbage of responses,
    // which levels off below 130 MiB.
    expect(report.memoryGrowthBytes).toBeLessThan(160 * MiB);
  });
});

describe("more connections from one address than the gateway accepts,", () => {
  /** The gateway accepts at most 20,000, or what its file descriptor limit allows. */
  const CONNECTIONS = Math.min(20_000, connectionsMax(fileDescriptorsMax())) + 200;

  test.each([
    ["that send nothing", ""],
    ["with one byte of a head", "G"],
    ["that got a response and stay open", "nonsense\r\n\r\n"],
  ])("%s, do not block other clients", async (name, first) => {
    const report = await measureAttack(`${CONNECTIONS} connections ${name}`, target, {
      bytes: CONNECTIONS * first.length,
      turnMsMax: FLOOD_TURN_MS_MAX,
      run: () =>
        flood({ connections: CONNECTIONS, first }, async () => {
          for (let i = 0; i < 20; i++) expect(await askWithKey()).toBe(200);
        }),
    });
    expect(report.memoryGrowthBytes).toBeLessThan(150 * MiB);
  });
});

/** Connections of clients without a key: what they may occupy, and whom they may keep out. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { connectionsMax, fileDescriptorsMax } from "../../src/net/http-server/file-descriptors.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack.ts";

const MiB = 1024 * 1024;
let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget();
  // The modules of the console's API are loaded with the first call, and are no part of an attack.
  await fetch(`${target.url}/api/openapi.json`);
});
afterAll(() => target.stop());

interface Flood {
  readonly connections: number;
  /** On each connection: what it begins with, and what it repeats up to so many bytes. */
  readonly first?: string;
  readonly more?: string;
  readonly bytes?: number;
}

/** In a process of its own, from the first connection until `during` is done. */
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
    // Its one line.
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

describe("200 connections without a key that read nothing and send a MiB more", () => {
  test.each([
    ["behind requests for a long document", get("/api/openapi.json").repeat(50), "x"],
    ["of further requests", get("/healthz"), get("/nothing")],
    ["of a head that does not end", "GET / HTTP/1.1\r\nX-A: ", "x"],
    ["of a body that is not asked for", post("/v1/responses", `Content-Length: ${MiB}`), "x"],
    ["of a body in chunks of a byte", post("/api/session", "Transfer-Encoding: chunked"), "1\r\nx\r\n"],
  ])("%s", async (name, first, more) => {
    const report = await measureAttack(`200 × 1 MiB ${name}`, target, () =>
      flood({ connections: 200, first, more, bytes: MiB }, async () => {
        await Bun.sleep(500);
        expect(await askWithKey()).toBe(200);
      }),
    );
    // 200 of them cost 400 to 600 MB. Now they share 32 MiB; the rest is garbage of responses until it is collected,
    // which levels off below 130 MiB.
    expect(report.memoryGrowthBytes).toBeLessThan(160 * MiB);
  });
});

describe("more connections than there are places for, from one address,", () => {
  /** The gateway takes at most 20,000, or what its descriptors allow. */
  const CONNECTIONS = Math.min(20_000, connectionsMax(fileDescriptorsMax())) + 200;

  test.each([
    ["that say nothing", ""],
    ["with one byte of a head", "G"],
    ["that were answered and do not close", "nonsense\r\n\r\n"],
  ])("%s, keep nobody out", async (name, first) => {
    const report = await measureAttack(`${CONNECTIONS} connections ${name}`, target, () =>
      flood({ connections: CONNECTIONS, first }, async () => {
        for (let i = 0; i < 20; i++) expect(await askWithKey()).toBe(200);
      }),
    );
    expect(report.memoryGrowthBytes).toBeLessThan(150 * MiB);
  });
});

/** A request can be rejected before its body arrives. The client still gets the response, at little cost. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SpawnedGateway, spawnGateway } from "../support/spawned-gateway.ts";
import { rejectionIn } from "./expect-rejection.ts";
import { chatBody, get, KEY, post, postHead } from "./messages.ts";
import { openRawClient } from "./raw-client.ts";

const MiB = 1024 * 1024;
const PIECE = Buffer.alloc(MiB, "x");

let simulator: Simulator;
let gateway: SpawnedGateway;

beforeAll(async () => {
  simulator = startSimulator({ seed: 1 });
  gateway = await spawnGateway({ fast: "sim-fast" }, simulator.url);
});

afterAll(async () => {
  await gateway.stop();
  await simulator.stop();
});

const chunkOfPiece = Buffer.concat([Buffer.from(`${MiB.toString(16)}\r\n`), PIECE, Buffer.from("\r\n")]);

describe("a client that sends its whole body before it reads", () => {
  test.each([
    ["no key", postHead(`Content-Length: ${20 * MiB}`).replace(`${KEY}\r\n`, ""), PIECE, 401],
    [
      "no key, in chunks",
      postHead("Transfer-Encoding: chunked").replace(`${KEY}\r\n`, ""),
      chunkOfPiece,
      401,
    ],
    ["another type", postHead(`Content-Length: ${20 * MiB}`).replace("/json", "/yaml"), PIECE, 415],
    ["an unknown path", postHead(`Content-Length: ${20 * MiB}`).replace("/v1/chat", "/v1/chit"), PIECE, 404],
  ])("gets the error for %s", async (_, head, piece, status) => {
    const client = await openRawClient(gateway.url);
    client.pause();
    await client.send(head);
    for (let i = 0; i < 20; i++) await client.send(piece);
    if (piece === chunkOfPiece) await client.send("0\r\n\r\n");
    client.resume();
    rejectionIn(await client.readResponse(), status);
    client.close("fin");
  });

  test("gets the error for a body that is too large", async () => {
    const client = await openRawClient(gateway.url);
    client.pause();
    await client.send(postHead(`Content-Length: ${80 * MiB}`));
    for (let i = 0; i < 80; i++) await client.send(PIECE);
    client.resume();
    rejectionIn(await client.readResponse(), 413);
    client.close("fin");
  });

  test("uses no memory", async () => {
    const CLIENTS = 16;
    const BYTES = 48 * MiB;
    const beforeBytes = gateway.residentBytes();
    let peakBytes = 0;
    await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        const client = await openRawClient(gateway.url);
        client.pause();
        await client.send(postHead(`Content-Length: ${BYTES}`).replace(`${KEY}\r\n`, ""));
        for (let sent = 0; sent < BYTES; sent += MiB) {
          await client.send(PIECE);
          peakBytes = Math.max(peakBytes, gateway.residentBytes());
        }
        client.resume();
        rejectionIn(await client.readResponse(), 401);
        client.close("fin");
      }),
    );
    console.log(
      `${CLIENTS} refused bodies of ${BYTES / MiB} MiB: grew by ${((peakBytes - beforeBytes) / MiB).toFixed(0)} MiB`,
    );
    expect(peakBytes - beforeBytes).toBeLessThan((CLIENTS * BYTES) / 5);
  });
});

describe("a client that keeps sending", () => {
  let impatient: RunningGateway;

  beforeAll(async () => {
    impatient = await startTestGateway({
      limits: { connections: { ...limits.connections, lingerMs: 300, checkMs: 20 } },
    });
  });

  afterAll(() => impatient.stop());

  test.each([
    ["a body of a terabyte", `Content-Length: ${2 ** 40}`, PIECE],
    ["endless chunks", "Transfer-Encoding: chunked", chunkOfPiece],
    ["a byte at intervals", `Content-Length: ${2 ** 40}`, Buffer.from("x")],
  ])("is disconnected some time after its rejection: %s", async (_, framing, piece) => {
    const client = await openRawClient(impatient.url);
    await client.send(postHead(framing).replace(`${KEY}\r\n`, ""));
    rejectionIn(await client.readResponse(), 401);
    let isOpen = true;
    void client.closed.then(() => {
      isOpen = false;
    });
    await eventually(async () => {
      if (isOpen) await Promise.race([client.send(piece), client.closed]);
      return !isOpen;
    });
    client.close("fin");
  });

  test("is disconnected even if it sends nothing of its body", async () => {
    const client = await openRawClient(impatient.url);
    await client.send(postHead("Content-Length: 5000").replace(`${KEY}\r\n`, ""));
    rejectionIn(await client.readResponse(), 401);
    expect(typeof (await client.next())).toBe("string");
  });
});

test("a connection can be reused after a rejection with a small body", async () => {
  const client = await openRawClient(gateway.url);
  const refused = post(chatBody()).replace(`${KEY}\r\n`, "");
  await client.send(refused);
  const response = await client.readResponse();
  rejectionIn(response, 401);
  expect(response.header("connection")).not.toBe("close");
  await client.sendPieces([refused.slice(0, -10), refused.slice(-10), get("/healthz")]);
  rejectionIn(await client.readResponse(), 401);
  const next = await client.next();
  if (typeof next !== "string") expect(next.status).toBe(200);
  client.close("fin");
});

/** The work for the messages of a WebSocket grows no faster than their size. */

import { afterAll, beforeAll, describe, test } from "bun:test";
import { openSocketClient } from "../support/turn-client.ts";
import { type AttackTarget, startAttackTarget } from "./attack-setup.ts";
import { AUTHORIZATION, GrowthMeter, times } from "./growth-meter.ts";

let target: AttackTarget;
let meter: GrowthMeter;
beforeAll(async () => {
  target = await startAttackTarget();
  meter = new GrowthMeter(target);
});
afterAll(() => target.stop());

describe("the work for WebSocket messages grows linearly", () => {
  const turn = (input: string) => `{"type":"response.create","model":"fast-chat","input":${input}}`;

  test.each<[string, number, (n: number) => string]>([
    [
      "items of a turn",
      2_000,
      (n) => turn(`[${times(n, () => `{"type":"message","role":"user","content":"hi"}`, ",")}]`),
    ],
    ["members of a frame", 8_000, (n) => turn(`"hi"${times(n, (i) => `,"m${i}":1`)}`)],
    ["a long frame", 400_000, (n) => turn(`"${"word ".repeat(n / 5)}"`)],
    ["long lane names", 80_000, (n) => turn(`"hi","stream_id":"${"a".repeat(n)}"`)],
  ])("%s", async (name, unit, frame) => {
    const client = await openSocketClient(target.url);
    const send = async (n: number) => {
      const text = frame(n);
      client.send(text);
      const events = await client.until("response.completed", "response.failed", "error");
      meter.note(text.length, events.at(-1)?.type ?? "none");
    };
    await meter.expectLinear(name, unit, send);
    client.close();
  });

  test.each<[string, number, (n: number) => Buffer]>([
    [
      "fragments of a message",
      8_000,
      (n) =>
        Buffer.concat([
          frame(0x01, "{"),
          ...Array.from({ length: n }, () => frame(0x00, " ")),
          frame(0x80, "}"),
        ]),
    ],
    [
      "pings",
      8_000,
      (n) => Buffer.concat([...Array.from({ length: n }, () => frame(0x89, "ping")), frame(0x81, "{}")]),
    ],
  ])("%s", async (name, unit, frames) => {
    const send = async (n: number) => {
      const opening = [
        "GET /v1/responses HTTP/1.1",
        "Host: gw",
        `Authorization: ${AUTHORIZATION}`,
        "Upgrade: websocket",
        "Connection: upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      ];
      await conversation(Buffer.concat([Buffer.from(`${opening.join("\r\n")}\r\n\r\n`), frames(n)]));
    };
    await meter.expectLinear(name, unit, send);
  });

  /** A client frame, masked with zeros. */
  function frame(first: number, text: string): Buffer {
    return Buffer.concat([Buffer.of(first, 0x80 | text.length, 0, 0, 0, 0), Buffer.from(text)]);
  }

  /** Sends all data and waits for the error response to the last message. */
  async function conversation(bytes: Buffer): Promise<void> {
    const responded = Promise.withResolvers<void>();
    let unsent = bytes;
    const send = (socket: Bun.Socket) => {
      unsent = unsent.subarray(Math.max(0, socket.write(unsent)));
    };
    let received = "";
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: Number(new URL(target.url).port),
      socket: {
        open: send,
        drain: send,
        data(_, piece) {
          received = (received + piece.toString("latin1")).slice(-2_000);
          if (received.includes('"error"')) responded.resolve();
        },
        close: () => responded.resolve(),
      },
    });
    await responded.promise;
    meter.note(bytes.length, "error");
    socket.end();
  }
});

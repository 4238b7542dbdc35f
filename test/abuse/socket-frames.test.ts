/** Long frames of a WebSocket hold the event loop no longer than long bodies: neither their settings nor frames that wait. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
const FRAMES = 60;

let target: AttackTarget;
let socket: WebSocket;
let received: string[] = [];
let closed = "";

beforeAll(async () => {
  target = await startAttackTarget();
  socket = new WebSocket(`${target.url.replace("http", "ws")}/v1/responses`, {
    headers: { authorization: `Bearer ${TEST_KEY}` },
  });
  socket.onmessage = ({ data }) => void received.push(String(data));
  socket.onclose = ({ code, reason }) => {
    closed = `closed with ${code} ${reason}`;
  };
  await new Promise((resolve) => {
    socket.onopen = resolve;
  });
  // The first messages compile the code and start the thread.
  for (let run = 0; run < 4; run++) await exchange([warmUp('"metadata":{"a":"b"}')], 2);
  await exchange([warmUp(`"x":"${"a".repeat(MIB)}"`)], 2);
});
afterAll(() => target?.stop());

const warmUp = (members: string) =>
  `{"type":"response.create","generate":false,"model":"fast-chat","input":"a",${members}}`;
const list = (element: string, bytes: number) => `[${`${element},`.repeat(bytes / (element.length + 1))}1]`;

/** Sends the frames and waits for this many messages. */
async function exchange(frames: readonly string[], count: number): Promise<readonly string[]> {
  received = [];
  for (const frame of frames) socket.send(frame);
  await eventually(() => {
    if (closed !== "") throw new Error(closed);
    return received.length >= count;
  }, 60_000);
  return received;
}

test("the settings of a long warm-up are read in a thread", async () => {
  // More warm-ups are rejected within one second.
  await Bun.sleep(1_000);
  const frame = warmUp(`"x":${list("[]", 40 * MIB)},"metadata":{"y":${list("[]", MIB - 1_000)}},"top_p":0.5`);
  let messages: readonly string[] = [];
  await measureAttack("a warm-up of 41 MiB", target, {
    bytes: frame.length,
    run: async () => {
      messages = await exchange([frame], 2);
    },
  });
  const [created, completed] = messages.map((text) => JSON.parse(text));
  expect(created).toMatchObject({
    type: "response.created",
    response: { top_p: 0.5, status: "in_progress" },
  });
  expect(completed).toMatchObject({ type: "response.completed", response: { status: "completed" } });
  expect(completed.response.metadata.y.length).toBeGreaterThan(300_000);
});

test("frames that wait for a long one are read one by one", async () => {
  const long = warmUp(`"x":${list("1", 30 * MIB)}`);
  // Rejected after it was read to its end.
  const short = `{"type":"response.create","x":${list("[]", 250 * 1024)}`;
  let messages: readonly string[] = [];
  await measureAttack(`${FRAMES} frames of 250 KiB behind a long one`, target, {
    bytes: long.length + FRAMES * short.length,
    run: async () => {
      messages = await exchange([long, ...Array.from({ length: FRAMES }, () => short)], FRAMES + 2);
    },
  });
  expect(messages.filter((text) => text.includes('"type":"error"'))).toHaveLength(FRAMES);
});

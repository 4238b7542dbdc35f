/** The memory of responses that authenticated clients do not read is bounded over all connections. */

import { afterEach, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { wholePart } from "../../base/parts.ts";
import { StreamedResponse, type StreamSink, WholeResponse } from "../wire/http-message.ts";
import {
  dial,
  listenForTest,
  type RawClient,
  streamSource,
  type TestListener,
} from "./listen.test-support.ts";

const GET = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
/** More than the kernel takes for a client that reads nothing. */
const LONG = Buffer.alloc(20_000_000, "x");
/** Two such responses, and not three. */
const UNSENT_MAX = 45_000_000;

let listener: TestListener;
const clients: RawClient[] = [];

afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
  listener.closeNow();
});

/** A client that sends a request and reads nothing. */
async function requestUnread(): Promise<RawClient> {
  const client = await dial(listener.port);
  clients.push(client);
  client.pause();
  client.send(GET);
  return client;
}

async function receiveAll(client: RawClient): Promise<[ending: string, isWhole: boolean]> {
  client.resume();
  await eventually(() => client.ending() !== "open" || client.received().length > LONG.length);
  return [client.ending(), client.received().length > LONG.length];
}

test("of several clients that read nothing, the first one is closed, and the others get all", async () => {
  let served = 0;
  listener = listenForTest(
    ({ peer }) => {
      peer.authenticated();
      served++;
      return new WholeResponse(200, "", LONG);
    },
    { unsentBytesMax: UNSENT_MAX },
  );
  for (let at = 1; at <= 3; at++) {
    await requestUnread();
    await eventually(() => served, { equals: at });
  }
  const endings = [];
  for (const client of clients) endings.push(await receiveAll(client));
  expect(endings).toEqual([
    ["reset", false],
    ["open", true],
    ["open", true],
  ]);
  expect(listener.faults).toEqual([]);
});

test("what a client has read does not count", async () => {
  listener = listenForTest(
    ({ peer }) => {
      peer.authenticated();
      return new WholeResponse(200, "", LONG);
    },
    { unsentBytesMax: UNSENT_MAX },
  );
  for (let at = 1; at <= 4; at++) expect(await receiveAll(await requestUnread())).toEqual(["open", true]);
});

test("a stream that exceeds the budget alone is aborted, and its source writes on without a fault", async () => {
  const flowing = Promise.withResolvers<StreamSink>();
  let aborts = 0;
  listener = listenForTest(
    ({ peer }) => {
      peer.authenticated();
      return new StreamedResponse("", streamSource({ flowTo: flowing.resolve, abort: () => void aborts++ }));
    },
    { unsentBytesMax: LONG.length / 2 },
  );
  const client = await requestUnread();
  const sink = await flowing.promise;
  sink.data(wholePart(LONG));
  sink.data(wholePart(LONG));
  await eventually(() => aborts, { equals: 1 });
  sink.data(wholePart(LONG));
  sink.end([]);
  expect((await receiveAll(client))[0]).toBe("reset");
  expect([aborts, listener.faults]).toEqual([1, []]);
});

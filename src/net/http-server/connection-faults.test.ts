/** Tests that an exception of a handler is reported and that its client does not wait forever. */

import { afterEach, describe, expect, test } from "bun:test";
import { StreamedResponse } from "../wire/http-message.ts";
import { Upgrade } from "./incoming-request.ts";
import {
  dial,
  listenForTest,
  type RawClient,
  streamSource,
  type TestListener,
  textResponse,
} from "./listen.test-support.ts";
import type { ListenOptions } from "./listen.ts";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

const BUG = new Error("a bug");
const GET = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const SWITCH = Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n");
const QUIET: UpgradedProtocol = { onData() {}, onDrain() {}, onClose() {} };

function stumble(): never {
  throw BUG;
}

let listener: TestListener;
let client: RawClient;

async function start(serve: ListenOptions["serve"]) {
  listener = listenForTest(serve);
  client = await dial(listener.port);
}

afterEach(() => {
  client.destroy();
  listener.closeNow();
});

const upgraded = (protocol: Partial<UpgradedProtocol>) =>
  new Upgrade(SWITCH, () => ({ ...QUIET, ...protocol }));

describe("an exception", () => {
  const stream = () => new StreamedResponse("", streamSource({ flowTo: stumble }));
  const broken = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          controller.error(BUG);
        },
      }),
    );
  test.each<[string, ListenOptions["serve"], string]>([
    ["of a handler", stumble, GET],
    ["of an asynchronous handler", () => Promise.reject(BUG), GET],
    [
      "of the handler of a pipelined request",
      ({ target }) => (target === "/" ? stumble() : textResponse("")),
      `${GET.replace("/ ", "/a ")}${GET}`,
    ],
    ["of a stream at its start", stream, GET],
    ["of a stream at its asynchronous start", async () => stream(), GET],
    ["of the body of a Response", broken, GET],
    ["of an upgraded protocol at its start", async () => new Upgrade(SWITCH, stumble), GET],
    [
      "of an upgraded protocol on data sent with the upgrade",
      async () => upgraded({ onData: stumble }),
      `${GET}x`,
    ],
  ])("%s is reported, and the connection is reset", async (_, serve, sent) => {
    await start(serve);
    client.send(sent);
    await client.end();
    expect([client.ending(), listener.faults]).toEqual(["reset", [BUG]]);
    await listener.close();
  });

  test("of an upgraded protocol on later data is reported", async () => {
    await start(() => upgraded({ onData: stumble }));
    client.send(GET);
    await client.waitForText("101");
    client.send("x");
    await client.end();
    expect([client.ending(), listener.faults]).toEqual(["reset", [BUG]]);
  });

  test("of the drained callback is reported", async () => {
    const outlet = Promise.withResolvers<SocketWriter>();
    await start(
      () =>
        new Upgrade(SWITCH, (to) => {
          outlet.resolve(to);
          return { ...QUIET, onDrain: stumble };
        }),
    );
    client.pause();
    client.send(GET);
    const to = await outlet.promise;
    while (to.bufferedBytes === 0) to.write(Buffer.alloc(1_000_000));
    client.resume();
    await client.end();
    expect(listener.faults).toEqual([BUG]);
  });

  test.each<[string, ListenOptions["serve"]]>([
    ["a stream", () => new StreamedResponse("", streamSource({ abort: stumble }))],
    ["an upgraded protocol", () => upgraded({ onClose: stumble })],
  ])("of %s during a disconnect is reported, and the signal still fires", async (_, serve) => {
    const left = Promise.withResolvers<void>();
    await start((request) => {
      request.signal.addEventListener("abort", () => left.resolve());
      return serve(request);
    });
    client.send(GET);
    await client.waitForText("HTTP/1.1 ");
    client.destroy();
    await left.promise;
    expect(listener.faults).toEqual([BUG]);
    await listener.close();
  });

  test("during the deadline sweep is reported, and the sweep continues", async () => {
    listener = listenForTest(() => textResponse(""), { headMs: 1, firstByteMs: 1 }, stumble);
    client = await dial(listener.port);
    const other = await dial(listener.port);
    client.send("GET / HT");
    const third = await dial(listener.port);
    third.send(GET);
    await third.waitForText("HTTP/1.1 200");
    listener.pass(2);
    await Promise.all([client.end(), other.end()]);
    expect([client.ending(), other.ending(), listener.faults]).toEqual(["reset", "closed", [BUG]]);
    for (const one of [other, third]) one.destroy();
  });

  test("of a source whose client has disconnected is not reported", async () => {
    const pulled = Promise.withResolvers<void>();
    const failing = Promise.withResolvers<void>();
    await start(
      () =>
        new Response(
          new ReadableStream({
            async pull(controller) {
              pulled.resolve();
              await failing.promise;
              controller.error(BUG);
            },
          }),
        ),
    );
    client.send(GET);
    await pulled.promise;
    client.destroy();
    await listener.close();
    failing.resolve();
    await listener.nextCheck();
    expect(listener.faults).toEqual([]);
  });
});

/** Tests that an exception of a handler is reported and its client does not wait forever. */

import { afterEach, describe, expect, test } from "bun:test";
import { StreamedResponse } from "../wire/http-message.ts";
import { Upgrade } from "./incoming-request.ts";
import { dial, listenForTest, type RawClient, type TestListener, textAnswer } from "./listen.test-support.ts";
import type { ListenOptions } from "./listen.ts";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

const BUG = new Error("a bug");
const GET = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const SWITCH = Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n");
const QUIET: UpgradedProtocol = { received() {}, drained() {}, closed() {} };

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
  client.leave();
  listener.cut();
});

const upgraded = (protocol: Partial<UpgradedProtocol>) =>
  new Upgrade(SWITCH, () => ({ ...QUIET, ...protocol }));

describe("what is thrown", () => {
  const stream = () => new StreamedResponse("", { flowTo: stumble, leave() {} });
  const broken = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          controller.error(BUG);
        },
      }),
    );
  test.each<[string, ListenOptions["serve"], string]>([
    ["by whoever serves", stumble, GET],
    ["by whoever serves, later", () => Promise.reject(BUG), GET],
    [
      "by whoever serves what came behind another request",
      ({ target }) => (target === "/" ? stumble() : textAnswer("")),
      `${GET.replace("/ ", "/a ")}${GET}`,
    ],
    ["by a stream as it begins", stream, GET],
    ["by a stream as it begins, later", async () => stream(), GET],
    ["by the body of a Response", broken, GET],
    ["by another protocol as it begins", async () => new Upgrade(SWITCH, stumble), GET],
    [
      "by another protocol, of what came with the upgrade",
      async () => upgraded({ received: stumble }),
      `${GET}x`,
    ],
  ])("%s is told, and the connection is cut off", async (_, serve, sent) => {
    await start(serve);
    client.send(sent);
    await client.end();
    expect([client.ending(), listener.faults]).toEqual(["reset", [BUG]]);
    await listener.close();
  });

  test("by another protocol, of what comes later, is told too", async () => {
    await start(() => upgraded({ received: stumble }));
    client.send(GET);
    await client.hears("101");
    client.send("x");
    await client.end();
    expect([client.ending(), listener.faults]).toEqual(["reset", [BUG]]);
  });

  test("when a client takes again what is sent to it is told too", async () => {
    const outlet = Promise.withResolvers<SocketWriter>();
    await start(
      () =>
        new Upgrade(SWITCH, (to) => {
          outlet.resolve(to);
          return { ...QUIET, drained: stumble };
        }),
    );
    client.stopTaking();
    client.send(GET);
    const to = await outlet.promise;
    while (to.bufferedBytes === 0) to.write(Buffer.alloc(1_000_000));
    client.goOnTaking();
    await client.end();
    expect(listener.faults).toEqual([BUG]);
  });

  test.each<[string, ListenOptions["serve"]]>([
    ["a stream", () => new StreamedResponse("", { flowTo() {}, leave: stumble })],
    ["another protocol", () => upgraded({ closed: stumble })],
  ])("when the client of %s leaves is told, and the signal fires all the same", async (_, serve) => {
    const left = Promise.withResolvers<void>();
    await start((request) => {
      request.signal.addEventListener("abort", () => left.resolve());
      return serve(request);
    });
    client.send(GET);
    await client.hears("HTTP/1.1 ");
    client.leave();
    await left.promise;
    expect(listener.faults).toEqual([BUG]);
    await listener.close();
  });

  test("when a connection is looked at is told, and the others are looked at", async () => {
    listener = listenForTest(() => textAnswer(""), { headMs: 1, firstByteMs: 1 }, stumble);
    client = await dial(listener.port);
    const other = await dial(listener.port);
    client.send("GET / HT");
    const third = await dial(listener.port);
    third.send(GET);
    await third.hears("HTTP/1.1 200");
    listener.pass(2);
    await Promise.all([client.end(), other.end()]);
    expect([client.ending(), other.ending(), listener.faults]).toEqual(["reset", "closed", [BUG]]);
    for (const one of [other, third]) one.leave();
  });

  test("by a source whose client has left is no bug", async () => {
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
    client.leave();
    await listener.close();
    failing.resolve();
    await listener.looked();
    expect(listener.faults).toEqual([]);
  });
});

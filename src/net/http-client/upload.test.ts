import { afterEach, describe, expect, test } from "bun:test";
import { eventually, untilStill } from "../../../test/support/eventually.ts";
import { wholePart } from "../../base/parts.ts";
import type { HttpClient, OutgoingRequest, StreamedBody } from "./contract.ts";
import {
  makeTarget,
  openClient,
  ResponseRecorder,
  serve,
  type TestServer,
} from "./http-client.test-support.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const open: { close(): void }[] = [];
afterEach(() => {
  for (const part of open.splice(0)) part.close();
});

async function upstream(onRequest: Parameters<typeof serve>[0]): Promise<TestServer> {
  const server = await serve(onRequest);
  open.push(server);
  return server;
}

function client(): HttpClient {
  const opened = openClient();
  open.push(opened);
  return opened;
}

function post(http: HttpClient, port: number, body: OutgoingRequest["body"]) {
  const notes = new ResponseRecorder();
  const exchange = http.send(
    { target: makeTarget(port), method: "POST", path: "/", headers: "", body },
    notes,
  );
  return { notes, exchange, over: notes.over.promise };
}

/** A body in these pieces, which counts how often it was opened and cancelled. */
function streamed(pieces: readonly string[], contentLength: number | null) {
  const seen = { opened: 0, cancelled: 0 };
  const body: StreamedBody = {
    contentLength,
    open() {
      seen.opened++;
      const rest = pieces[Symbol.iterator]();
      return new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            await Bun.sleep(0);
            const { done, value } = rest.next();
            if (done) controller.close();
            else controller.enqueue(Buffer.from(value));
          },
          cancel() {
            seen.cancelled++;
          },
        },
        { highWaterMark: 0 },
      );
    },
  };
  return { body, seen };
}

const readBody = (received: string | undefined) =>
  (received ?? "").slice((received ?? "").indexOf("\r\n\r\n") + 4);

describe("a large upload", () => {
  test("arrives completely through a slow socket", async () => {
    const body = Buffer.alloc(20_000_000);
    for (let i = 0; i < body.length; i += 4_096) body.writeUInt32LE(i, i);
    const hash = new Bun.CryptoHasher("sha256");
    let got = 0;
    const done = Promise.withResolvers<void>();
    const server = Bun.listen<{ isHead: boolean }>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open(socket) {
          socket.data = { isHead: true };
          socket.pause();
          setTimeout(() => socket.resume(), 50);
        },
        data(socket, bytes) {
          const rest = socket.data.isHead ? bytes.subarray(bytes.indexOf("\r\n\r\n") + 4) : bytes;
          socket.data.isHead = false;
          hash.update(rest);
          got += rest.length;
          if (got < body.length) return;
          socket.write(OK);
          done.resolve();
        },
      },
    });
    open.push({ close: () => server.stop(true) });
    const http = client();
    const { over } = post(http, server.port, wholePart(body));
    await done.promise;
    expect(await over).toBe("end");
    expect(hash.digest("hex")).toBe(new Bun.CryptoHasher("sha256").update(body).digest("hex"));
  });

  test("is the same at every attempt, and the memory before it is restored", async () => {
    const memory = Buffer.alloc(200_500, "0123456789");
    const body = memory.subarray(500);
    const server = await upstream(() => {});
    const http = client();
    for (let sent = 0; sent < 3; sent++) {
      const from = server.received[0]?.length ?? 0;
      const { over } = post(http, server.port, wholePart(body));
      const received = () => readBody(server.received[0]?.slice(from));
      await eventually(() => received().length >= body.length);
      expect(received()).toBe(body.toString());
      server.connections[0]?.write(OK);
      expect(await over).toBe("end");
    }
    expect(memory.equals(Buffer.alloc(200_500, "0123456789"))).toBe(true);
  });

  test("with an early response is delivered, and the connection is not reused", async () => {
    const server = await upstream((socket) => {
      if (server.connections.length === 1) socket.pause();
      socket.write(OK);
    });
    const http = client();
    const { notes, over } = post(http, server.port, wholePart(Buffer.alloc(30_000_000)));
    expect([await over, notes.text]).toEqual(["end", "ok"]);
    expect(await post(http, server.port, null).over).toBe("end");
    expect(server.connections.length).toBe(2);
  });
});

describe("a streamed upload", () => {
  test("of known length is sent unchanged", async () => {
    const server = await upstream((socket, connection) => {
      const respond = () => {
        if (readBody(server.received[connection]) === "hello world") socket.write(OK);
        else setTimeout(respond, 1);
      };
      respond();
    });
    const { body } = streamed(["hello", " ", "", "world"], 11);
    const http = client();
    expect(await post(http, server.port, body).over).toBe("end");
    expect(server.received[0]).toContain("content-length: 11\r\n");
  });

  test("of unknown length is sent in chunks", async () => {
    const server = await upstream((socket, connection) => {
      const respond = () => {
        if (readBody(server.received[connection]).endsWith("0\r\n\r\n")) socket.write(OK);
        else setTimeout(respond, 1);
      };
      if (server.received[connection]?.endsWith("0\r\n\r\n") !== true) respond();
    });
    const { body } = streamed(["hello", "0123456789abcdef"], null);
    const { over } = post(client(), server.port, body);
    expect(await over).toBe("end");
    expect(readBody(server.received[0])).toBe("5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n");
  });

  test.each([
    ["longer", 10],
    ["shorter", 12],
  ])("that is %s than announced fails and closes the connection", async (_name, contentLength) => {
    const server = await upstream(() => {});
    const { body } = streamed(["hello ", "world"], contentLength);
    const { over } = post(client(), server.port, body);
    expect(await over).toBe("reset: the length of the request body differs from Content-Length");
    await eventually(() => server.connections[0]?.destroyed ?? false);
  });

  test("that cannot be read fails the exchange", async () => {
    const server = await upstream(() => {});
    const body: StreamedBody = {
      contentLength: 5,
      open() {
        throw new Error("gone");
      },
    };
    expect(await post(client(), server.port, body).over).toBe("reset: the request body could not be read");
  });

  test("is opened again if a keep-alive connection breaks", async () => {
    const server = await upstream((socket, connection, request) => {
      if (connection === 0 && request === 1) socket.resetAndDestroy();
      else setTimeout(() => socket.write(OK), 20);
    });
    const http = client();
    await post(http, server.port, null).over;
    const { body, seen } = streamed(["hello"], 5);
    expect(await post(http, server.port, body).over).toBe("end");
    expect([seen.opened, server.connections.length, readBody(server.received[1])]).toEqual([2, 2, "hello"]);
  });

  test("is read with back-pressure, and cancelled on abort", async () => {
    const server = await upstream((socket) => socket.pause());
    let pulled = 0;
    let cancelled = false;
    const body: StreamedBody = {
      contentLength: null,
      open: () =>
        new ReadableStream<Uint8Array>(
          {
            pull(controller) {
              pulled++;
              controller.enqueue(new Uint8Array(1_048_576));
            },
            cancel() {
              cancelled = true;
            },
          },
          { highWaterMark: 0 },
        ),
    };
    const { exchange } = post(client(), server.port, body);
    await eventually(() => pulled > 1);
    expect(await untilStill(() => pulled, 200)).toBeLessThan(16);
    exchange.abort();
    await eventually(() => cancelled);
  });
});

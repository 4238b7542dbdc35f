import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { wholePart } from "../../base/parts.ts";
import type { HttpClient, HttpExchange } from "./contract.ts";
import { makeTarget, openClient, ResponseRecorder, serve } from "./http-client.test-support.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const part of open.splice(0)) part.close();
});

function client(): HttpClient {
  const opened = openClient();
  open.push(opened);
  return opened;
}

function post(http: HttpClient, port: number, body: string, path = "/") {
  const notes = new ResponseRecorder();
  const exchange = http.send(
    { target: makeTarget(port), method: "POST", path, headers: "", body: wholePart(Buffer.from(body)) },
    notes,
  );
  return { notes, exchange, over: notes.over.promise };
}

/** Echoes the request, in pieces for a stream. Returns its port and the ports of its clients. */
function echo(): { port: number; callers: Set<number> } {
  const callers = new Set<number>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, self) {
      callers.add(self.requestIP(request)?.port ?? 0);
      const text = await request.text();
      if (!request.url.endsWith("/stream")) return new Response(text);
      return new Response(async function* () {
        for (const word of text.split(" ")) {
          yield `${word} `;
          await Bun.sleep(0);
        }
      } as unknown as ReadableStream);
    },
  });
  open.push({ close: () => void server.stop(true) });
  return { port: server.port ?? 0, callers };
}

describe("many exchanges", () => {
  test("in sequence share one connection, and each receives its own response", async () => {
    const { port, callers } = echo();
    const http = client();
    for (let i = 0; i < 10_000; i++) {
      const { notes, over } = post(http, port, `answer ${i}`);
      const end = await over;
      if (end !== "end" || notes.text !== `answer ${i}`) throw new Error(`${i}: ${end} ${notes.text}`);
    }
    expect(callers.size).toBe(1);
  }, 60_000);

  test("in parallel each receive their own response, whole or streamed", async () => {
    const { port, callers } = echo();
    const http = client();
    let wrong = 0;
    async function run(worker: number): Promise<void> {
      for (let i = 0; i < 20; i++) {
        const text = `${worker}/${i} `.repeat(1 + (i % 7) * 3);
        const path = i % 2 === 0 ? "/" : "/stream";
        const { notes, over } = post(http, port, text, path);
        if ((await over) !== "end" || notes.text.trim() !== text.trim()) wrong++;
      }
    }
    await Promise.all(Array.from({ length: 200 }, (_, worker) => run(worker)));
    expect(wrong).toBe(0);
    expect(callers.size).toBeLessThanOrEqual(200);
  }, 60_000);

  test("aborted at any time never receive data of another exchange", async () => {
    const { port } = echo();
    const http = client();
    const faults: string[] = [];
    let completed = 0;
    async function run(worker: number): Promise<void> {
      for (let i = 0; i < 40; i++) {
        const id = `<${worker}-${i}>`;
        const { notes, exchange, over } = post(http, port, `${id} `.repeat(20), "/stream");
        if ((worker + i) % 2 === 0) {
          if ((await over) !== "end") faults.push(`${id} failed`);
          completed++;
        } else {
          await abortAt(exchange, notes, (worker * 7 + i * 3) % 5);
          const callCount = notes.calls.length;
          await Bun.sleep(1);
          if (notes.calls.length !== callCount) faults.push(`${id} received more`);
        }
        if (notes.text.replaceAll(id, "").trim() !== "") {
          // A cut response may contain half an id.
          const words = notes.text.split(" ").slice(0, -1);
          if (words.some((word) => word !== "" && word !== id)) faults.push(`${id} received ${notes.text}`);
        }
      }
    }
    async function abortAt(exchange: HttpExchange, notes: ResponseRecorder, moment: number): Promise<void> {
      if (moment === 1) await Promise.resolve();
      if (moment === 2) await Bun.sleep(0);
      if (moment === 3) await Bun.sleep(1);
      if (moment === 4) {
        await new Promise<void>((resolve) => {
          notes.afterData = () => {
            exchange.abort();
            resolve();
          };
          notes.over.promise.then(() => resolve());
        });
      }
      exchange.abort();
    }
    await Promise.all(Array.from({ length: 50 }, (_, worker) => run(worker)));
    expect(faults).toEqual([]);
    expect(completed).toBe(1_000);
  }, 60_000);
});

describe("a response on a real socket", () => {
  const framed = fc.record({
    content: fc.string({ maxLength: 60 }).map((text) => Buffer.from(text)),
    isChunked: fc.boolean(),
    interim: fc.boolean(),
  });

  test("split at any byte yields the same head, body and end", async () => {
    let pieces: Buffer[] = [];
    const server = await serve((socket) => {
      socket.setNoDelay(true);
      const next = () => {
        const piece = pieces.shift();
        if (piece === undefined) return;
        socket.write(piece);
        setImmediate(next);
      };
      next();
    });
    open.push(server);
    const http = client();
    await fc.assert(
      fc.asyncProperty(framed, fc.array(fc.nat(300), { maxLength: 8 }), async (response, cuts) => {
        const { content, isChunked, interim } = response;
        const middle = content.length >> 1;
        const chunk = (bytes: Buffer) =>
          bytes.length === 0
            ? []
            : [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")];
        const chunks = [
          ...chunk(content.subarray(0, middle)),
          ...chunk(content.subarray(middle)),
          Buffer.from("0\r\n\r\n"),
        ];
        const framing = isChunked ? "transfer-encoding: chunked" : `content-length: ${content.length}`;
        const whole = Buffer.concat([
          Buffer.from(
            `${interim ? "HTTP/1.1 100 Continue\r\n\r\n" : ""}HTTP/1.1 200 OK\r\nX-A: b\r\n${framing}\r\n\r\n`,
          ),
          ...(isChunked ? chunks : [content]),
        ]);
        const at = [0, ...cuts.map((cut) => cut % whole.length).toSorted((a, b) => a - b), whole.length];
        pieces = at.slice(1).map((to, i) => whole.subarray(at[i], to));
        const { notes, over } = post(http, server.port, "");
        expect(await over).toBe("end");
        expect([notes.status, notes.headers?.get("x-a")]).toEqual([200, "b"]);
        expect(Buffer.concat(notes.pieces).equals(content)).toBe(true);
      }),
      { numRuns: 200 },
    );
    expect(server.connections.length).toBe(1);
  }, 60_000);

  test("with arbitrary bytes ends exactly once", async () => {
    let garbage: Buffer = Buffer.alloc(0);
    const server = await serve((socket) => socket.end(garbage));
    open.push(server);
    const http = client();
    const part = fc.oneof(
      fc.constantFrom(
        "HTTP/1.1 200 OK\r\n",
        "\r\n",
        "content-length: 3\r\n",
        "transfer-encoding: chunked\r\n",
      ),
      fc.constantFrom("3\r\nabc\r\n", "0\r\n\r\n", "HTTP/1.1 100 x\r\n\r\n", "abc", "\n"),
      fc.string({ unit: "binary", maxLength: 5 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 8 }), async (parts) => {
        garbage = Buffer.from(parts.join(""), "latin1");
        const { notes, over } = post(http, server.port, "");
        await over;
        await Bun.sleep(0);
        const last = notes.calls.filter((call) => call === "end" || call.startsWith("failed"));
        expect(last.length).toBe(1);
        expect(notes.calls.at(-1)).toBe(last[0] ?? "");
      }),
      { numRuns: 200 },
    );
  }, 60_000);
});

import { afterAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { createServer } from "node:net";
import { NOT_RUN, type Run, readProblem, runRequest, wholeResponse, withEvent } from "./run.ts";

const chunk = (content: string) =>
  JSON.stringify({ object: "chat.completion.chunk", choices: [{ delta: { content } }] });

/** A server that selects its response by the path. */
const server = Bun.serve({
  port: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    const headers = { "x-request-id": "req_1", "content-type": "text/event-stream" };
    switch (pathname) {
      case "/stream":
        return new Response(`data: ${chunk("Hel")}\n\ndata: ${chunk("lo")}\n\ndata: [DONE]\n\n`, { headers });
      case "/key":
        return Response.json({ key: request.headers.get("authorization") });
      default:
        return new Response("<h1>Bad gateway</h1>", { status: 502 });
    }
  },
});
afterAll(() => server.stop(true));

interface Ran {
  key?: string;
  signal?: AbortSignal;
  onStep?(run: Run): void;
}

async function ran(path: string, options: Ran = {}): Promise<Run[]> {
  const { key = "k", signal = new AbortController().signal, onStep } = options;
  const runs: Run[] = [];
  const request = { method: "GET", path: new URL(path, server.url).href, body: null, isJson: false };
  await runRequest(request, key, signal, (run) => {
    runs.push(run);
    onStep?.(run);
  });
  return runs;
}

describe("a run", () => {
  test("is reported event by event, with the text so far", async () => {
    const runs = await ran("/stream");
    expect(runs.map(({ text }) => text)).toEqual(["", "Hel", "Hello", "Hello", "Hello"]);
    expect(runs.at(-1)).toMatchObject({ state: "done", status: 200, requestId: "req_1", problem: null });
    expect(runs.at(-1)?.events.length).toBe(3);
    expect(runs.slice(0, -1).every(({ state }) => state === "running")).toBe(true);
  });

  test("that is cut off keeps the received events and reports the failure", async () => {
    const seen = Promise.withResolvers<void>();
    const cutting = createServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n");
      socket.write(`data: ${chunk("Hel")}\n\n`);
      void seen.promise.then(() => socket.destroy());
    });
    cutting.listen(0, "127.0.0.1");
    await once(cutting, "listening");
    const address = cutting.address();
    const port = typeof address === "object" ? address?.port : null;
    const onStep = ({ text }: Run) => text === "Hel" && seen.resolve();
    const last = (await ran(`http://127.0.0.1:${port}/`, { onStep })).at(-1);
    cutting.close();
    expect(last).toMatchObject({ state: "failed", text: "Hel", problem: { code: "connection_closed" } });
  });

  test("that cannot reach the server is reported as unreachable", async () => {
    const last = (await ran("http://127.0.0.1:1/")).at(-1);
    expect(last).toMatchObject({ state: "failed", status: null, problem: { code: "unreachable" } });
  });

  test("that the user stops has no problem", async () => {
    const last = (await ran("/stream", { signal: AbortSignal.abort() })).at(-1);
    expect(last).toMatchObject({ state: "stopped", problem: null });
  });

  test("shows a response body that is not JSON", async () => {
    const last = (await ran("/page")).at(-1);
    expect(last).toMatchObject({
      state: "failed",
      status: 502,
      response: "<h1>Bad gateway</h1>",
      problem: { code: "", message: "<h1>Bad gateway</h1>" },
    });
  });

  test("sends the key if one is set", async () => {
    expect((await ran("/key")).at(-1)?.response).toEqual({ key: "Bearer k" });
    expect((await ran("/key", { key: "" })).at(-1)?.response).toEqual({ key: null });
  });
});

describe("the first token", () => {
  const afterEvent = (run: Run, ms: number, data: string) => ({
    ...run,
    ...withEvent(run, { ms, name: "", data }),
  });

  test("is the first event with content", () => {
    const begun = afterEvent(NOT_RUN, 5, chunk(""));
    expect(begun.firstMs).toBeNull();
    const first = afterEvent(begun, 9, chunk("a"));
    expect(afterEvent(first, 20, chunk("b")).firstMs).toBe(9);
  });

  test("can be a partial image", () => {
    const sketch = JSON.stringify({ type: "image_generation.partial_image", b64_json: "/9j/4A" });
    const run = afterEvent(NOT_RUN, 7, sketch);
    expect(run).toMatchObject({ firstMs: 7, pictures: ["data:image/jpeg;base64,/9j/4A"] });
  });
});

describe("the problem of a response", () => {
  const error = { code: "model_not_found", message: "No.", param: "model" };

  test.each([
    ["the body of an error", { error }],
    ["an error frame", { type: "error", status: 404, error }],
    ["a failed response", { type: "response.failed", response: { status: "failed", error } }],
  ])("is read from %s", (_, value) => {
    expect(readProblem(value)).toEqual(error);
  });

  test("is null for values without an error", () => {
    for (const value of [{ error: null }, { response: { error: null } }, [], null, "error"]) {
      expect(readProblem(value)).toBeNull();
    }
  });

  test("is the body itself if an error response has no code and no message", () => {
    expect(wholeResponse(false, "{}").problem).toEqual({ code: "", message: "{}", param: null });
    expect(wholeResponse(true, "{}").problem).toBeNull();
  });
});

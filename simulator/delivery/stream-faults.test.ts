import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../../test/support/eventually.ts";
import { startSimulator } from "../simulator.ts";
import { rawPost } from "./raw-client.test-support.ts";

const simulator = startSimulator({ seed: 7 });
afterAll(() => simulator.stop());
beforeEach(() => simulator.ledger.reset());

const CHAT = "/chat/completions";
const RESPONSES = "/responses";

const stream = (path: string, model: string, until?: (received: string) => boolean) =>
  rawPost(
    simulator.url,
    path,
    {
      model,
      stream: true,
      stream_options: { include_usage: true },
      input: "Hi",
      messages: [{ role: "user", content: "Hi" }],
    },
    until === undefined ? {} : { until },
  );

const blocksIn = (body: string): string[] => body.split("\n\n").filter((block) => block !== "");
const dataIn = (body: string): string[] =>
  [...body.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? "");
const count = (text: string, part: string): number => text.split(part).length - 1;

/** The ledger records a disconnect only when the runtime reports it. */
async function settled() {
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  return simulator.ledger.last();
}

describe("a stream that is cut off", () => {
  test.each([1, 3, 7])("with fault/rst@chunk%d is reset after that many events", async (events) => {
    const response = await stream(RESPONSES, `fault/rst@chunk${events}`);
    expect(response.ended).toBe("reset");
    expect(blocksIn(response.body)).toHaveLength(events);
    expect(await settled()).toMatchObject({ eventsSent: events, finished: false, abortedByClient: false });
  });

  test("with fault/rst@chunk0 is reset after its headers", async () => {
    const response = await stream(CHAT, "fault/rst@chunk0");
    expect(response.ended).toBe("reset");
    expect(response.head).toContain("text/event-stream");
    expect(dataIn(response.body)).toEqual([]);
  });

  test.each([0, 3])("with fault/cut@chunk%d ends cleanly without a terminal event", async (events) => {
    for (const path of [CHAT, RESPONSES]) {
      const response = await stream(path, `fault/cut@chunk${events}`);
      expect(response.ended).toBe("message");
      expect(blocksIn(response.body)).toHaveLength(events);
      expect((await settled())?.finished).toBe(false);
    }
  });

  test("with fault/cut@byteN has exactly the first N bytes", async () => {
    const whole = (await stream(CHAT, "sim-fast@events=2")).body;
    const comparable = (text: string): string => text.replaceAll(/chatcmpl-\w+|"model":"[^"]*"|\d{10}/g, "");
    for (const bytes of [0, 1, 50, 333, 1_000]) {
      const response = await stream(CHAT, `fault/cut@byte${bytes},events=2`);
      expect(response.ended).toBe("message");
      expect(Buffer.byteLength(response.body)).toBe(bytes);
      if (bytes === 1_000) expect(comparable(whole)).toContain(comparable(response.body).slice(-200));
    }
    const beyond = await stream(CHAT, "fault/cut@byte99999999");
    expect(beyond.body).toEndWith("data: [DONE]\n\n");
  });

  test("with fault/truncated stops inside an event", async () => {
    const response = await stream(RESPONSES, "fault/truncated");
    expect(response.ended).toBe("reset");
    expect(response.body.endsWith("\n\n")).toBe(false);
  });
});

describe("a stream that stalls", () => {
  test("with fault/stall@chunk3 stays open and sends nothing more", async () => {
    const three = (received: string) => count(received, "data: ") === 3;
    const response = await stream(CHAT, "fault/stall@chunk3", three);
    expect(response.ended).toBe("open");
    expect(await settled()).toMatchObject({ eventsSent: 3, abortedByClient: true, finished: false });
  });

  test("with fault/stall and a duration continues after it", async () => {
    const response = await stream(CHAT, "fault/stall@chunk3,20ms");
    expect(response.body).toEndWith("data: [DONE]\n\n");
    expect((await settled())?.finished).toBe(true);
  });

  test("with fault/pings@chunk3 sends only comments", async () => {
    const response = await stream(
      CHAT,
      "fault/pings@chunk3,1ms",
      (received) => count(received, ": ping") > 4,
    );
    expect(dataIn(response.body)).toHaveLength(3);
    expect(response.ended).toBe("open");
  });
});

describe("an error inside a stream", () => {
  test("with fault/capacity-in-stream comes before any content", async () => {
    const chat = await stream(CHAT, "fault/capacity-in-stream");
    expect(dataIn(chat.body).map((data) => JSON.parse(data))).toMatchObject([
      { error: { code: "server_is_overloaded" } },
    ]);
    const response = await stream(RESPONSES, "fault/capacity-in-stream");
    expect(dataIn(response.body).map((data) => JSON.parse(data))).toMatchObject([
      { type: "response.created", sequence_number: 0 },
      { type: "response.failed", response: { status: "failed", error: { code: "server_is_overloaded" } } },
    ]);
    expect(await settled()).toMatchObject({ outputTokens: 0 });
  });

  test("with fault/error-in-stream comes after content and ends the stream", async () => {
    const chat = dataIn((await stream(CHAT, "fault/error-in-stream")).body);
    expect(JSON.parse(chat.at(-1) ?? "")).toMatchObject({ error: { code: "server_error" } });
    expect(chat).toHaveLength(4);
    const response = dataIn((await stream(RESPONSES, "fault/error-in-stream")).body).map((one) =>
      JSON.parse(one),
    );
    expect(response.at(-1)).toMatchObject({ type: "error", code: "server_error", sequence_number: 6 });
    expect(response.some((event) => event.type === "response.output_text.delta")).toBe(true);
  });

  test("with fault/failed comes last and reports the usage", async () => {
    const events = dataIn((await stream(RESPONSES, "fault/failed")).body).map((one) => JSON.parse(one));
    expect(events.at(-1)).toMatchObject({
      type: "response.failed",
      response: { usage: { output_tokens: expect.any(Number) } },
    });
    const chat = dataIn((await stream(CHAT, "fault/failed")).body);
    expect(JSON.parse(chat.at(-1) ?? "")).toHaveProperty("error");
    expect(JSON.parse(chat.at(-2) ?? "").usage.completion_tokens).toBeGreaterThan(0);
  });

  test("with fault/incomplete is response.incomplete, or finish_reason length", async () => {
    const events = dataIn((await stream(RESPONSES, "fault/incomplete")).body).map((one) => JSON.parse(one));
    expect(events.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { usage: expect.anything() },
    });
    expect((await stream(CHAT, "fault/incomplete")).body).toContain('"finish_reason":"length"');
  });
});

describe("a malformed stream", () => {
  test("with fault/badline has one invalid line among valid ones", async () => {
    const lines = dataIn((await stream(CHAT, "fault/badline@chunk3")).body);
    const broken = lines.filter((line) => line !== "[DONE]" && !isJson(line));
    expect(broken).toEqual([lines[3] ?? ""]);
    expect(lines.at(-1)).toBe("[DONE]");
  });

  test("with fault/badjson has no valid line", async () => {
    expect(dataIn((await stream(RESPONSES, "fault/badjson")).body).some(isJson)).toBe(false);
  });

  test("with fault/hugeline has one line of the configured size", async () => {
    const response = await stream(CHAT, "fault/hugeline@size=300000");
    const lines = dataIn(response.body);
    expect(lines.filter((line) => line.length >= 300_000)).toHaveLength(1);
    expect(lines.slice(0, -1).every(isJson)).toBe(true);
  });

  test("with fault/crlf ends its lines with CR LF", async () => {
    const { body } = await stream(RESPONSES, "fault/crlf");
    expect(count(body, "\n")).toBe(count(body, "\r\n"));
  });

  test("with fault/no-event-lines has only data lines", async () => {
    const { body } = await stream(RESPONSES, "fault/no-event-lines");
    expect(body).not.toContain("event:");
    expect(dataIn(body).every(isJson)).toBe(true);
  });

  test("with fault/split splits events and characters over several writes", async () => {
    const response = await stream(CHAT, "fault/split");
    expect(response.chunks.length).toBeGreaterThan(2 * dataIn(response.body).length);
    const isTorn = (chunk: Buffer): boolean => chunk.toString().endsWith("\ufffd");
    expect(response.chunks.some(isTorn)).toBe(true);
    expect(dataIn(response.body).slice(0, -1).every(isJson)).toBe(true);
  });

  test("with fault/no-done lacks [DONE]", async () => {
    const { body, ended } = await stream(CHAT, "fault/no-done");
    expect([body.includes("[DONE]"), ended]).toEqual([false, "message"]);
  });

  test("with fault/empty has no content and ends cleanly", async () => {
    const chat = dataIn((await stream(CHAT, "fault/empty")).body);
    expect(chat.map((data) => /"content":"[^"]/.test(data))).not.toContain(true);
    expect(chat.at(-1)).toBe("[DONE]");
    const events = dataIn((await stream(RESPONSES, "fault/empty")).body).map((one) => JSON.parse(one));
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: { output: [] } });
    expect(await settled()).toMatchObject({ outputTokens: 0, textDeltasSent: 0 });
  });

  test("with fault/gzip is compressed", async () => {
    const response = await fetch(simulator.url + CHAT, {
      method: "POST",
      body: JSON.stringify({ model: "fault/gzip", stream: true, messages: [] }),
    });
    expect(response.headers.get("content-encoding")).toBe("gzip");
    expect(await response.text()).toEndWith("data: [DONE]\n\n");
  });

  test("with fault/no-usage never reports usage", async () => {
    expect((await stream(CHAT, "fault/no-usage")).body).not.toContain("prompt_tokens");
    expect((await stream(RESPONSES, "fault/no-usage")).body).not.toContain("input_tokens");
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

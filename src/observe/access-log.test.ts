import { expect, test } from "bun:test";
import { AccessLog, type AccessLogOptions, type AccessRecord } from "./access-log.ts";

const RECORD: AccessRecord = {
  time: "2026-01-01T00:00:00.000Z",
  event: "request",
  request_id: "req_1",
  key: "abcd1234",
  user_id: null,
  group: "staff",
  endpoint: "responses",
  model: "fast",
  upstream_model: "up",
  account: "one",
  stream: true,
  status: 200,
  code: null,
  outcome: "completed",
  attempts: 1,
  wait_ms: 0,
  first_byte_ms: 1,
  first_content_ms: 2,
  duration_ms: 3,
  input_tokens: 4,
  cached_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 5,
  reasoning_tokens: 0,
  images: 0,
  cost_usd: "0.1",
  charged_usd: "0",
  request_bytes: 6,
  client: "client/1",
};

function open(options: Partial<AccessLogOptions> = {}) {
  const written: string[] = [];
  const callbacks: (() => void)[] = [];
  const log = new AccessLog({
    constants: {},
    ratio: 1,
    random: () => 0.5,
    delayMs: 1,
    batchCharsMax: 100_000,
    pendingCharsMax: 1_000_000,
    write(text, onWritten) {
      written.push(text);
      callbacks.push(onWritten);
    },
    ...options,
  });
  return { log, written, callbacks };
}

test("lines are written together, one JSON object each", () => {
  const { log, written } = open();
  log.add(RECORD);
  log.add({ ...RECORD, request_id: "req_2" });
  expect(written).toEqual([]);
  log.flush();
  expect(written).toHaveLength(1);
  const lines = written[0]?.trimEnd().split("\n") ?? [];
  expect(lines.map((line) => JSON.parse(line).request_id)).toEqual(["req_1", "req_2"]);
});

test("a long text is written at once", () => {
  const { log, written } = open({ batchCharsMax: 10 });
  log.add(RECORD);
  expect(written).toHaveLength(1);
});

test("a reader that does not keep up loses lines, which are counted", () => {
  const { log, written, callbacks } = open({ batchCharsMax: 1, pendingCharsMax: 1_500 });
  for (let i = 0; i < 10; i++) log.add(RECORD);
  expect(log.written + log.dropped).toBe(10);
  expect(log.dropped).toBeGreaterThan(0);
  const before = written.length;
  for (const done of callbacks) done();
  log.add(RECORD);
  expect(written.length).toBe(before + 1);
});

test("a sample keeps its share of requests, and every failure", () => {
  expect(open({ ratio: 0.4 }).log.isWanted(false)).toBeFalse();
  expect(open({ ratio: 0.6 }).log.isWanted(false)).toBeTrue();
  expect(open({ ratio: 0 }).log.isWanted(true)).toBeTrue();
});

test("a secret in the name of the client is redacted", () => {
  const { log, written } = open();
  log.add({ ...RECORD, client: "curl sk-abcdefghijklmnop" });
  log.flush();
  expect(written[0]).not.toContain("abcdefghijklmnop");
});

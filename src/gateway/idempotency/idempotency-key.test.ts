import { expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../../errors.ts";
import { computeFingerprint, readIdempotencyKey, repeatError } from "./idempotency-key.ts";

const readToken = (value: string) => readIdempotencyKey(new Headers({ "Idempotency-Key": value }));

test("a request without the header has no idempotency key", () => {
  expect(readIdempotencyKey(new Headers())).toBeNull();
});

test("a key of 1 to 255 visible characters is accepted unchanged", () => {
  const visible = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
  fc.assert(
    fc.property(fc.string({ unit: visible, minLength: 1, maxLength: 255 }), (token) => {
      expect(readToken(token)).toBe(token);
    }),
  );
});

test("an empty, too long, spaced or non-ASCII key is rejected with 400", () => {
  for (const wrong of ["", "x".repeat(256), "a b", "a\tb", "é", "a, b"]) {
    let thrown: unknown;
    try {
      readToken(wrong);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(ApiError);
    expect(thrown).toMatchObject({ status: 400, code: "invalid_value", param: "idempotency-key" });
  }
});

test("a fingerprint depends on the endpoint and on the boundaries of all parts", () => {
  const parts = fc.array(fc.string(), { maxLength: 4 });
  const of = (list: readonly string[]) =>
    list.reduce((print, part) => print.add(part), computeFingerprint("chat")).end();
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      expect(of(a) === of(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
    }),
  );
  expect(of(["ab"])).not.toBe(of(["a", "b"]));
  expect(computeFingerprint("chat").add("x").end()).not.toBe(computeFingerprint("responses").add("x").end());
  expect(of(["ü"])).toBe(computeFingerprint("chat").add(Buffer.from("ü")).end());
});

test("a repeated request gets one of three errors: retry later, response gone, key reused", () => {
  const requestId = "req_1";
  const running = repeatError({ kind: "running", requestId });
  expect(running).toMatchObject({ status: 409, code: "idempotency_in_progress" });
  expect(Number(running.headers["retry-after"])).toBeGreaterThanOrEqual(1);
  const gone = repeatError({ kind: "done", requestId, stored: null });
  expect(gone).toMatchObject({ status: 409, code: "idempotency_response_gone" });
  expect(gone.headers).toEqual({ "x-should-retry": "false" });
  const reused = repeatError({ kind: "other_body", requestId });
  expect(reused).toMatchObject({ status: 400, code: "idempotency_key_reused" });
  for (const error of [running, gone, reused]) expect(error.message).toContain(requestId);
});

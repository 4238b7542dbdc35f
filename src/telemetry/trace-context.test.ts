import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { uuidV7 } from "../base/clock.ts";
import { isInRatio } from "./sampling.ts";
import { deriveTraceId, formatTraceparent, parseTraceparent, readTracestate } from "./trace-context.ts";

const hex = (digits: number) =>
  fc
    .string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: digits, maxLength: digits })
    .filter((text) => /[^0]/.test(text));

describe("traceparent", () => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, isSampled) => {
        const header = formatTraceparent(traceId, spanId, isSampled);
        expect(parseTraceparent(header)).toEqual({ traceId, spanId, isSampled });
      }),
    );
  });

  test("of any other form is ignored", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!/^[0-9a-f]{2}-/.test(text));
        expect(parseTraceparent(text)).toBeNull();
      }),
    );
    expect(parseTraceparent(null)).toBeNull();
    expect(parseTraceparent(`cc-${"a".repeat(32)}-${"b".repeat(16)}-01-${"x".repeat(600)}`)).toBeNull();
  });
});

test("tracestate is forwarded only if it is printable and not too long", () => {
  expect(readTracestate("vendor=1,other=2")).toBe("vendor=1,other=2");
  expect(readTracestate("vendor=1\r\nx: y")).toBeNull();
  expect(readTracestate("v".repeat(513))).toBeNull();
});

test("the trace id of a request is the random part of its request id", () => {
  const requestId = uuidV7("req");
  expect(deriveTraceId(requestId)).toBe(requestId.slice(4).replaceAll("-", ""));
  expect(deriveTraceId("req_short")).toBeNull();
});

describe("the sample ratio", () => {
  test("keeps about its share of new traces", () => {
    const ids = Array.from({ length: 20_000 }, () => deriveTraceId(uuidV7("req")) ?? "");
    for (const ratio of [0.01, 0.1, 0.5, 0.9]) {
      const kept = ids.filter((id) => isInRatio(id, ratio)).length / ids.length;
      expect(Math.abs(kept - ratio)).toBeLessThan(0.02);
    }
  });

  test("keeps every trace that a lower ratio keeps", () => {
    const ratio = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(hex(32), ratio, ratio, (id, a, b) => {
        if (isInRatio(id, Math.min(a, b))) expect(isInRatio(id, Math.max(a, b))).toBeTrue();
      }),
    );
  });

  test("of 1 keeps all, of 0 none", () => {
    fc.assert(
      fc.property(hex(32), (id) => {
        expect([isInRatio(id, 1), isInRatio(id, 0)]).toEqual([true, false]);
      }),
    );
  });
});

import { describe, expect, test } from "bun:test";
import { limits } from "../../config/limits/product-limits.ts";
import { parseQuery, parseQueryRecord } from "./query.ts";

const parameters = (count: number) => Array.from({ length: count }, (_, i) => `p${i}=${i}`).join("&");

describe("a query string", () => {
  test("is parsed into a record, with a list for a repeated name", () => {
    expect(parseQueryRecord("")).toEqual({});
    expect(parseQueryRecord("a=1&b=2&a=3&a=4&c")).toEqual({ a: ["1", "3", "4"], b: "2", c: "" });
    expect(parseQueryRecord("%61=x+y&__proto__=1")).toEqual(
      Object.fromEntries([
        ["a", "x y"],
        ["__proto__", "1"],
      ]),
    );
  });

  test("has at most the allowed number of parameters, including empty ones", () => {
    const { queryParametersMax } = limits;
    expect(parseQuery(parameters(queryParametersMax)).size).toBe(queryParametersMax);
    for (const text of [
      parameters(queryParametersMax + 1),
      "&".repeat(queryParametersMax),
      "a=1&".repeat(60_000),
    ]) {
      expect(() => parseQuery(text)).toThrow("more than 100 parameters");
      expect(() => parseQueryRecord(text)).toThrow("more than 100 parameters");
    }
  });
});

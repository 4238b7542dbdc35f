import { expect, test } from "bun:test";
import { account } from "../../pool/pool.test-support.ts";
import { selectBetas } from "./betas.ts";

const bedrock = account("b", { kind: "bedrock" });
const vertex = account("v", { kind: "vertex" });

test("known flags are accepted once, in the order of the client", () => {
  const header = "interleaved-thinking-2025-05-14, context-1m-2025-08-07,interleaved-thinking-2025-05-14";
  const accepted = ["interleaved-thinking-2025-05-14", "context-1m-2025-08-07"];
  expect(selectBetas(bedrock, header)).toEqual({ accepted, areDropped: false });
});

test("the vendors accept different flags", () => {
  expect(selectBetas(bedrock, "effort-2025-11-24").accepted).toEqual(["effort-2025-11-24"]);
  expect(selectBetas(vertex, "effort-2025-11-24")).toEqual({ accepted: [], areDropped: true });
});

test("a renamed flag is accepted under its name at the vendor, and not twice", () => {
  const header = "advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19";
  expect(selectBetas(vertex, header)).toEqual({
    accepted: ["tool-search-tool-2025-10-19"],
    areDropped: false,
  });
});

test("no header is no flag", () => {
  expect(selectBetas(vertex, null)).toEqual({ accepted: [], areDropped: false });
  expect(selectBetas(vertex, " , ")).toEqual({ accepted: [], areDropped: false });
});

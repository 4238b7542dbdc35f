import { expect, test } from "bun:test";
import { account } from "../../pool/pool.test-support.ts";
import type { PolicyAccount } from "../account.ts";
import { KINDS } from "../kinds/table.ts";
import { selectBetas } from "./betas.ts";

const bedrock = account("b", { kind: "bedrock" });
const vertex = account("v", { kind: "vertex" });
const select = (hosted: PolicyAccount, header: string | null) =>
  selectBetas(hosted, KINDS[hosted.kind].hosting?.betas ?? [], header);

test("known flags are accepted once, in the order of the client", () => {
  const header = "interleaved-thinking-2025-05-14, context-1m-2025-08-07,interleaved-thinking-2025-05-14";
  const accepted = ["interleaved-thinking-2025-05-14", "context-1m-2025-08-07"];
  expect(select(bedrock, header)).toEqual({ accepted, areDropped: false });
});

test("the vendors accept different flags", () => {
  expect(select(bedrock, "effort-2025-11-24").accepted).toEqual(["effort-2025-11-24"]);
  expect(select(vertex, "effort-2025-11-24")).toEqual({ accepted: [], areDropped: true });
});

test("a renamed flag is accepted under its name at the vendor, and not twice", () => {
  const header = "advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19";
  expect(select(vertex, header)).toEqual({
    accepted: ["tool-search-tool-2025-10-19"],
    areDropped: false,
  });
});

test("no header is no flag", () => {
  expect(select(vertex, null)).toEqual({ accepted: [], areDropped: false });
  expect(select(vertex, " , ")).toEqual({ accepted: [], areDropped: false });
});

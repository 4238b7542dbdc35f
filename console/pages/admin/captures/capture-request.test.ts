import { expect, test } from "bun:test";
import { parseAddress } from "../../../explorer/address.ts";
import { findOperation } from "../../../explorer/described.ts";
import { buildExplorerLink, type CaptureDocument } from "./capture-request.ts";

const BODY = `{"model":"fast","input":"It's $HOME"}`;
const request = (change: Partial<CaptureDocument["request"]> = {}): CaptureDocument["request"] => ({
  method: "POST",
  path: "/v1/responses",
  transport: "http",
  headers: [
    ["authorization", "[redacted credential]"],
    ["anthropic-version", "2023-06-01"],
    ["content-length", "38"],
  ],
  body: { text: BODY, bytes: BODY.length, omitted_bytes: 0 },
  ...change,
});

test.each([
  "/v1/responses",
  "/v1/chat/completions",
  "/v1/messages",
  "/v1/embeddings",
  "/v1/images/generations",
])("a request to %s opens in the explorer with its body", (path) => {
  const link = buildExplorerLink(request({ path })) ?? "";
  const place = parseAddress(link.slice(link.indexOf("#")));
  expect(JSON.parse(place?.body ?? "")).toEqual(JSON.parse(BODY));
  expect(findOperation(place?.operation ?? "")?.path).toBe(path);
});

test("a request that is incomplete, not JSON or unknown does not open in the explorer", () => {
  expect(buildExplorerLink(request({ body: null }))).toBeNull();
  expect(buildExplorerLink(request({ path: "/v1/unknown" }))).toBeNull();
  expect(buildExplorerLink(request({ body: { text: BODY, bytes: 99, omitted_bytes: 9 } }))).toBeNull();
  expect(buildExplorerLink(request({ body: { text: "x", bytes: 1, omitted_bytes: 0 } }))).toBeNull();
});

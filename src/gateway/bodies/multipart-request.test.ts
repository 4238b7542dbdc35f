import { afterAll, expect, test } from "bun:test";
import { tmpdir } from "node:os";
import { openDeadlines } from "../../base/deadlines.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { listenForTest, textResponse } from "../../net/http-server/listen.test-support.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { openTestBudget } from "./body-budget.test-support.ts";
import { readMultipartRequest } from "./multipart-request.ts";

const deadlines = openDeadlines(1, { monotonicMs: () => performance.now() });
afterAll(() => deadlines.stop());

const LIMITS = {
  imageBodyBytesMax: 100_000,
  imageFileBytesMax: 50_000,
  imageFilesMax: 4,
  spoolAboveBytes: 100_000,
  bodyIdleTimeoutMs: 5_000,
  modelNameCharsMax: 32,
  spoolDir: tmpdir(),
  bodyReading: limits.bodyReading,
  deadlines,
};

const ROOMS = { small: openTestBudget(10_000_000), disk: openTestBudget(10_000_000) };
const requests: Promise<ModelRequest>[] = [];

const server = listenForTest((request) => {
  const contentType = request.headers.get("content-type") ?? "";
  const boundary = contentType.split("boundary=")[1] ?? "";
  const reading = readMultipartRequest(request, {
    boundary,
    contentType,
    limits: LIMITS,
    budgets: ROOMS,
    owner: { id: "key_1", userId: null },
  });
  requests.push(reading);
  return reading.then(
    () => textResponse("read"),
    () => textResponse("refused", 400),
  );
});
afterAll(() => server.closeNow());

async function read(
  fields: Record<string, string>,
  { picture = "a picture", headers = {} as Record<string, string> } = {},
): Promise<ModelRequest> {
  const form = new FormData();
  for (const [name, value] of Object.entries({ model: "fast", prompt: "a cat", ...fields })) {
    form.append(name, value);
  }
  form.append("image", new Blob([picture], { type: "image/png" }), "cat.png");
  await fetch(server.url, { method: "POST", body: form, headers });
  const request = requests.pop();
  if (request === undefined) throw new Error("nothing was asked");
  return request;
}

test("a form states the number and the kind of the requested images", async () => {
  const request = await read({ n: "2", size: "1024x1024", quality: "high" });
  expect(request).toMatchObject({ publicModel: "fast", choices: 2, imageKind: "1024x1024/high" });
  expect((await read({})).imageKind).toBeNull();
});

test("the prompt of a form counts as text, and each image counts as one", async () => {
  const { inputSize, inputText } = await read({ prompt: "eine Müllkatze" });
  expect(inputSize()).toEqual({ textBytes: 15, media: 1 });
  expect(inputText).toEqual({ kind: "texts", texts: ["eine Müllkatze"], formDigest: null });
});

test("a form with an Idempotency-Key is identified by its fields and its images", async () => {
  const headers = { "idempotency-key": "t" };
  const computeDigest = async (fields: Record<string, string>, picture?: string) => {
    const { inputText } = await read(fields, picture === undefined ? { headers } : { headers, picture });
    return inputText.kind === "texts" ? inputText.formDigest : null;
  };
  const first = await computeDigest({});
  expect(first).not.toBeNull();
  expect(await computeDigest({})).toBe(first);
  const others = [
    await computeDigest({ size: "1024x1024" }),
    await computeDigest({ user: "u" }),
    await computeDigest({}, "other"),
  ];
  expect(new Set([first, ...others]).size).toBe(4);
});

/**
 * Request bodies through the running gateway: which are accepted, which are rejected and at which position, and what
 * the upstream receives.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readlinkSync } from "node:fs";
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expectEnvelope, expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { rawRequest, readHeader } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MiB = 1024 * 1024;
const JSON_BYTES_MAX = 64 * MiB;
const CHAT = "/v1/chat/completions";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    models: {
      "fast-chat": "sim-fast",
      painter: "sim-image",
      shattered: "fault/500",
      sleeper: "fault/blackhole",
    },
  });
});

afterAll(() => gateway.stop());

const chatText = (content = "Hello") =>
  JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content }] });
const send = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  gateway.call(CHAT, body, { headers });
const arrived = () => gateway.simulator.ledger.totals().requests;

function lastBody(): string {
  const { ledger } = gateway.simulator;
  return Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString();
}

describe("an invalid JSON body is rejected with the position of the error:", () => {
  test.each([
    ["an empty body", "", "line 1, column 1"],
    ["no JSON", "hello", "line 1, column 1"],
    ["an array", "[]", "line 1, column 1"],
    ["a text", '"model"', "line 1, column 1"],
    ["cut off", '{"model":"fast-chat"', "line 1, column 21"],
    ["a trailing comma", '{\n  "model": "fast-chat",\n}', "line 3, column 1"],
    ["two bodies", `${chatText()} {}`, "column 70"],
    ["a comment", '{"model":"fast-chat", // hello\n"messages":[]}', "line 1, column 23"],
    ["an invalid number", '{"model":"fast-chat","messages":[],"n":NaN}', "column 40"],
    ["a byte order mark", `\uFEFF${chatText()}`, "line 1, column 1"],
    ["a bare control character", '{"model":"fast\nchat"}', "`model`"],
    [
      "a line break in a string",
      chatText("HERE").replace("HERE", "a\nb"),
      "line 1, column 61: a control character",
    ],
    ["an invalid escape", chatText("HERE").replace("HERE", "\\d+"), "line 1, column 60: malformed escape"],
  ])("%s", async (_, body, place) => {
    const error = await expectRejection(await send(body), 400);
    expect(error).toMatchObject({ code: "invalid_json", type: "invalid_request_error" });
    expect(error.message).toContain(place);
  });

  test("nesting deeper than 128", async () => {
    const nested = (depth: number) =>
      `{"model":"fast-chat","messages":[{"role":"user","content":"x"}],"x":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    expect((await send(nested(127))).status).toBe(200);
    const error = await expectRejection(await send(nested(128)), 400);
    expect(error.message).toMatch(/line 1, column \d+/);
    await expectRejection(await send(`{"model":${"[".repeat(10 * MiB)}`), 400);
  });

  test.each(["model", "stream", "messages", "n", "stream_options", "max_tokens", "\\u006dodel"])(
    "a duplicate field %s",
    async (field) => {
      const body = `{"model":"fast-chat","messages":[{"role":"user","content":"x"}],"stream":false,"n":1,"stream_options":null,"max_tokens":5,"${field}":null}`;
      const error = await expectRejection(await send(body), 400);
      expect(error).toMatchObject({ code: "duplicate_parameter", param: field.replace("\\u006d", "m") });
      expect(error.message).toMatch(/line 1, column \d+/);
    },
  );

  test.each([
    ["a lone continuation byte", [0x80]],
    ["an overlong encoding of a slash", [0xc0, 0xaf]],
    ["half a surrogate pair", [0xed, 0xa0, 0x80]],
    ["beyond Unicode", [0xf5, 0x80, 0x80, 0x80]],
  ])("not UTF-8: %s", async (_, bytes) => {
    const [before = "", after = ""] = chatText("HERE").split("HERE");
    const error = await expectRejection(
      await send(Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])),
      400,
    );
    expect(error).toMatchObject({ code: "invalid_json", message: expect.stringContaining("UTF-8") });
  });

  test.each([
    [{}, "missing_required_parameter", "model"],
    [{ model: "fast-chat" }, "missing_required_parameter", "messages"],
    [{ model: 5, messages: [{}] }, "invalid_type", "model"],
    [{ model: "", messages: [{}] }, "invalid_value", "model"],
    [{ model: "x".repeat(300), messages: [{}] }, "invalid_value", "model"],
    [{ model: "fast-chat", messages: {} }, "invalid_type", "messages"],
    [{ model: "fast-chat", messages: [] }, "invalid_value", "messages"],
    [{ model: "fast-chat", messages: [{}], stream: "yes" }, "invalid_type", "stream"],
    [
      { model: "fast-chat", messages: [{}], stream: true, stream_options: 1 },
      "invalid_type",
      "stream_options",
    ],
    [{ model: "fast-chat", messages: [{}], n: "two" }, "invalid_type", "n"],
    [{ model: "fast-chat", messages: [{}], n: 0 }, "invalid_value", "n"],
  ])("an invalid field: %j", async (body, code, param) => {
    const before = arrived();
    expect(await expectRejection(await gateway.call(CHAT, body), 400)).toMatchObject({ code, param });
    expect(arrived()).toBe(before);
  });
});

describe("a valid JSON body", () => {
  test("is forwarded byte for byte except for the model", async () => {
    const body = `{ "z": 1e999, "messages" : [ {"role":"user","content":"\\u00e9\\ud83d\\ude00 é"} ],
      "big": 12345678901234567890123, "model":"fast-chat" , "__proto__": {"a": [1.0, -0]}, "a":1, "a":2 }`;
    expect((await send(body)).status).toBe(200);
    expect(lastBody()).toBe(body.replace('"fast-chat"', '"sim-fast"'));
  });

  test("with any content is forwarded byte for byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string({ maxLength: 12 }), fc.jsonValue()), async (extra) => {
        const fields = Object.entries(extra)
          .filter(([name]) => !["model", "messages", "stream", "n", "input", "prompt"].includes(name))
          .map(([name, value]) => `,${JSON.stringify(name)} : ${JSON.stringify(value)}`);
        const body = `{"messages":[{"role":"user","content":"x"}],"model":"fast-chat"${fields.join("")}}`;
        const response = await send(body);
        await response.arrayBuffer();
        if (response.status === 200) expect(lastBody()).toBe(body.replace('"fast-chat"', '"sim-fast"'));
        else expect(response.status).toBe(400);
      }),
      { numRuns: 100 },
    );
  });

  test("gets include_usage added when it streams", async () => {
    const body = '{"model":"fast-chat","messages":[{"role":"user","content":"x"}],"stream":true}';
    await (await send(body)).text();
    expect(JSON.parse(lastBody())).toMatchObject({
      model: "sim-fast",
      stream_options: { include_usage: true },
    });
  });

  test("may contain an image of 10 MiB", async () => {
    const before = arrived();
    const response = await send(chatText("x".repeat(10 * MiB)));
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    expect(arrived()).toBe(before + 1);
    expect(gateway.simulator.ledger.last()?.requestBytes).toBeGreaterThan(10 * MiB);
  });
});

describe("a body that is too large", () => {
  const head = (rest: string) =>
    `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TEST_KEY}\r\nContent-Type: application/json\r\n${rest}\r\n\r\n`;

  test.each([JSON_BYTES_MAX + 1, 999_999_999_999])(
    "with a Content-Length of %d is rejected before it is sent",
    async (length) => {
      const response = await rawRequest(gateway.url, head(`Content-Length: ${length}`));
      expect(response.status).toBe(413);
      const error = expectEnvelope(413, readHeader(response, "x-request-id"), response.body);
      expect(error).toMatchObject({ code: "request_too_large", type: "invalid_request_error" });
    },
  );

  test("without Content-Length is rejected while it is sent", async () => {
    const chunk = Buffer.alloc(MiB, " ");
    const framed = Buffer.concat([Buffer.from(`${MiB.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]);
    let sent = 0;
    const response = await rawRequest(gateway.url, head("Transfer-Encoding: chunked"), (socket) => {
      const more = (): void => {
        while (!socket.destroyed && sent < 200 && socket.write(framed)) sent++;
        sent++;
      };
      socket.on("drain", more);
      more();
    });
    expect(response.status).toBe(413);
    expectEnvelope(413, readHeader(response, "x-request-id"), response.body);
    expect(sent).toBeGreaterThan(63);
    expect(sent).toBeLessThan(200);
  });

  test("of a client without a valid key is rejected without being read", async () => {
    const stranger = head(`Content-Length: ${JSON_BYTES_MAX}`).replace(TEST_KEY, "nobody");
    expect((await rawRequest(gateway.url, stranger)).status).toBe(401);
  });
});

const ENCODERS = { gzip: gzipSync, deflate: deflateSync, br: quickBrotli, zstd: zstdCompressSync };

/** With the default quality the compression bombs alone would take longer than all other tests. */
function quickBrotli(data: string | Uint8Array): Buffer {
  return brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
}

describe("an encoded body", () => {
  test.each(Object.entries(ENCODERS))("in %s is decoded", async (encoding, encode) => {
    const response = await send(encode(chatText()), { "content-encoding": encoding });
    expect(response.status).toBe(200);
    expect(lastBody()).toBe(chatText().replace("fast-chat", "sim-fast"));
    expect(gateway.simulator.ledger.last()?.headers).not.toHaveProperty("content-encoding");
  });

  test.each(Object.entries(ENCODERS))(
    "in %s that expands beyond the limit is rejected",
    async (encoding, encode) => {
      const bomb = encode(Buffer.alloc(JSON_BYTES_MAX + 1, " "));
      expect(bomb.length).toBeLessThan(MiB);
      const before = arrived();
      const error = await expectRejection(await send(bomb, { "content-encoding": encoding }), 413);
      expect(error.code).toBe("request_too_large");
      expect(arrived()).toBe(before);
    },
  );

  test.each(["compress", "gzip, gzip", "nonsense"])("in %p is rejected", async (encoding) => {
    const error = await expectRejection(await send(chatText(), { "content-encoding": encoding }), 415);
    expect(error.message).toContain("gzip");
  });

  test("that does not match its Content-Encoding is rejected", async () => {
    await expectRejection(await send(chatText(), { "content-encoding": "gzip" }), 400);
  });

  test("with invalid JSON is rejected with the position", async () => {
    const error = await expectRejection(await send(gzipSync("{,"), { "content-encoding": "gzip" }), 400);
    expect(error.message).toContain("line 1, column 2");
  });
});

describe("a form", () => {
  const EDITS = "/v1/images/edits";
  const form = (fields: Record<string, string>, files: Record<string, number> = { image: 10 }) => {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.append(name, value);
    for (const [name, bytes] of Object.entries(files)) {
      data.append(
        name.replace(/\d$/, ""),
        new File([Buffer.alloc(bytes, "p")], `${name}.png`, { type: "image/png" }),
      );
    }
    return data;
  };
  /** Spool files that this process holds open. They are unlinked at once, so the folder does not list them. */
  const spooled = () =>
    readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).includes("/spool/");
      } catch {
        return false;
      }
    });

  test("that exceeds the memory limit is forwarded whole, and its spool file is removed", async () => {
    const fields = { prompt: "a door", model: "painter", n: "2" };
    const response = await gateway.call(
      EDITS,
      form(fields, { "image[]1": 6 * MiB, "image[]2": 5 * MiB + 1, mask: 3 }),
    );
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ data: [{}, {}] });
    const entry = gateway.simulator.ledger.last();
    expect(entry?.form?.texts).toEqual({ ...fields, model: "sim-image" });
    expect(entry?.form?.files.map(({ name, bytes }) => [name, bytes])).toEqual([
      ["image[]", 6 * MiB],
      ["image[]", 5 * MiB + 1],
      ["mask", 3],
    ]);
    await eventually(() => spooled().length, { equals: 0 });
  });

  test("is spooled to disk while the upstream is slow", async () => {
    const leave = new AbortController();
    const body = form({ prompt: "a door", model: "sleeper" }, { image: 6 * MiB });
    const response = gateway.call(EDITS, body, { signal: leave.signal }).catch(() => "left");
    await eventually(() => spooled().length, { equals: 1 });
    leave.abort();
    expect(await response).toBe("left");
    await eventually(() => spooled().length, { equals: 0 });
  });

  test("has its spool file removed after an upstream failure", async () => {
    const response = await gateway.call(
      EDITS,
      form({ prompt: "a door", model: "shattered" }, { image: 6 * MiB }),
    );
    await expectRejection(response, 502);
    await eventually(() => spooled().length, { equals: 0 });
  });

  test.each([
    ["no model", form({ prompt: "x" }), 400, "missing_required_parameter", "model"],
    ["no prompt", form({ model: "painter" }), 400, "missing_required_parameter", "prompt"],
    ["no image", form({ model: "painter", prompt: "x" }, {}), 400, "missing_required_parameter", "image"],
    [
      "an invalid stream value",
      form({ model: "painter", prompt: "x", stream: "maybe" }),
      400,
      "invalid_value",
      "stream",
    ],
    ["an unknown model", form({ model: "nothing", prompt: "x" }), 404, "model_not_found", "model"],
  ])("with %s is rejected", async (_, body, status, code, param) => {
    const before = arrived();
    expect(await expectRejection(await gateway.call(EDITS, body), status)).toMatchObject({ code, param });
    expect(arrived()).toBe(before);
  });

  test("with two models is rejected", async () => {
    const body = form({ model: "painter", prompt: "x" });
    body.append("model", "fast-chat");
    expect(await expectRejection(await gateway.call(EDITS, body), 400)).toMatchObject({
      code: "duplicate_parameter",
    });
  });

  test("with 17 images is rejected", async () => {
    const body = form({ model: "painter", prompt: "x" }, {});
    for (let i = 0; i < 17; i++) body.append("image[]", new File(["p"], "p.png"));
    expect(await expectRejection(await gateway.call(EDITS, body), 413)).toMatchObject({
      code: "request_too_large",
    });
  });

  test("that is truncated is rejected", async () => {
    const response = await gateway.call(
      EDITS,
      '--x\r\nContent-Disposition: form-data; name="model"\r\n\r\npai',
      {
        headers: { "content-type": "multipart/form-data; boundary=x" },
      },
    );
    expect(await expectRejection(response, 400)).toMatchObject({ code: "invalid_request" });
  });
});

/** Tests which callers are authenticated, what they may use, and the errors that all others get. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { listKeys, revokeKey } from "../../src/store/policy/keys.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { rawRequest } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const key = (name: string) => `${name}-key-0123456789-0123456789-0123456789`;

const FILE = `
models:
  - { id: talker, interfaces: [chat, responses] }
  - { id: embedder, interfaces: [embeddings] }
  - { id: painter, interfaces: [images] }
  - { id: secret-model, interfaces: [chat, responses, embeddings, images] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: up, private_network: true }
groups:
  - { name: all, models: [talker, embedder, painter], accounts: [sim] }
  - { name: chat, interfaces: [chat], models: [talker, embedder, painter], accounts: [sim] }
  - { name: responses, interfaces: [responses], models: [talker, embedder, painter], accounts: [sim] }
  - { name: embeddings, interfaces: [embeddings], models: [talker, embedder, painter], accounts: [sim] }
  - { name: images, interfaces: [images], models: [talker, embedder, painter], accounts: [sim] }
  - { name: insiders, models: [secret-model], accounts: [sim] }
keys:
  - { name: all, group: all, secret: ${key("all")} }
  - { name: doomed, group: all, secret: ${key("doomed")} }
  - { name: expired, group: all, secret: ${key("expired")}, expires: 2020-01-01 }
  - { name: lasting, group: all, secret: ${key("lasting")}, expires: 2999-01-01 }
  - { name: chat, group: chat, secret: ${key("chat")} }
  - { name: responses, group: responses, secret: ${key("responses")} }
  - { name: embeddings, group: embeddings, secret: ${key("embeddings")} }
  - { name: images, group: images, secret: ${key("images")} }
  - { name: insider, group: insiders, secret: ${key("insider")} }
`;

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ file: FILE });
});

afterAll(() => gateway.stop());

const bearer = (name: string) => ({ authorization: `Bearer ${key(name)}` });
const arrived = () => gateway.simulator.ledger.totals().requests;

/** One request for each interface; `model` can replace the right model. */
const FAMILIES = {
  chat: {
    path: "/v1/chat/completions",
    body: { model: "talker", messages: [{ role: "user", content: "Hi" }] },
  },
  responses: { path: "/v1/responses", body: { model: "talker", input: "Hi" } },
  embeddings: { path: "/v1/embeddings", body: { model: "embedder", input: "Hi" } },
  images: { path: "/v1/images/generations", body: { model: "painter", prompt: "Hi" } },
} as const;
const NAMES = ["chat", "responses", "embeddings", "images"] as const;

function ask(family: keyof typeof FAMILIES, keyName: string, model?: string): Promise<Response> {
  const { path, body } = FAMILIES[family];
  return gateway.call(path, model === undefined ? body : { ...body, model }, { headers: bearer(keyName) });
}

describe("a key", () => {
  test.each([
    ["Authorization: Bearer", { authorization: `Bearer ${key("all")}` }],
    ["authorization: bearer, with extra spaces", { authorization: `bearer   ${key("all")} ` }],
    ["x-api-key", { "x-api-key": key("all") }],
    ["api-key", { "api-key": key("all") }],
  ])("is read from %s", async (_, headers) => {
    expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(200);
  });

  test("may be repeated in the Authorization header, but two different keys are rejected", async () => {
    const lines = (...names: string[]) =>
      names.map((name) => `authorization: Bearer ${key(name)}\r\n`).join("");
    const asked = async (...names: string[]) => {
      const head = `GET /v1/models HTTP/1.1\r\nhost: x\r\n${lines(...names)}\r\n`;
      return (await rawRequest(gateway.url, head)).status;
    };
    expect(await asked("all", "all")).toBe(200);
    expect(await asked("all", "lasting")).toBe(401);
  });

  test("in the Authorization header takes precedence", async () => {
    const headers = { authorization: "Bearer wrong", "x-api-key": key("all") };
    await expectRejection(await fetch(`${gateway.url}/v1/models`, { headers }), 401);
  });

  test.each([
    ["is missing", {}, "missing_api_key"],
    ["is empty", { authorization: "Bearer " }, "missing_api_key"],
    ["is sent with another scheme", { authorization: `Basic ${key("all")}` }, "missing_api_key"],
    ["is unknown", { authorization: "Bearer sk-wrong" }, "invalid_api_key"],
    ["is truncated", { authorization: `Bearer ${key("all").slice(0, -1)}` }, "invalid_api_key"],
    ["is too long", { authorization: `Bearer ${"a".repeat(5000)}` }, "invalid_api_key"],
    ["has expired", bearer("expired"), "invalid_api_key"],
  ])("that %s is rejected with 401", async (_, headers: Record<string, string>, code) => {
    for (const path of ["/v1/models", "/v1/usage", "/v1/responses/resp_1", "/v1/responses"]) {
      const response = await fetch(gateway.url + path, { headers });
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(await expectRejection(response, 401)).toMatchObject({ code, type: "invalid_request_error" });
    }
  });

  test("is checked before the body is read", async () => {
    const before = arrived();
    for (const { path } of Object.values(FAMILIES)) {
      const response = await fetch(gateway.url + path, { method: "POST", body: "{{{" });
      expect(await expectRejection(response, 401)).toMatchObject({ code: "missing_api_key" });
    }
    expect(arrived()).toBe(before);
  });

  test("that expires later is accepted", async () => {
    expect((await ask("chat", "lasting")).status).toBe(200);
  });

  test("that is revoked is rejected permanently within a moment", async () => {
    expect((await ask("chat", "doomed")).status).toBe(200);
    const { db, clock } = gateway.installation;
    const doomed = (await listKeys(db)).find(({ name }) => name === "doomed");
    await revokeKey(db, doomed?.id ?? "", clock.nowMs());
    const refused = await eventually(async () => {
      const response = await ask("chat", "doomed");
      return response.status === 401 ? response : null;
    });
    expect(await expectRejection(refused, 401)).toMatchObject({ code: "invalid_api_key" });
  });
});

describe("a group", () => {
  test.each(NAMES)("with only the %s interface rejects all other interfaces", async (allowed) => {
    for (const family of NAMES) {
      const before = arrived();
      const response = await ask(family, allowed);
      if (family === allowed) {
        expect(response.status).toBe(200);
        continue;
      }
      expect(await expectRejection(response, 403)).toMatchObject({
        code: "interface_not_allowed",
        type: "permission_error",
        message: expect.stringContaining(family),
      });
      expect(arrived()).toBe(before);
    }
  });

  test("without the Responses interface cannot access stored responses", async () => {
    const response = await gateway.call("/v1/responses/resp_1", undefined, { headers: bearer("chat") });
    expect(await expectRejection(response, 403)).toMatchObject({ code: "interface_not_allowed" });
  });

  test("lists only the models that its keys can call", async () => {
    const listed = async (name: string) => {
      const response = await gateway.call("/v1/models", undefined, { headers: bearer(name) });
      const { data } = (await response.json()) as { data: { id: string }[] };
      return data.map(({ id }) => id);
    };
    expect(await listed("all")).toEqual(["talker", "embedder", "painter"]);
    expect(await listed("chat")).toEqual(["talker"]);
    expect(await listed("images")).toEqual(["painter"]);
    expect(await listed("insider")).toEqual(["secret-model"]);
  });
});

describe("a model", () => {
  test.each([
    ["chat", "embedder", "embeddings", "/v1/embeddings"],
    ["embeddings", "talker", "chat and responses", "/v1/"],
    ["images", "talker", "chat and responses", "/v1/"],
    ["responses", "painter", "images", "/v1/images/generations"],
  ] as const)(
    "of another interface is rejected with 400 and the right endpoint: %s with %s",
    async (...row) => {
      const [family, model, serves, path] = row;
      const error = await expectRejection(await ask(family, "all", model), 400);
      expect(error).toMatchObject({ code: "invalid_value", param: "model" });
      expect(error.message).toContain(serves);
      expect(error.message).toContain(path);
    },
  );

  test.each(NAMES)("that is unknown or unpublished gets the same error from %s", async (family) => {
    const words = async (model: string) => {
      const { message, code, type, param } = await expectRejection(await ask(family, "all", model), 404);
      return { message: message.replaceAll(model, "MODEL"), code, type, param };
    };
    const unpublished = await words("secret-model");
    expect(unpublished).toEqual(await words("no-such-model"));
    expect(unpublished).toMatchObject({ code: "model_not_found", param: "model" });
  });

  test("that is unpublished cannot be retrieved", async () => {
    const look = async (id: string) =>
      (
        await expectRejection(
          await gateway.call(`/v1/models/${id}`, undefined, { headers: bearer("all") }),
          404,
        )
      ).message;
    expect((await look("secret-model")).replaceAll("secret-model", "M")).toBe(
      (await look("no-such-model")).replaceAll("no-such-model", "M"),
    );
  });

  test("is listed and served exactly while it is published", async () => {
    const publish = (models: string) =>
      gateway.apply(`groups:\n  - { name: all, models: [${models}], accounts: [sim] }`);
    const isListed = async () =>
      (await gateway.call("/v1/models/secret-model", undefined, { headers: bearer("all") })).status === 200;
    expect((await ask("chat", "all", "secret-model")).status).toBe(404);
    await publish("talker, embedder, painter, secret-model");
    await eventually(isListed);
    expect((await ask("chat", "all", "secret-model")).status).toBe(200);
    await publish("talker, embedder, painter");
    await eventually(async () => !(await isListed()));
    expect((await ask("chat", "all", "secret-model")).status).toBe(404);
  });
});

describe("invalid keys from one address", () => {
  let throttled: RunningGateway;

  beforeAll(async () => {
    throttled = await startTestGateway({ file: FILE });
  });
  afterAll(() => throttled.stop());

  test("are rate-limited after twenty, while a valid key is accepted", async () => {
    const guess = (n: number) =>
      fetch(`${throttled.url}/v1/models`, { headers: { authorization: `Bearer guess-${n}` } });
    for (let n = 1; n <= 20; n++) await expectRejection(await guess(n), 401);
    const held = await guess(21);
    const seconds = Number(held.headers.get("retry-after"));
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(await expectRejection(held, 429)).toMatchObject({
      code: "rate_limit_exceeded",
      type: "rate_limit_error",
    });
    const good = await fetch(`${throttled.url}/v1/models`, { headers: bearer("all") });
    expect(good.status).toBe(200);
    await expectRejection(await guess(22), 429);
  });
});

test("health checks need no key and reveal no internals", async () => {
  const health = await fetch(`${gateway.url}/healthz`);
  expect(await health.json()).toEqual({ status: "ok" });
  const ready = await fetch(`${gateway.url}/readyz`);
  expect(await ready.json()).toEqual({ status: "ready", store: "ok", draining: false });
});

/** An upstream that returns secrets in every form that JSON has: none of them is stored in a capture. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mintAccessToken } from "../../src/secrets/random-secret.ts";
import { chatChunk } from "../support/canned-upstream.ts";
import { type ConsoleClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  buildChunk,
  EVENT_STREAM_HEAD,
  LAST_CHUNK,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const CREDENTIAL = "upstream/credential+canary/77";
const TOKEN = mintAccessToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes))).secret;

const slashes = (text: string) => text.replaceAll("/", "\\/");
const hex = (text: string) =>
  [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
/** As an upstream writes that escapes more than it must. */
const ECHO = `key ${slashes(CREDENTIAL)}, ${hex(CREDENTIAL)}, ${hex(TEST_KEY).toUpperCase().replaceAll("\\U", "\\u")}, ${hex(TOKEN)}`;
const ERROR = `{"error":{"message":"${ECHO}","type":"invalid_request_error","code":"bad_thing"}}`;

let upstream: ScriptedUpstream;
let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  upstream = await startScriptedUpstream(async ({ body }, connection) => {
    if (body.stream !== true) {
      await connection.write(
        `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${ERROR.length}\r\n\r\n${ERROR}`,
      );
      return;
    }
    await connection.write(EVENT_STREAM_HEAD);
    const deltas = [...`I was sent ${CREDENTIAL} by ${TOKEN}.`].map((content) => chatChunk({ content }));
    const stream = `${deltas.join("")}${chatChunk({}, "stop")}data: [DONE]\n\n`;
    // Chunks of a size that no event has, so that events and secrets are cut everywhere.
    for (let at = 0; at < stream.length; at += 97)
      await connection.write(buildChunk(Buffer.from(stream.slice(at, at + 97))));
    await connection.write(LAST_CHUNK);
  });
  gateway = await startTestGateway({
    file: `
models: [{ id: fast, interfaces: [chat] }]
accounts:
  - { name: echo, kind: openai, base_url: "${upstream.url}", credential: ${CREDENTIAL}, private_network: true, interfaces: [chat], models: { fast: up } }
groups: [{ name: default, interfaces: [chat], models: [fast], accounts: [echo], capture: all }]
users: [{ email: dev@example.com, role: user }]
keys: [{ name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }]
`,
    capture: { body_kib: 64, redact: [] },
  });
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

async function capture(body: object) {
  const response = await gateway.call("/v1/chat/completions", {
    model: "fast",
    messages: [{ role: "user", content: "hello" }],
    ...body,
  });
  await response.text();
  const id = response.headers.get("x-request-id") ?? "";
  await eventually(async () =>
    (await admin.call("admin.captures.list")).data.some(({ request_id: captured }) => captured === id),
  );
  return (await admin.call("admin.captures.read", { params: { id }, body: {} })).document;
}

test("an error that returns the credential, the caller's key and a token in escapes", async () => {
  const { attempts } = await capture({});
  const { error } = JSON.parse(attempts[0]?.response?.text ?? "");
  expect(error.message).toBe("key [redacted key], [redacted key], [redacted key], [redacted key]");
});

test("a stream that returns the credential and a token letter by letter", async () => {
  const { attempts, response } = await capture({ stream: true });
  for (const body of [attempts[0]?.response, response.body]) {
    const events = [...(body?.text ?? "").matchAll(/^data: (\{.*)$/gm)].map(([, json = ""]) =>
      JSON.parse(json),
    );
    const text = events.map(({ choices }) => choices?.[0]?.delta?.content ?? "").join("");
    expect(text).toBe("I was sent [redacted key] by [redacted key].");
  }
});

/** The command of a captured request, as curl executes it. */

import { expect, test } from "bun:test";
import { buildCurl } from "./capture-request.ts";

const BODY = `{"model":"fast","input":"It's $HOME"}`;

const REQUEST = {
  method: "POST",
  path: "/v1/responses",
  transport: "http" as const,
  headers: [
    ["authorization", "[redacted credential]"],
    ["anthropic-version", "2023-06-01"],
    ["content-length", "38"],
  ] as [string, string][],
  body: { text: BODY, bytes: BODY.length, omitted_bytes: 0 },
};

test("the command sends the captured body as it is, with a key from the environment", async () => {
  const server = Bun.serve({
    port: 0,
    fetch: async (received) =>
      Response.json({
        path: new URL(received.url).pathname,
        body: await received.text(),
        key: received.headers.get("authorization"),
        version: received.headers.get("anthropic-version"),
      }),
  });
  try {
    const command = buildCurl(REQUEST, `http://127.0.0.1:${server.port}`);
    const run = Bun.spawn(["sh", "-c", `${command} -s`], {
      env: { ...process.env, MODEL_GATEWAY_KEY: "k1" },
    });
    expect(JSON.parse(await new Response(run.stdout).text())).toEqual({
      path: "/v1/responses",
      body: BODY,
      key: "Bearer k1",
      version: "2023-06-01",
    });
  } finally {
    await server.stop(true);
  }
});

/** An upstream 404 to a model request: the error decides whether another account is tried. */

import { afterEach, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { type PooledGateway, startPooledGateway } from "../support/pooled-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

const running: PooledGateway[] = [];
const servers: ReturnType<typeof Bun.serve>[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
  await Promise.all(servers.splice(0).map((server) => server.stop(true)));
});

interface Upstream {
  url: string;
  asked(): number;
}

function upstream(respond: (body: Record<string, unknown>) => Response): Upstream {
  let asked = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      asked++;
      return respond(asRecord(await request.json()));
    },
  });
  servers.push(server);
  return { url: `http://127.0.0.1:${server.port}/v1`, asked: () => asked };
}

const missing = (error: object) => () => Response.json({ error }, { status: 404 });

async function start(upstreams: readonly Upstream[], isEqual = true): Promise<PooledGateway> {
  const accounts = upstreams.map(({ url }, i) => ({ url, priority: isEqual ? 1 : i + 1 }));
  const gateway = await startPooledGateway({ accounts });
  running.push(gateway);
  return gateway;
}

const TOOLS = [{ type: "function", function: { name: "f", parameters: {} } }];

describe("an account with a wrong base URL or model", () => {
  const cases: [name: string, error: object][] = [
    [
      "Ollama's words",
      { message: 'model "sim-fast" not found, try pulling it first', type: "not_found_error" },
    ],
    ["a base_url without /v1", { message: "Invalid URL (POST /chat/completions)", code: null }],
  ];

  test.each(cases)("cools down while another account serves: %s", async (_, error) => {
    const [wrong, good] = [upstream(missing(error)), upstream(chatResponse)];
    const gateway = await start([wrong, good], false);
    for (let i = 0; i < 3; i++) expect((await gateway.send({})).status).toBe(200);
    expect([wrong.asked(), good.asked()]).toEqual([1, 3]);
  });

  test.each(cases)("results in no_available_account if it is the only account: %s", async (_, error) => {
    const gateway = await start([upstream(missing(error))]);
    for (let i = 0; i < 2; i++) {
      expect(await expectRejection(await gateway.send({}), 503)).toMatchObject({
        code: "no_available_account",
      });
    }
  });

  test("gets further requests if only the feature of this request is missing", async () => {
    const [picky, good] = [
      upstream(missing({ message: "No endpoints found that support tool use" })),
      upstream(chatResponse),
    ];
    const gateway = await start([picky, good], false);
    for (let i = 0; i < 2; i++) expect((await gateway.send({ more: { tools: TOOLS } })).status).toBe(200);
    expect([picky.asked(), good.asked()]).toEqual([2, 2]);
  });
});

describe("an item that one account stores", () => {
  /** Each upstream knows only the items of its own responses, like OpenAI. */
  function keeper(name: string): Upstream {
    let made = 0;
    return upstream(({ input }) => {
      const named = Array.isArray(input) ? input.find(({ type }) => type === "item_reference") : undefined;
      if (named !== undefined && !String(named.id).startsWith(`msg_${name}_`)) {
        return missing({ message: `Item with id '${named.id}' not found.`, param: "input", code: null })();
      }
      return buildResponse(`${name}_${++made}`);
    });
  }

  test("is found on the account where the conversation began, and from then on directly", async () => {
    const upstreams = ["a", "b"].map(keeper);
    const gateway = await start(upstreams);
    const asked = () => upstreams.reduce((sum, one) => sum + one.asked(), 0);
    for (let n = 0; n < 12; n++) {
      const first = { role: "user", content: `Conversation ${n}` };
      const begun = asRecord(
        await (await gateway.send({ family: "responses", more: { input: [first] } })).json(),
      );
      const input: object[] = [first, { type: "item_reference", id: `msg_${String(begun.id).slice(5)}` }];
      for (const turn of [1, 2, 3]) {
        input.push({ role: "user", content: `Turn ${turn}` });
        const before = asked();
        const response = await gateway.send({ family: "responses", more: { input } });
        expect([n, turn, response.status]).toEqual([n, turn, 200]);
        await response.text();
        if (turn > 1) expect(asked() - before).toBe(1);
      }
    }
  });

  test("that no account has returns the upstream's error, without penalizing an account", async () => {
    const upstreams = ["a", "b"].map(keeper);
    const gateway = await start(upstreams);
    const input = [{ type: "item_reference", id: "msg_lost_1" }];
    for (const stream of [false, true]) {
      const error = await expectRejection(
        await gateway.send({ family: "responses", stream, more: { input } }),
        404,
      );
      expect(error).toMatchObject({ code: "not_found", message: "Item with id 'msg_lost_1' not found." });
    }
    expect(upstreams.map((one) => one.asked())).toEqual([2, 2]);
    expect((await gateway.send({ family: "responses" })).status).toBe(200);
  });
});

function chatResponse(): Response {
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "sim-fast",
    choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
}

function buildResponse(id: string): Response {
  return Response.json({
    id: `resp_${id}`,
    object: "response",
    created_at: 1,
    model: "sim-fast",
    status: "completed",
    output: [
      {
        id: `msg_${id}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "Hi", annotations: [] }],
      },
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  });
}

/** A 404 to a model call: something is missing, and the request says whether another account may have it. */

import { afterEach, describe, expect, test } from "bun:test";
import { refusalOf } from "../support/error-envelope.ts";
import { type PooledGateway, startPooledGateway } from "../support/pooled-gateway.ts";
import { recordOf } from "../support/sse-text.ts";

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

function upstream(answer: (body: Record<string, unknown>) => Response): Upstream {
  let asked = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      asked++;
      return answer(recordOf(await request.json()));
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

describe("an account whose address or model is wrong", () => {
  const cases: [name: string, error: object][] = [
    [
      "Ollama's words",
      { message: 'model "sim-fast" not found, try pulling it first', type: "not_found_error" },
    ],
    ["a base_url without /v1", { message: "Invalid URL (POST /chat/completions)", code: null }],
  ];

  test.each(cases)("is left alone for a while, and another serves: %s", async (_, error) => {
    const [wrong, good] = [upstream(missing(error)), upstream(chatAnswer)];
    const gateway = await start([wrong, good], false);
    for (let i = 0; i < 3; i++) expect((await gateway.ask({})).status).toBe(200);
    expect([wrong.asked(), good.asked()]).toEqual([1, 3]);
  });

  test.each(cases)("alone is told as what it is: %s", async (_, error) => {
    const gateway = await start([upstream(missing(error))]);
    for (let i = 0; i < 2; i++) {
      expect(await refusalOf(await gateway.ask({}), 503)).toMatchObject({ code: "no_available_account" });
    }
  });

  test("is asked again where it may lack only what this request asks for", async () => {
    const [picky, good] = [
      upstream(missing({ message: "No endpoints found that support tool use" })),
      upstream(chatAnswer),
    ];
    const gateway = await start([picky, good], false);
    for (let i = 0; i < 2; i++) expect((await gateway.ask({ more: { tools: TOOLS } })).status).toBe(200);
    expect([picky.asked(), good.asked()]).toEqual([2, 2]);
  });
});

describe("an item that one account keeps", () => {
  /** Each knows the items of its own responses, as at OpenAI. */
  function keeper(name: string): Upstream {
    let made = 0;
    return upstream(({ input }) => {
      const named = Array.isArray(input) ? input.find(({ type }) => type === "item_reference") : undefined;
      if (named !== undefined && !String(named.id).startsWith(`msg_${name}_`)) {
        return missing({ message: `Item with id '${named.id}' not found.`, param: "input", code: null })();
      }
      return responseOf(`${name}_${++made}`);
    });
  }

  test("is found wherever the conversation began, and from then on at once", async () => {
    const upstreams = ["a", "b"].map(keeper);
    const gateway = await start(upstreams);
    const asked = () => upstreams.reduce((sum, one) => sum + one.asked(), 0);
    for (let n = 0; n < 12; n++) {
      const first = { role: "user", content: `Conversation ${n}` };
      const begun = recordOf(
        await (await gateway.ask({ family: "responses", more: { input: [first] } })).json(),
      );
      const input: object[] = [first, { type: "item_reference", id: `msg_${String(begun.id).slice(5)}` }];
      for (const turn of [1, 2, 3]) {
        input.push({ role: "user", content: `Turn ${turn}` });
        const before = asked();
        const response = await gateway.ask({ family: "responses", more: { input } });
        expect([n, turn, response.status]).toEqual([n, turn, 200]);
        await response.text();
        if (turn > 1) expect(asked() - before).toBe(1);
      }
    }
  });

  test("and that is nowhere is told in the upstream's words, and nobody is blamed", async () => {
    const upstreams = ["a", "b"].map(keeper);
    const gateway = await start(upstreams);
    const input = [{ type: "item_reference", id: "msg_lost_1" }];
    for (const stream of [false, true]) {
      const error = await refusalOf(await gateway.ask({ family: "responses", stream, more: { input } }), 404);
      expect(error).toMatchObject({ code: "not_found", message: "Item with id 'msg_lost_1' not found." });
    }
    expect(upstreams.map((one) => one.asked())).toEqual([2, 2]);
    expect((await gateway.ask({ family: "responses" })).status).toBe(200);
  });
});

function chatAnswer(): Response {
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "sim-fast",
    choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
}

function responseOf(id: string): Response {
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

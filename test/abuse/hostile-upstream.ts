/**
 * An upstream that attacks the gateway, in a process of its own: the model of the request names the attack. Prints its
 * address as the first line.
 */

const MiB = 1024 * 1024;
const data = (json: unknown) => `data: ${JSON.stringify(json)}\n\n`;
const chat = (delta: object) => data({ id: "c", choices: [{ index: 0, delta }] });
const call = (members: object) => chat({ tool_calls: [members] });
const FINISH = `${data({ choices: [{ delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`;
const MESSAGE_START = data({
  type: "message_start",
  message: { id: "m", usage: { input_tokens: 1, output_tokens: 1 } },
});
const blockStart = (index: number, content_block: object) =>
  data({ type: "content_block_start", index, content_block });
const MESSAGE_END =
  data({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 5 } }) +
  data({ type: "message_stop" });

function* repeat(count: number, make: (at: number) => string): Generator<string> {
  for (let at = 0; at < count; at++) yield make(at);
}

/** The events of each attack, in the dialect of the account that has the model. */
const ATTACKS: Readonly<Record<string, () => Generator<string>>> = {
  *"calls-without-names"() {
    yield* repeat(200_000, (index) => call({ index, function: { arguments: "x" } }));
    yield FINISH;
  },
  *"arguments-without-a-name"() {
    yield* repeat(600_000, () => call({ index: 0, function: { arguments: "xy" } }));
    yield FINISH;
  },
  /** The names that the gateway would choose are taken. */
  *"colliding-call-ids"() {
    const taken = 6_000;
    const named = (index: number, id: string) =>
      call({ index, id, function: { name: "f", arguments: "{}" } });
    yield* repeat(taken, (index) => named(index, `a_${taken + index}`));
    yield* repeat(taken, (index) => named(taken + index, "a"));
    yield FINISH;
  },
  *"open-calls"() {
    yield* repeat(30_000, (index) =>
      call({ index, id: `c${index}`, function: { name: "f", arguments: "{" } }),
    );
    yield FINISH;
  },
  *annotations() {
    yield chat({ content: "Hello" });
    yield* repeat(30_000, (at) =>
      chat({ annotations: [{ type: "url_citation", url_citation: { url: `https://${at}.example` } }] }),
    );
    yield FINISH;
  },
  *"an-event-of-objects"() {
    yield `data: {"choices":[{"delta":{"content":"Hi"},"x":[${"{},".repeat((12 * MiB) / 3)}{}]}]}\n\n`;
    yield FINISH;
  },
  *"an-event-of-escapes"() {
    yield `data: {"choices":[{"delta":{"content":"${'\\"'.repeat(6 * MiB)}"}}]}\n\n`;
    yield FINISH;
  },
  *"open-blocks"() {
    yield MESSAGE_START;
    yield* repeat(30_000, (index) =>
      blockStart(index, { type: "tool_use", id: `t${index}`, name: "f", input: {} }),
    );
    yield MESSAGE_END;
  },
  *citations() {
    yield MESSAGE_START;
    yield blockStart(0, { type: "text", text: "word ".repeat(20_000) });
    yield* repeat(1_000, (at) =>
      data({
        type: "content_block_delta",
        index: 0,
        delta: { type: "citations_delta", citation: { url: `https://${at}.example`, title: "" } },
      }),
    );
    yield data({ type: "content_block_stop", index: 0 });
    yield MESSAGE_END;
  },
  /** A long event that names its delta again and again. */
  *"repeated-deltas"() {
    yield chat({ content: "Hello" });
    const text = "a".repeat(1_100_000);
    yield `data: {"choices":[{"delta":{"content":"${text}"},"x":{${'"delta":1,'.repeat(32_000)}"z":1}}]}\n\n`;
    yield FINISH;
  },
  *"usage-after-passes"() {
    yield MESSAGE_START;
    const pass = { input_tokens: 1, output_tokens: 1, model: "a" };
    const iterations = Array(1_000).fill(pass);
    yield data({ type: "message_delta", usage: { output_tokens: 1, iterations } });
    yield* repeat(4_000, () => data({ type: "message_delta", usage: { output_tokens: 1 } }));
    yield MESSAGE_END;
  },
  *"usage-members"() {
    yield MESSAGE_START;
    yield* repeat(10_000, (at) =>
      data({ type: "message_delta", usage: { [`m${at}`]: at, output_tokens: 1 } }),
    );
    yield MESSAGE_END;
  },
  *"searches-in-progress"() {
    yield MESSAGE_START;
    for (let index = 0; index < 60_000; index++) {
      yield blockStart(index, { type: "server_tool_use", id: `s${index}`, name: "web_search", input: {} });
      yield data({ type: "content_block_stop", index });
    }
    yield MESSAGE_END;
  },
  *"parts-of-reasoning"() {
    yield data({ type: "response.created", response: { id: "r" } });
    yield* repeat(150_000, (summary_index) =>
      data({ type: "response.reasoning_summary_text.delta", output_index: 0, summary_index, delta: "x" }),
    );
    yield data({ type: "response.completed", response: { status: "completed", output: [] } });
  },
  *"short-parts"() {
    yield data({
      candidates: [{ content: { parts: Array.from({ length: 16_000 }, () => ({ text: "a" })) } }],
    });
    yield data({ candidates: [{ finishReason: "STOP" }], usageMetadata: { totalTokenCount: 5 } });
  },
  *sources() {
    const text = "word ".repeat(20_000);
    yield data({ candidates: [{ content: { parts: [{ text }] } }] });
    const groundingSupports = Array.from({ length: 10_000 }, (_, at) => ({
      segment: { startIndex: at, endIndex: text.length - at },
      groundingChunkIndices: [0],
    }));
    const groundingMetadata = { groundingChunks: [{ web: { uri: "https://a.example" } }], groundingSupports };
    yield data({
      candidates: [{ finishReason: "STOP", groundingMetadata }],
      usageMetadata: { promptTokenCount: 1, totalTokenCount: 5 },
    });
  },
};

async function findAttack(request: Request): Promise<string> {
  const inPath = /\/models\/([\w-]+):/.exec(new URL(request.url).pathname)?.[1];
  return inPath ?? ((await request.json()) as { model: string }).model;
}

let sentBytes = 0;

/** Pieces of 64 KiB, as fast as the gateway reads them. */
function toStream(events: Generator<string>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull(controller) {
      let text = "";
      while (text.length < 64 * 1024) {
        const { value, done } = events.next();
        if (done) {
          if (text !== "") controller.enqueue(Buffer.from(text));
          controller.close();
          return;
        }
        text += value;
      }
      sentBytes += text.length;
      controller.enqueue(Buffer.from(text));
    },
  });
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    if (request.method === "GET") {
      const sent = sentBytes;
      sentBytes = 0;
      return Response.json({ sent });
    }
    const attack = ATTACKS[await findAttack(request)];
    if (attack === undefined) return new Response("no such attack", { status: 404 });
    return new Response(toStream(attack()), { headers: { "content-type": "text/event-stream" } });
  },
});
console.log(server.url.origin);

/** An upstream that responds with given texts and never reports usage. */

import { piecesAtRandom } from "../../src/gateway/metering/corpus.test-support.ts";

export interface CorpusUpstream {
  url: string;
  stop(): Promise<void>;
}

interface Wanted {
  model: string;
  stream?: boolean;
  /** The number of the text. */
  user: string;
}

export function startCorpusUpstream(texts: readonly string[], random: () => number): CorpusUpstream {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const wanted: Wanted = JSON.parse(await request.text());
      const said = texts[Number(wanted.user)] ?? "";
      const isChat = request.url.endsWith("/chat/completions");
      if (wanted.stream !== true) {
        return Response.json(isChat ? completion(wanted, said) : response(wanted, "completed", said));
      }
      const pieces = piecesAtRandom(said, random);
      const events = isChat ? chatEvents(wanted, pieces) : responseEvents(wanted, pieces, said);
      return new Response(events.map((event) => `${event}\n\n`).join(""), {
        headers: { "content-type": "text/event-stream" },
      });
    },
  });
  return { url: `http://127.0.0.1:${server.port}/v1`, stop: () => server.stop(true) };
}

function completion({ model }: Wanted, said: string): object {
  const message = { role: "assistant", content: said };
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    model,
    choices: [{ index: 0, message, finish_reason: "stop" }],
  };
}

function chatEvents({ model }: Wanted, pieces: readonly string[]): string[] {
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", model, choices: [{ index: 0, delta, finish_reason }] })}`;
  const said = pieces.map((content) => chunk({ content }, null));
  return [chunk({ role: "assistant", content: "" }, null), ...said, chunk({}, "stop"), "data: [DONE]"];
}

function response({ model }: Wanted, status: string, said: string): object {
  const content = [{ type: "output_text", text: said, annotations: [] }];
  const output = [{ id: "msg_1", type: "message", role: "assistant", status, content }];
  return { id: "resp_1", object: "response", status, model, output: status === "completed" ? output : [] };
}

function responseEvents(wanted: Wanted, pieces: readonly string[], said: string): string[] {
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const events: { type: string; [field: string]: unknown }[] = [
    { type: "response.created", response: response(wanted, "in_progress", "") },
    ...pieces.map((delta) => ({ type: "response.output_text.delta", ...place, delta })),
    { type: "response.output_text.done", ...place, text: said },
    { type: "response.completed", response: response(wanted, "completed", said) },
  ];
  return events.map(
    (event, sequence_number) =>
      `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}`,
  );
}

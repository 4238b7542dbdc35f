/** What the compliance suite of Open Responses asks of a server, each as one conversation with it. */

import { expect } from "bun:test";
import { eventsIn } from "../sse-text.ts";
import type { SocketClient, Turn } from "../turn-client.ts";
import { compactionObject, type ResponseObject, readEvents, responseObject } from "./open-responses.ts";

export interface Server {
  model: string;
  post(path: string, body: object): Promise<Response>;
  open(): Promise<SocketClient>;
}

type Behaviour = (server: Server) => Promise<void>;

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

const WEATHER = {
  type: "function",
  name: "get_weather",
  description: "Tells the weather at a place",
  parameters: { type: "object", properties: { location: { type: "string" } }, required: ["location"] },
};

const message = (role: string, content: unknown, more: object = {}) => ({
  type: "message",
  role,
  content,
  ...more,
});
const user = (text: string) => message("user", [{ type: "input_text", text }]);

async function ask(server: Server, body: object): Promise<ResponseObject> {
  const response = await server.post("/v1/responses", { model: server.model, ...body });
  const answer: unknown = await response.json();
  expect([response.status, answer]).toEqual([200, answer]);
  return responseObject.parse(answer);
}

async function askStream(server: Server, body: object): Promise<ReturnType<typeof readEvents>> {
  const response = await server.post("/v1/responses", { model: server.model, stream: true, ...body });
  const sent = eventsIn(await response.text());
  expect(sent.at(-1)?.data).toBe("[DONE]");
  return readEvents(
    sent.slice(0, -1).map(({ type, data }) => {
      const event: unknown = JSON.parse(data);
      expect(event).toMatchObject({ type });
      return event;
    }),
  );
}

function expectAnswer(response: ResponseObject): void {
  expect(response.status).toBe("completed");
  expect(response.output.length).toBeGreaterThan(0);
}

/** Of a turn over a socket: every event in its shape, and an answer at the end. */
function expectTurn({ events }: Pick<Turn, "events">): ResponseObject {
  const { final } = readEvents(events);
  expectAnswer(final);
  return final;
}

function expectNotFound({ events, last }: Turn): void {
  expect(last).toMatchObject({
    type: "error",
    status: 400,
    sequence_number: expect.any(Number),
    error: { code: "previous_response_not_found", param: "previous_response_id" },
  });
  expect(events).toHaveLength(1);
}

async function onSocket(server: Server, run: (socket: SocketClient) => Promise<void>): Promise<void> {
  const socket = await server.open();
  try {
    await run(socket);
  } finally {
    socket.close();
  }
}

const OVER_HTTP: Readonly<Record<string, Behaviour>> = {
  "a message is answered": async (server) => {
    expectAnswer(await ask(server, { input: [user("Say hello in three words.")] }));
  },

  "assistant messages may say their phase": async (server) => {
    const input = [
      user("Where is the fault?"),
      message("assistant", "Looking at the log.", { phase: "commentary" }),
      message("assistant", "In the second step.", { phase: "final_answer" }),
      user("Thank you. And the third?"),
    ];
    expectAnswer(await ask(server, { input }));
  },

  "a stream is whole": async (server) => {
    const { events, final } = await askStream(server, { input: [user("Count from 1 to 5.")] });
    expectAnswer(final);
    expect(events.map(({ type }) => type)).toContain("response.output_text.delta");
  },

  "a system prompt is taken": async (server) => {
    expectAnswer(
      await ask(server, { input: [message("system", "You are a pirate. Answer briefly."), user("Hello!")] }),
    );
  },

  "a tool is called": async (server) => {
    const { output } = await ask(server, {
      input: [user("What is the weather in Paris?")],
      tools: [WEATHER],
    });
    expect(output.map(({ type }) => type)).toContain("function_call");
  },

  "a tool is called in a stream": async (server) => {
    const { events } = await askStream(server, {
      input: [user("What is the weather in Paris?")],
      tools: [WEATHER],
    });
    const items = events.flatMap((event) => ("item" in event ? [`${event.type} ${event.item.type}`] : []));
    expect(items).toContain("response.output_item.added function_call");
    expect(items).toContain("response.output_item.done function_call");
    const types = events.map(({ type }) => type);
    expect(types).toContain("response.function_call_arguments.delta");
    expect(types).toContain("response.function_call_arguments.done");
  },

  "an image is taken": async (server) => {
    const content = [
      { type: "input_text", text: "What is this?" },
      { type: "input_image", image_url: PIXEL },
    ];
    expectAnswer(await ask(server, { input: [message("user", content)] }));
  },

  "a conversation is taken": async (server) => {
    const input = [
      message("user", "My name is Alice."),
      message("assistant", "Hello Alice."),
      message("user", "What is my name?"),
    ];
    expectAnswer(await ask(server, { input }));
  },

  "a conversation is made compact": async (server) => {
    await compact(server);
  },

  "compacting needs a model": async (server) => {
    const response = await server.post("/v1/responses/compact", { input: [user("Hello")] });
    await response.arrayBuffer();
    expect(response.status).toBe(400);
  },
};

async function compact(server: Server): Promise<readonly unknown[]> {
  const input = [message("user", "We chose SQLite."), message("assistant", "Noted.")];
  const body = { model: server.model, input, prompt_cache_key: "compliance" };
  const response = await server.post("/v1/responses/compact", body);
  expect(response.status).toBe(200);
  const { output } = compactionObject.parse(await response.json());
  expect(output.map(({ type }) => type)).toContain("compaction");
  return output;
}

const OVER_A_SOCKET: Readonly<Record<string, Behaviour>> = {
  "a socket: a message is answered": (server) =>
    onSocket(server, async (socket) => {
      expectTurn(await socket.turn({ model: server.model, input: [user("Hello")] }));
    }),

  "a socket: two requests are answered one after the other": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false };
      // The second is sent before the first has its answer.
      socket.create({ ...request, input: "Say one." });
      socket.create({ ...request, input: "Say two." });
      const turns = [await socket.until("response.completed"), await socket.until("response.completed")];
      const ids = turns.map((events) => expectTurn({ events }).id);
      expect(new Set(ids).size).toBe(2);
    }),

  "a socket: a response is continued": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false };
      const first = expectTurn(await socket.turn({ ...request, input: "My name is Alice." }));
      const second = await socket.turn({
        ...request,
        previous_response_id: first.id,
        input: "What is my name?",
      });
      expect(expectTurn(second).previous_response_id).toBe(first.id);
    }),

  "a socket: a tool's output continues its call": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false, tools: [WEATHER] };
      const first = expectTurn(await socket.turn({ ...request, input: "What is the weather in Paris?" }));
      const call = first.output.find((item) => item.type === "function_call");
      const second = await socket.turn({
        ...request,
        previous_response_id: first.id,
        input: [{ type: "function_call_output", call_id: call?.call_id, output: "Raining frogs" }],
      });
      expect(JSON.stringify(expectTurn(second).output)).toContain("Raining frogs");
    }),

  "a socket: what was not stored is gone with its connection, which is fit for a new beginning": async (
    server,
  ) => {
    const request = { model: server.model, store: false };
    let id = "";
    await onSocket(server, async (socket) => {
      id = expectTurn(await socket.turn({ ...request, input: "Remember 42." })).id;
    });
    await onSocket(server, async (socket) => {
      expectNotFound(await socket.turn({ ...request, previous_response_id: id, input: "Which number?" }));
      expectTurn(await socket.turn({ ...request, input: "Remember 42. Which number?" }));
    });
  },

  "a socket: an unknown response cannot be continued": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false, previous_response_id: "resp_unknown" };
      expectNotFound(await socket.turn({ ...request, input: "Hello" }));
    }),

  "a socket: a continuation that failed takes its beginning with it": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false };
      const { id } = expectTurn(await socket.turn({ ...request, input: "Hello" }));
      const orphan = { type: "function_call_output", call_id: "call_of_nobody", output: "{}" };
      const failed = await socket.turn({ ...request, previous_response_id: id, input: [orphan] });
      expect(failed.last).toMatchObject({ type: "error", status: 400 });
      expectNotFound(await socket.turn({ ...request, previous_response_id: id, input: "Again" }));
    }),

  "a socket: a compact conversation begins a new one": (server) =>
    onSocket(server, async (socket) => {
      const input = [...(await compact(server)), user("What did we choose?")];
      expectTurn(await socket.turn({ model: server.model, store: false, input }));
    }),

  "a socket: a warm-up is answered, and continued": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false };
      const warm = await socket.turn({ ...request, generate: false, input: [] });
      const { final } = readEvents(warm.events);
      expect(final).toMatchObject({ status: "completed", output: [] });
      expectTurn(await socket.turn({ ...request, previous_response_id: final.id, input: [user("Hello")] }));
    }),
};

export const BEHAVIOURS: Readonly<Record<string, Behaviour>> = { ...OVER_HTTP, ...OVER_A_SOCKET };

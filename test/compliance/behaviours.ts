/** The requirements of the Open Responses compliance suite, each as one conversation with the server. */

import { expect } from "bun:test";
import { eventsIn } from "../support/sse-text.ts";
import type { SocketClient, Turn } from "../support/turn-client.ts";
import {
  compactionObject,
  errorObject,
  type ResponseObject,
  readEvents,
  responseObject,
  socketError,
} from "./open-responses.ts";

export interface Server {
  /** Calls tools. */
  model: string;
  /** Reasons before it responds. */
  reasoningModel: string;
  /** Each fails in its own way in the middle of its response. */
  failingModels: readonly string[];
  post(path: string, body: object): Promise<Response>;
  open(): Promise<SocketClient>;
}

type Behaviour = (server: Server) => Promise<void>;

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

const WEATHER = {
  type: "function",
  name: "get_weather",
  description: "Returns the weather at a place",
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
  const received: unknown = await response.json();
  expect([response.status, received]).toEqual([200, received]);
  return responseObject.parse(received);
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

function expectResponse(response: ResponseObject): void {
  expect(response.status).toBe("completed");
  expect(response.output.length).toBeGreaterThan(0);
}

/** A turn over a WebSocket: every event matches its schema, and the last one has a response. */
function expectTurn({ events }: Pick<Turn, "events">): ResponseObject {
  const { final } = readEvents(events);
  expectResponse(final);
  return final;
}

function expectNotFound({ events, last }: Turn): void {
  socketError.parse(last);
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
    expectResponse(await ask(server, { input: [user("Say hello in three words.")] }));
  },

  "assistant messages may say their phase": async (server) => {
    const input = [
      user("Where is the fault?"),
      message("assistant", "Looking at the log.", { phase: "commentary" }),
      message("assistant", "In the second step.", { phase: "final_answer" }),
      user("Thank you. And the third?"),
    ];
    expectResponse(await ask(server, { input }));
  },

  "a stream is whole": async (server) => {
    const { events, final } = await askStream(server, { input: [user("Count from 1 to 5.")] });
    expectResponse(final);
    expect(events.map(({ type }) => type)).toContain("response.output_text.delta");
  },

  "a system prompt is taken": async (server) => {
    expectResponse(
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
    expectResponse(await ask(server, { input: [message("user", content)] }));
  },

  "a conversation is taken": async (server) => {
    const input = [
      message("user", "My name is Alice."),
      message("assistant", "Hello Alice."),
      message("user", "What is my name?"),
    ];
    expectResponse(await ask(server, { input }));
  },

  "a conversation is made compact": async (server) => {
    await compact(server);
  },

  "a tool may leave out what is optional, and is repeated in full": async (server) => {
    const { tools } = await ask(server, { input: "Hello", tools: [{ type: "function", name: "look" }] });
    expect(tools).toEqual([
      { type: "function", name: "look", description: null, parameters: null, strict: null },
    ]);
  },

  "settings are repeated in full, in every event of a stream": async (server) => {
    const schema = { type: "object", properties: { response: { type: "string" } } };
    const settings = {
      instructions: "Be brief.",
      tools: [WEATHER],
      tool_choice: { type: "allowed_tools", tools: [{ type: "function", name: "get_weather" }] },
      reasoning: { effort: "low" },
      text: { format: { type: "json_schema", name: "reply", schema }, verbosity: "low" },
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      max_output_tokens: 200,
      max_tool_calls: 3,
      metadata: { purpose: "compliance" },
      parallel_tool_calls: false,
      prompt_cache_key: "compliance",
      safety_identifier: "someone",
      truncation: "auto",
      store: false,
    };
    const { events, final } = await askStream(server, { ...settings, input: "Hello" });
    const echo = {
      ...settings,
      tools: [{ ...WEATHER, strict: null }],
      tool_choice: { ...settings.tool_choice, mode: "auto" },
      reasoning: { effort: "low", summary: null },
      text: { format: { ...settings.text.format, description: null, strict: false }, verbosity: "low" },
    };
    expect(final).toMatchObject(echo);
    expect(events[0]).toMatchObject({ type: "response.created", response: echo });
    expect(await ask(server, { ...settings, input: "Hello" })).toMatchObject(echo);
  },

  "a named tool is called for every prompt": async (server) => {
    const tools = [WEATHER, { type: "function", name: "look_up" }];
    const tool_choice = { type: "function", name: "look_up" };
    const { output } = await ask(server, { input: "Hello", tools, tool_choice });
    expect(output).toMatchObject([{ type: "function_call", name: "look_up" }]);
    const { final } = await askStream(server, { input: "Hello", tools, tool_choice });
    expect(final.output).toMatchObject([{ type: "function_call", name: "look_up" }]);
  },

  "reasoning has its own item and events": async (server) => {
    const request = { model: server.reasoningModel, input: "Why?", include: ["reasoning.encrypted_content"] };
    const { output } = await ask(server, request);
    expect(output).toMatchObject([
      { type: "reasoning", encrypted_content: expect.any(String) },
      { type: "message" },
    ]);
    const { events, final } = await askStream(server, request);
    expectResponse(final);
    expect(events.map(({ type }) => type)).toContain("response.reasoning_summary_text.delta");
  },

  "log probabilities come with the text": async (server) => {
    const request = { input: "Hello", include: ["message.output_text.logprobs"], top_logprobs: 2 };
    const { output } = await ask(server, request);
    const { events, final } = await askStream(server, request);
    for (const item of [output[0], final.output[0]]) {
      const [part] = item?.type === "message" ? item.content : [];
      if (part?.type !== "output_text") throw new Error("there is no text");
      const tokens = part.logprobs ?? [];
      expect(tokens.map(({ token }) => token).join("")).toBe(part.text);
      expect(tokens.every(({ top_logprobs }) => top_logprobs.length === 2)).toBe(true);
    }
    const deltas = events.filter((one) => one.type === "response.output_text.delta");
    for (const { delta, logprobs } of deltas) {
      expect(logprobs?.map(({ token }) => token).join("")).toBe(delta);
    }
  },

  "a truncated response is marked as incomplete": async (server) => {
    const request = { input: "Tell me a long story.", max_output_tokens: 16 };
    const cutOff = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
    expect(await ask(server, request)).toMatchObject(cutOff);
    const { events, final } = await askStream(server, request);
    expect(final).toMatchObject(cutOff);
    expect(events.at(-1)?.type).toBe("response.incomplete");
    expect(final.output.at(-1)).toMatchObject({ status: "incomplete" });
  },

  "an answer that fails ends with response.failed": async (server) => {
    for (const model of server.failingModels) {
      const { events, final } = await askStream(server, { model, input: "Hello" });
      expect(final).toMatchObject({ model, status: "failed", error: { code: expect.any(String) } });
      expect(events.at(-1)?.type).toBe("response.failed");
    }
  },

  "a background response is queued, and has to be stored": async (server) => {
    const request = { model: server.model, input: "Hello", background: true };
    const queued = await ask(server, request);
    expect(queued).toMatchObject({ status: "queued", background: true, output: [] });
    const response = await server.post("/v1/responses", { ...request, store: false });
    expect(response.status).toBe(400);
    const { error } = errorObject.parse(await response.json());
    expect(error).toMatchObject({ type: "invalid_request_error", param: "background" });
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
      // The second is sent before the first has its response.
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

  "a socket: a response in the background is refused": (server) =>
    onSocket(server, async (socket) => {
      const { last } = await socket.turn({ model: server.model, input: "Hello", background: true });
      const { status, error } = socketError.parse(last);
      expect([status, error.param]).toEqual([400, "background"]);
      expectTurn(await socket.turn({ model: server.model, input: "Hello" }));
    }),

  "a socket: reasoning, log probabilities and cut answers have the events of a stream": (server) =>
    onSocket(server, async (socket) => {
      const include = ["message.output_text.logprobs", "reasoning.encrypted_content"];
      const request = { model: server.reasoningModel, store: false, input: "Why?", include };
      expect(expectTurn(await socket.turn({ ...request, top_logprobs: 1 })).output).toHaveLength(2);
      const { final } = readEvents((await socket.turn({ ...request, max_output_tokens: 16 })).events);
      expect(final.status).toBe("incomplete");
    }),

  "a socket: an answer that fails ends with response.failed": (server) =>
    onSocket(server, async (socket) => {
      for (const model of server.failingModels) {
        const { events } = await socket.turn({ model, store: false, input: "Hello" });
        expect(readEvents(events).final.status).toBe("failed");
      }
    }),

  "a socket: a compact conversation begins a new one": (server) =>
    onSocket(server, async (socket) => {
      const input = [...(await compact(server)), user("What did we choose?")];
      expectTurn(await socket.turn({ model: server.model, store: false, input }));
    }),

  "a socket: a warm-up is answered, and continued": (server) =>
    onSocket(server, async (socket) => {
      const request = { model: server.model, store: false };
      const settings = { tools: [WEATHER], prompt_cache_key: "compliance", instructions: "Be brief." };
      const warm = await socket.turn({ ...request, ...settings, generate: false, input: [] });
      const { final } = readEvents(warm.events);
      expect(final).toMatchObject({ ...settings, status: "completed", output: [] });
      expectTurn(await socket.turn({ ...request, previous_response_id: final.id, input: [user("Hello")] }));
    }),
};

export const BEHAVIOURS: Readonly<Record<string, Behaviour>> = { ...OVER_HTTP, ...OVER_A_SOCKET };

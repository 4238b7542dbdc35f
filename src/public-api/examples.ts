/** Examples. A test validates each against its schema and sends the requests to a gateway. */

import { NO_LIMITS } from "../records/limits.ts";

const CREATED = 1_794_700_800;
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const model = {
  id: "fast-chat",
  object: "model",
  type: "model",
  display_name: "fast-chat",
  created: CREATED,
  created_at: "2026-11-15T00:00:00Z",
  owned_by: "model-gateway",
  interfaces: ["chat", "responses"],
  translated_interfaces: [],
};
export const models = {
  object: "list",
  data: [model, { ...model, id: "embed-small", display_name: "embed-small", interfaces: ["embeddings"] }],
  has_more: false,
  first_id: "fast-chat",
  last_id: "embed-small",
};

export const responseRequest = { model: "fast-chat", input: "Say hello in one word." };

export const responseWithTools = {
  model: "fast-chat",
  input: [{ role: "user", content: "What is the weather in Bern?" }],
  tools: [
    {
      type: "function",
      name: "get_weather",
      description: "The weather of a place.",
      parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
    },
  ],
};

const message = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Hello", annotations: [] }],
};

export const response = {
  id: "resp_0199f3c5",
  object: "response",
  created_at: CREATED,
  status: "completed",
  model: "fast-chat",
  output: [message],
  error: null,
  incomplete_details: null,
  usage: {
    input_tokens: 12,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 14,
  },
};

export const responseEvent = {
  type: "response.output_text.delta",
  sequence_number: 4,
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta: "Hello",
  logprobs: [],
};

const inProgress = { ...response, status: "in_progress", output: [], usage: null };

export const responseStream = [
  event({ type: "response.created", sequence_number: 0, response: inProgress }),
  event(responseEvent),
  event({ type: "response.completed", sequence_number: 9, response }),
  "data: [DONE]\n\n",
].join("");

export const inputTokens = { object: "response.input_tokens", input_tokens: 12 };

export const compactRequest = {
  model: "fast-chat",
  input: [
    { role: "user", content: "Hello" },
    { role: "assistant", content: "Hello, how can I help?" },
  ],
};

export const compaction = {
  id: "resp_0199f3c6",
  object: "response.compaction",
  created_at: CREATED,
  output: [{ type: "compaction", id: "cmp_1", encrypted_content: "…" }],
  usage: response.usage,
};

export const deletedResponse = { id: "resp_0199f3c5", object: "response", deleted: true };

export const items = {
  object: "list",
  data: [
    { id: "msg_0", type: "message", role: "user", content: [{ type: "input_text", text: "Say hello." }] },
  ],
  first_id: "msg_0",
  last_id: "msg_0",
  has_more: false,
};

export const chatRequest = {
  model: "fast-chat",
  messages: [{ role: "user", content: "Say hello in one word." }],
};

const chatUsage = { prompt_tokens: 12, completion_tokens: 2, total_tokens: 14 };

export const chatCompletion = {
  id: "chatcmpl-0199f3c5",
  object: "chat.completion",
  created: CREATED,
  model: "fast-chat",
  choices: [
    { index: 0, message: { role: "assistant", content: "Hello" }, logprobs: null, finish_reason: "stop" },
  ],
  usage: chatUsage,
};

function chatChunk(delta: object, finishReason: string | null) {
  return {
    id: "chatcmpl-0199f3c5",
    object: "chat.completion.chunk",
    created: CREATED,
    model: "fast-chat",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}

export const chatStream = [
  data(chatChunk({ role: "assistant", content: "" }, null)),
  data(chatChunk({ content: "Hello" }, null)),
  data(chatChunk({}, "stop")),
  "data: [DONE]\n\n",
].join("");

export const messageRequest = {
  model: "fast-chat",
  max_tokens: 1_024,
  messages: [{ role: "user", content: "Say hello in one word." }],
};

export const messageResponse = {
  id: "msg_0199f3c5",
  type: "message",
  role: "assistant",
  model: "fast-chat",
  content: [{ type: "text", text: "Hello" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: {
    input_tokens: 12,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 2,
  },
};

function messageEvent(type: string, fields: object): string {
  return `event: ${type}\n${data({ type, ...fields })}`;
}

export const messageStream = [
  messageEvent("message_start", { message: { ...messageResponse, content: [], stop_reason: null } }),
  messageEvent("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
  messageEvent("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hello" } }),
  messageEvent("content_block_stop", { index: 0 }),
  messageEvent("message_delta", {
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 2 },
  }),
  messageEvent("message_stop", {}),
].join("");

export const countTokensRequest = {
  model: "fast-chat",
  messages: [{ role: "user", content: "Say hello in one word." }],
};

export const tokenCount = { input_tokens: 12 };

export const embeddingsRequest = { model: "embed-small", input: "A text to embed." };

export const embeddings = {
  object: "list",
  data: [{ object: "embedding", index: 0, embedding: [0.0123, -0.0456, 0.0789] }],
  model: "embed-small",
  usage: { prompt_tokens: 5, total_tokens: 5 },
};

export const imageRequest = { model: "painter", prompt: "A lighthouse at dawn", size: "1024x1024" };

export const imageEditRequest = {
  model: "painter",
  prompt: "Make it night",
  images: [{ image_url: `data:image/png;base64,${PIXEL}` }],
};

/** File names stand for the content of the files. */
export const imageEditForm = { model: "painter", prompt: "Make it night", image: "lighthouse.png" };

export const images = {
  created: CREATED,
  data: [{ b64_json: PIXEL }],
  usage: { input_tokens: 8, output_tokens: 272, total_tokens: 280 },
};

export const imageStream = event({
  type: "image_generation.completed",
  b64_json: PIXEL,
  created_at: CREATED,
  usage: images.usage,
});

const counts = {
  requests: 1,
  failed_requests: 0,
  refused_requests: 0,
  input_tokens: 12,
  cached_tokens: 0,
  cache_hit_rate: 0,
  cache_write_tokens: 0,
  output_tokens: 2,
  reasoning_tokens: 0,
  total_tokens: 14,
  images: 0,
  cost: "0.000003",
  charged: "0.000003",
};

const limitUsage = { limit: 60, used: 1, remaining: 59 };

export const usage = {
  object: "gateway.usage",
  version: 1,
  key: { id: "AbCd1234", name: "laptop", created_at: CREATED, expires_at: null },
  group: { name: "team", interfaces: ["chat", "responses"] },
  billing: {
    mode: "balance",
    currency: "USD",
    balance: "9.999997",
    held: "0.00",
    available: "9.999997",
    debt: "0.00",
  },
  limits: {
    key: { ...NO_LIMITS, rpm: { ...limitUsage, resets_at: CREATED + 60 }, concurrency: limitUsage },
    user: null,
    group: NO_LIMITS,
  },
  usage: {
    today: { since: CREATED, ...counts },
    range: {
      from: CREATED,
      to: CREATED + 86_400,
      granularity: "day",
      ...counts,
      by_model: [{ model: "fast-chat", ...counts }],
      points: [{ start: CREATED, ...counts }],
    },
    total: counts,
  },
  isValid: true,
  planName: "team",
  remaining: 9.999997,
  unit: "USD",
};

export const request = {
  object: "gateway.request",
  id: "req_0199f3c5",
  request_count: 1,
  created_at: CREATED,
  completed_at: CREATED,
  endpoint: "chat.completions",
  model: "fast-chat",
  stream: false,
  status: 200,
  outcome: "completed",
  error_code: null,
  usage: {
    input_tokens: 12,
    cached_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    image_input_tokens: 0,
    audio_input_tokens: 0,
    output_tokens: 2,
    reasoning_tokens: 0,
    audio_output_tokens: 0,
    images: 0,
    web_searches: 0,
    source: "upstream",
  },
  money: {
    currency: "USD",
    cost: "0.000003",
    charged: "0.000003",
    payer: "balance",
    flags: [],
    calculation: {
      multiplier: "1",
      lines: [
        { unit: "input", count: 12, price: "0.15", per: "1M tokens", long_context: false, cost: "0.0000018" },
        { unit: "output", count: 2, price: "0.60", per: "1M tokens", long_context: false, cost: "0.0000012" },
      ],
    },
  },
  timing: { waited_ms: 0, first_byte_ms: 210, duration_ms: 214 },
  attempts: [
    {
      number: 1,
      started_ms: 0,
      first_byte_ms: 210,
      status: 200,
      failure: null,
      translated_to: null,
      dropped: [],
      state_dropped: false,
    },
  ],
};

/** A named event, as Responses and Images stream them. */
function event(value: { type: string; [name: string]: unknown }): string {
  return `event: ${value.type}\n${data(value)}`;
}

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

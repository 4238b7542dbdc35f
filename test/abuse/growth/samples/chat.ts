/** Chat Completions documents that contain every place that can repeat. */

import type { DialectSamples } from "../sample.ts";
import { RESULT_SCHEMA, TOOL_SCHEMA } from "./schema.ts";

const EPHEMERAL = { cache_control: { type: "ephemeral" } };
const IMAGE = "data:image/png;base64,aGVsbG8=";

const CONVERSATION = [
  { role: "system", content: "Be brief." },
  { role: "developer", content: [{ type: "text", text: "Be kind.", ...EPHEMERAL }] },
  {
    role: "user",
    name: "dev",
    content: [
      { type: "text", text: "Hello" },
      { type: "image_url", image_url: { url: IMAGE, detail: "low" } },
      { type: "file", file: { file_data: "data:application/pdf;base64,aGVsbG8=", filename: "a.pdf" } },
    ],
  },
  {
    role: "assistant",
    content: "Looking",
    refusal: "",
    reasoning_content: "Hm",
    annotations: [
      {
        type: "url_citation",
        url_citation: { url: "https://a.example/", title: "A", start_index: 0, end_index: 3 },
      },
    ],
    tool_calls: [{ id: "call", type: "function", function: { name: "look_up", arguments: '{"path":"a"}' } }],
  },
  { role: "tool", tool_call_id: "call", content: [{ type: "text", text: "Found" }] },
  { role: "user", content: "Thanks" },
];

const FUNCTION_TOOL = {
  type: "function",
  function: { name: "look_up", description: "Looks up", parameters: TOOL_SCHEMA, strict: false },
  ...EPHEMERAL,
};

export const CHAT: DialectSamples = {
  requests: [
    {
      name: "conversation",
      json: {
        messages: CONVERSATION,
        tools: [FUNCTION_TOOL],
        tool_choice: {
          type: "allowed_tools",
          allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "look_up" } }] },
        },
        response_format: {
          type: "json_schema",
          json_schema: { name: "result", description: "The result", schema: RESULT_SCHEMA, strict: true },
        },
        stop: ["END"],
        metadata: { purpose: "test" },
        user: "dev",
        reasoning_effort: "low",
        verbosity: "low",
        service_tier: "auto",
        prompt_cache_key: "key",
        prompt_cache_retention: "24h",
        prompt_cache_options: { mode: "auto" },
        safety_identifier: "dev",
        stream_options: { include_usage: true },
        web_search_options: { user_location: { type: "approximate", approximate: { city: "Bern" } } },
      },
    },
    {
      name: "older fields",
      json: {
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Hello" },
              { type: "refusal", refusal: "No" },
            ],
          },
          { role: "assistant", reasoning: "Hm", function_call: { name: "look_up", arguments: "{}" } },
          { role: "function", name: "look_up", content: "Found" },
          {
            role: "assistant",
            tool_calls: [{ id: "free", type: "custom", custom: { name: "free", input: "text" } }],
          },
          { role: "tool", tool_call_id: "free", content: "Found" },
        ],
        functions: [{ name: "look_up", description: "Looks up", parameters: { type: "object" } }],
        function_call: { name: "look_up" },
        tools: [
          {
            type: "custom",
            custom: {
              name: "free",
              description: "Takes text",
              format: { type: "grammar", grammar: { syntax: "lark", definition: 'start: "a"' } },
            },
          },
          { type: "web_search" },
        ],
        response_format: { type: "json_object" },
        stop: "END",
      },
    },
    {
      name: "stored files and audio",
      json: {
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Hello" },
              { type: "input_audio", input_audio: { data: "aGVsbG8=", format: "wav" } },
              { type: "file", file: { file_id: "file" } },
            ],
          },
        ],
        response_format: { type: "text" },
        tool_choice: "required",
        tools: [{ type: "function", function: { name: "look_up" } }],
        logit_bias: { "50256": 1 },
        modalities: ["text"],
        prediction: { type: "content", content: [{ type: "text", text: "Hello" }] },
      },
    },
  ],
  responses: [
    {
      name: "completion",
      json: {
        id: "chatcmpl",
        object: "chat.completion",
        created: 1,
        model: "up",
        service_tier: "default",
        system_fingerprint: "fp",
        choices: [
          {
            index: 0,
            message: {
              role: "assistant",
              content: "Hello",
              refusal: "No",
              reasoning_content: "Hm",
              annotations: [
                {
                  type: "url_citation",
                  url_citation: { url: "https://a.example/", title: "A", start_index: 0, end_index: 3 },
                },
              ],
              tool_calls: [
                { id: "call", type: "function", function: { name: "look_up", arguments: '{"path":"a"}' } },
                { id: "free", type: "custom", custom: { name: "free", input: "text" } },
              ],
            },
            logprobs: {
              content: [
                {
                  token: "a",
                  logprob: -1,
                  bytes: [97],
                  top_logprobs: [{ token: "a", logprob: -1, bytes: [97] }],
                },
              ],
            },
            finish_reason: "tool_calls",
          },
        ],
        usage: usage(),
      },
    },
    {
      name: "parts",
      json: {
        id: "chatcmpl",
        created: 1,
        choices: [
          {
            message: {
              content: [
                { type: "text", text: "Hello" },
                { type: "thinking", thinking: [{ type: "text", text: "Hm" }] },
              ],
              images: [{ type: "image_url", image_url: { url: IMAGE } }],
              reasoning: "Hm",
              function_call: { name: "look_up", arguments: "{}" },
            },
            finish_reason: "stop",
          },
        ],
      },
    },
  ],
  streams: [
    {
      name: "chunks",
      head: [chunk({ delta: { role: "assistant", content: "" } })],
      events: [
        chunk({ delta: { reasoning_content: "Hm" } }),
        chunk({ delta: { reasoning: "Hm" } }),
        chunk({ delta: { content: "Hello" } }),
        chunk({ delta: { content: [{ type: "text", text: "Hello" }] } }),
        chunk({ delta: { content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }] } }),
        chunk({ delta: { refusal: "No" } }),
        chunk({
          delta: {
            annotations: [
              {
                type: "url_citation",
                url_citation: { url: "https://a.example/", title: "A", start_index: 0, end_index: 3 },
              },
            ],
          },
        }),
        chunk({
          delta: {
            tool_calls: [
              { index: 0, id: "call", type: "function", function: { name: "look_up", arguments: "" } },
            ],
          },
        }),
        chunk({ delta: { tool_calls: [{ index: 0, function: { arguments: '{"path":"a"}' } }] } }),
        chunk({ delta: { tool_calls: [{ id: "free", custom: { name: "free", input: "text" } }] } }),
        chunk({ delta: { tool_calls: [{ function: { arguments: "text" } }] } }),
        chunk({ delta: { function_call: { name: "look_up", arguments: "{}" } } }),
        chunk({
          delta: {},
          logprobs: {
            content: [{ token: "a", logprob: -1, bytes: [97], top_logprobs: [{ token: "a", logprob: -1 }] }],
          },
        }),
        { ...chunk({ delta: {} }), usage: usage() },
        { choices: [], x_groq: { id: "req", usage: usage() } },
      ],
      tail: [
        chunk({ delta: {}, finish_reason: "stop" }),
        { id: "chatcmpl", choices: [], usage: usage() },
        "[DONE]",
      ],
    },
    {
      name: "a failure",
      head: [chunk({ delta: { content: "Hello" } })],
      events: [],
      tail: [{ type: "error", error: { message: "No", type: "server_error", code: "error", param: "a" } }],
    },
  ],
};

function chunk(choice: object): Record<string, unknown> {
  return {
    id: "chatcmpl",
    object: "chat.completion.chunk",
    created: 1,
    model: "up",
    choices: [{ index: 0, ...choice }],
  };
}

function usage(): object {
  return {
    prompt_tokens: 9,
    completion_tokens: 9,
    total_tokens: 18,
    prompt_tokens_details: { cached_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 1 },
  };
}

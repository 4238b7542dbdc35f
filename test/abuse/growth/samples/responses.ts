/** Responses documents that contain every place that can repeat. */

import type { DialectSamples } from "../sample.ts";
import { SMALL_SCHEMA } from "./schema.ts";

const ANNOTATIONS = [
  { type: "url_citation", url: "https://a.example/", title: "A", start_index: 0, end_index: 3 },
  { type: "file_citation", file_id: "file", filename: "a.txt", index: 0 },
];
const LOGPROBS = [
  { token: "a", logprob: -1, bytes: [97], top_logprobs: [{ token: "a", logprob: -1, bytes: [97] }] },
];
const FUNCTION_TOOL = {
  type: "function",
  name: "look_up",
  description: "Looks up",
  parameters: SMALL_SCHEMA,
  strict: false,
  allowed_callers: ["direct"],
};
const CUSTOM_TOOL = {
  type: "custom",
  name: "free",
  description: "Takes text",
  format: { type: "grammar", syntax: "lark", definition: 'start: "a"' },
};

const OUTPUT = [
  {
    id: "rs",
    type: "reasoning",
    summary: [{ type: "summary_text", text: "Hm" }],
    content: [{ type: "reasoning_text", text: "Hm" }],
    encrypted_content: "c2VhbGVk",
  },
  {
    id: "msg",
    type: "message",
    status: "completed",
    role: "assistant",
    content: [
      { type: "output_text", text: "Hello", annotations: ANNOTATIONS, logprobs: LOGPROBS },
      { type: "refusal", refusal: "No" },
    ],
  },
  {
    id: "ws",
    type: "web_search_call",
    status: "completed",
    action: {
      type: "search",
      query: "hello",
      url: "https://a.example/",
      sources: [{ type: "url", url: "https://a.example/" }],
    },
  },
  {
    id: "fc",
    type: "function_call",
    call_id: "call",
    name: "look_up",
    namespace: "tools",
    arguments: '{"path":"a"}',
  },
  { id: "cc", type: "custom_tool_call", call_id: "free", name: "free", input: "text" },
];

const FAILURE = { type: "server_error", code: "server_error", message: "No", param: "a" };

export const RESPONSES: DialectSamples = {
  requests: [
    {
      name: "conversation",
      json: {
        input: [
          { role: "developer", content: "Be brief." },
          {
            type: "message",
            role: "user",
            content: [
              { type: "input_text", text: "Hello" },
              { type: "input_image", image_url: "data:image/png;base64,aGVsbG8=", detail: "low" },
              { type: "input_file", file_data: "data:application/pdf;base64,aGVsbG8=", filename: "a.pdf" },
            ],
          },
          {
            type: "reasoning",
            id: "rs",
            summary: [{ type: "summary_text", text: "Hm" }],
            content: [{ type: "reasoning_text", text: "Hm" }],
            encrypted_content: "c2VhbGVk",
          },
          {
            type: "message",
            id: "msg",
            role: "assistant",
            content: [
              { type: "output_text", text: "Looking", annotations: ANNOTATIONS, logprobs: LOGPROBS },
              { type: "refusal", refusal: "No" },
            ],
          },
          { type: "function_call", id: "fc", call_id: "call", name: "look_up", arguments: '{"path":"a"}' },
          { type: "function_call_output", call_id: "call", output: [{ type: "input_text", text: "Found" }] },
          { type: "custom_tool_call", id: "cc", call_id: "free", name: "free", input: "text" },
          { type: "custom_tool_call_output", call_id: "free", output: "Found" },
          { role: "system", content: [{ type: "text", text: "Be kind." }] },
          { role: "user", content: "Thanks" },
        ],
        instructions: "Be brief.",
        tools: [
          FUNCTION_TOOL,
          CUSTOM_TOOL,
          {
            type: "namespace",
            name: "tools",
            tools: [{ type: "function", name: "inner", parameters: { type: "object" } }],
          },
          {
            type: "web_search",
            filters: { allowed_domains: ["a.example"] },
            user_location: { type: "approximate", city: "Bern" },
          },
        ],
        tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "look_up" }] },
        text: {
          format: {
            type: "json_schema",
            name: "result",
            description: "The result",
            schema: SMALL_SCHEMA,
            strict: true,
          },
          verbosity: "low",
        },
        reasoning: { effort: "low", summary: "auto" },
        include: ["reasoning.encrypted_content"],
        metadata: { purpose: "test" },
        client_metadata: { client: "test" },
        user: "dev",
        safety_identifier: "dev",
        prompt_cache_key: "key",
        prompt_cache_retention: "24h",
        prompt_cache_options: { mode: "auto" },
        service_tier: "auto",
        truncation: "auto",
        store: false,
      },
    },
    {
      name: "built-in tools",
      json: {
        input: [
          { role: "user", content: "Hello" },
          {
            type: "local_shell_call",
            id: "ls",
            call_id: "local",
            action: { type: "exec", command: ["ls"], env: { A: "1" } },
          },
          { type: "local_shell_call_output", call_id: "local", output: "a" },
          { type: "shell_call", id: "sh", call_id: "shell", action: { commands: ["ls"] } },
          {
            type: "shell_call_output",
            call_id: "shell",
            output: [{ stdout: "a", stderr: "", outcome: { type: "exit" } }],
          },
          {
            type: "apply_patch_call",
            id: "ap",
            call_id: "patch",
            operation: { type: "create_file", path: "a", diff: "+a" },
          },
          { type: "apply_patch_call_output", call_id: "patch", status: "failed", output: "No" },
          { type: "tool_search_call", id: "ts", call_id: "search", arguments: { query: "a" } },
          {
            type: "tool_search_output",
            call_id: "search",
            tools: [{ type: "function", name: "found", parameters: { type: "object" } }],
          },
          {
            type: "additional_tools",
            tools: [{ type: "function", name: "more", parameters: { type: "object" } }],
          },
          {
            type: "web_search_call",
            id: "ws",
            action: { type: "search", query: "a", sources: [{ type: "url", url: "https://a.example/" }] },
          },
          { role: "user", content: "Thanks" },
        ],
        tools: [
          { type: "local_shell" },
          { type: "shell" },
          { type: "apply_patch" },
          {
            type: "tool_search",
            execution: "client",
            description: "Finds tools",
            parameters: { type: "object" },
          },
          { type: "function", name: "look_up", parameters: { type: "object" } },
        ],
        tool_choice: { type: "function", name: "look_up" },
        text: { format: { type: "json_object" } },
        reasoning: { generate_summary: "auto" },
        store: false,
      },
    },
    {
      name: "stored files and audio",
      json: {
        input: [
          {
            role: "user",
            content: [
              { type: "input_text", text: "Hello" },
              { type: "input_image", file_id: "file" },
              { type: "input_file", file_url: "https://a.example/a.pdf" },
              { type: "input_audio", input_audio: { data: "aGVsbG8=", format: "wav" } },
            ],
          },
        ],
        text: { format: { type: "text" } },
        tool_choice: "auto",
        store: false,
      },
    },
    { name: "text", json: { input: "Hello", store: false } },
  ],
  responses: [
    {
      name: "response",
      json: {
        ...response(OUTPUT),
        metadata: { purpose: "test" },
        tools: [FUNCTION_TOOL],
        instructions: "Be brief.",
      },
    },
    {
      name: "failed response",
      json: {
        ...response(OUTPUT),
        status: "failed",
        error: FAILURE,
        incomplete_details: { reason: "max_output_tokens" },
      },
    },
  ],
  streams: [
    {
      name: "events",
      head: [{ type: "response.created", response: response([]) }],
      events: [
        { type: "response.in_progress", response: response([]) },
        {
          type: "response.output_item.added",
          output_index: 0,
          item: { id: "rs", type: "reasoning", summary: [] },
        },
        {
          type: "response.reasoning_summary_part.added",
          item_id: "rs",
          output_index: 0,
          summary_index: 0,
          part: { type: "summary_text", text: "" },
        },
        {
          type: "response.reasoning_summary_text.delta",
          item_id: "rs",
          output_index: 0,
          summary_index: 0,
          delta: "Hm",
        },
        {
          type: "response.reasoning_text.delta",
          item_id: "rs",
          output_index: 0,
          content_index: 0,
          delta: "Hm",
        },
        { type: "response.output_item.done", output_index: 0, item: OUTPUT[0] },
        {
          type: "response.output_item.added",
          output_index: 1,
          item: { id: "msg", type: "message", role: "assistant", content: [] },
        },
        {
          type: "response.content_part.added",
          item_id: "msg",
          output_index: 1,
          content_index: 0,
          part: { type: "output_text", text: "" },
        },
        {
          type: "response.output_text.delta",
          item_id: "msg",
          output_index: 1,
          content_index: 0,
          delta: "Hello",
          logprobs: LOGPROBS,
        },
        {
          type: "response.output_text.annotation.added",
          item_id: "msg",
          output_index: 1,
          content_index: 0,
          annotation_index: 0,
          annotation: ANNOTATIONS[0],
        },
        { type: "response.refusal.delta", item_id: "msg", output_index: 1, content_index: 1, delta: "No" },
        {
          type: "response.output_text.done",
          item_id: "msg",
          output_index: 1,
          content_index: 0,
          text: "Hello",
        },
        { type: "response.output_item.done", output_index: 1, item: OUTPUT[1] },
        { type: "response.output_item.done", output_index: 2, item: OUTPUT[2] },
        { type: "response.output_item.added", output_index: 3, item: { ...OUTPUT[3], arguments: "" } },
        {
          type: "response.function_call_arguments.delta",
          item_id: "fc",
          output_index: 3,
          delta: '{"path":"a"}',
        },
        { type: "response.output_item.done", output_index: 3, item: OUTPUT[3] },
        { type: "response.output_item.added", output_index: 4, item: { ...OUTPUT[4], input: "" } },
        { type: "response.custom_tool_call_input.delta", item_id: "cc", output_index: 4, delta: "text" },
        { type: "response.output_item.done", output_index: 4, item: OUTPUT[4] },
      ],
      tail: [{ type: "response.completed", response: response(OUTPUT) }],
    },
    {
      name: "whole response at the end",
      head: [],
      events: [],
      tail: [{ type: "response.completed", response: response(OUTPUT) }],
    },
    {
      name: "an incomplete response",
      head: [{ type: "response.created", response: response([]) }],
      events: [
        {
          type: "response.output_text.delta",
          item_id: "msg",
          output_index: 0,
          content_index: 0,
          delta: "Hello",
        },
        { type: "response.metadata", metadata: { purpose: "test" } },
      ],
      tail: [
        {
          type: "response.incomplete",
          response: {
            ...response(OUTPUT),
            status: "incomplete",
            incomplete_details: { reason: "content_filter" },
          },
        },
      ],
    },
    {
      name: "a failed response",
      head: [{ type: "response.created", response: response([]) }],
      events: [],
      tail: [{ type: "response.failed", response: { ...response([]), status: "failed", error: FAILURE } }],
    },
    {
      name: "a failure",
      head: [],
      events: [],
      tail: [{ type: "error", message: "No", code: "server_error", param: "a", error: FAILURE }],
    },
  ],
};

function response(output: readonly object[]): Record<string, unknown> {
  return {
    id: "resp",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "up",
    output,
    service_tier: "default",
    usage: {
      input_tokens: 9,
      input_tokens_details: { cached_tokens: 1 },
      output_tokens: 9,
      output_tokens_details: { reasoning_tokens: 1 },
      total_tokens: 18,
    },
  };
}

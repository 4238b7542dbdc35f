/** Messages documents that contain every place that can repeat. */

import type { DialectSamples } from "../sample.ts";
import { SMALL_SCHEMA } from "./schema.ts";

const EPHEMERAL = { cache_control: { type: "ephemeral", ttl: "1h" } };
const CITATIONS = [
  {
    type: "web_search_result_location",
    url: "https://a.example/",
    title: "A",
    cited_text: "a",
    encrypted_index: "aQ==",
  },
  { type: "search_result_location", source: "https://a.example/", title: "A", cited_text: "a" },
  { type: "char_location", document_title: "A", cited_text: "a" },
];

const OUTPUT = [
  { type: "thinking", thinking: "Hm", signature: "c2ln" },
  { type: "redacted_thinking", data: "c2ln" },
  { type: "server_tool_use", id: "srv", name: "web_search", input: { query: "hello" } },
  {
    type: "web_search_tool_result",
    tool_use_id: "srv",
    content: [
      {
        type: "web_search_result",
        url: "https://a.example/",
        title: "A",
        encrypted_content: "c2ln",
        page_age: "1 day",
      },
    ],
  },
  { type: "text", text: "Hello", citations: CITATIONS },
  { type: "tool_use", id: "call", name: "look_up", input: { path: "a", lines: [1] } },
];

export const MESSAGES: DialectSamples = {
  requests: [
    {
      name: "conversation",
      json: {
        max_tokens: 100,
        system: [{ type: "text", text: "Be brief.", ...EPHEMERAL }],
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Hello", ...EPHEMERAL },
              { type: "image", source: { type: "base64", media_type: "image/png", data: "aGVsbG8=" } },
              {
                type: "document",
                title: "A",
                context: "About a",
                citations: { enabled: true },
                source: { type: "base64", media_type: "application/pdf", data: "aGVsbG8=" },
              },
              { type: "document", source: { type: "text", media_type: "text/plain", data: "Hello" } },
              { type: "document", source: { type: "content", content: [{ type: "text", text: "Hello" }] } },
              {
                type: "search_result",
                title: "A",
                source: "https://a.example/",
                content: [{ type: "text", text: "Hello" }],
                citations: { enabled: true },
              },
            ],
          },
          {
            role: "assistant",
            content: [
              { type: "thinking", thinking: "Hm", signature: "c2ln" },
              { type: "redacted_thinking", data: "c2ln" },
              { type: "text", text: "Looking", citations: CITATIONS },
              { type: "tool_use", id: "call", name: "look_up", input: { path: "a", lines: [1] } },
            ],
          },
          {
            role: "user",
            content: [
              {
                type: "tool_result",
                tool_use_id: "call",
                is_error: true,
                content: [
                  { type: "text", text: "Found" },
                  { type: "tool_reference", tool_name: "look_up" },
                ],
                ...EPHEMERAL,
              },
              { type: "text", text: "Thanks" },
            ],
          },
        ],
        tools: [
          {
            name: "look_up",
            description: "Looks up",
            input_schema: SMALL_SCHEMA,
            input_examples: [{ path: "a" }],
            allowed_callers: ["direct"],
            ...EPHEMERAL,
          },
          { type: "custom", name: "free", input_schema: { type: "object" } },
          { type: "bash_20250124", name: "bash" },
          {
            type: "web_search_20250305",
            name: "web_search",
            allowed_domains: ["a.example"],
            user_location: { type: "approximate", city: "Bern" },
          },
        ],
        tool_choice: { type: "auto", disable_parallel_tool_use: true },
        stop_sequences: ["END"],
        metadata: { user_id: "dev_session_0123456789" },
        output_config: { effort: "low", format: { type: "json_schema", schema: SMALL_SCHEMA } },
        service_tier: "auto",
        ...EPHEMERAL,
      },
    },
    {
      name: "texts",
      json: {
        max_tokens: 4000,
        system: "Be brief.",
        messages: [
          { role: "user", content: "Hello" },
          { role: "assistant", content: [{ type: "tool_use", id: "call", name: "look_up", input: {} }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "call", content: "Found" }] },
        ],
        tools: [{ name: "look_up", input_schema: { type: "object" } }],
        thinking: { type: "adaptive" },
      },
    },
    {
      name: "stored files",
      json: {
        max_tokens: 100,
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Hello" },
              { type: "image", source: { type: "url", url: "https://a.example/a.png" } },
              { type: "image", source: { type: "file", file_id: "file" } },
            ],
          },
        ],
        tools: [{ name: "look_up", input_schema: { type: "object" } }],
        tool_choice: { type: "tool", name: "look_up" },
        mcp_servers: [{ type: "url", url: "https://a.example/", name: "a", authorization_token: "t" }],
        container: "c",
      },
    },
  ],
  responses: [
    {
      name: "message",
      json: {
        id: "msg",
        type: "message",
        role: "assistant",
        model: "up",
        content: OUTPUT,
        stop_reason: "tool_use",
        stop_sequence: "END",
        usage: usage(),
      },
    },
  ],
  streams: [
    {
      name: "events",
      head: [
        {
          type: "message_start",
          message: {
            id: "msg",
            type: "message",
            role: "assistant",
            model: "up",
            content: [],
            usage: usage(),
          },
        },
      ],
      events: [
        {
          type: "content_block_start",
          index: 0,
          content_block: { type: "thinking", thinking: "", signature: "" },
        },
        { type: "ping" },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm" } },
        { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2ln" } },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: OUTPUT[1] },
        { type: "content_block_stop", index: 1 },
        { type: "content_block_start", index: 2, content_block: { ...OUTPUT[2], input: {} } },
        {
          type: "content_block_delta",
          index: 2,
          delta: { type: "input_json_delta", partial_json: '{"query":"hello"}' },
        },
        { type: "content_block_stop", index: 2 },
        { type: "content_block_start", index: 3, content_block: OUTPUT[3] },
        { type: "content_block_stop", index: 3 },
        {
          type: "content_block_start",
          index: 4,
          content_block: { type: "text", text: "", citations: CITATIONS },
        },
        { type: "content_block_delta", index: 4, delta: { type: "text_delta", text: "Hello" } },
        { type: "content_block_delta", index: 4, delta: { type: "citations_delta", citation: CITATIONS[0] } },
        { type: "content_block_stop", index: 4 },
        { type: "content_block_start", index: 5, content_block: { ...OUTPUT[5], input: {} } },
        {
          type: "content_block_delta",
          index: 5,
          delta: { type: "input_json_delta", partial_json: '{"path":"a"}' },
        },
        { type: "content_block_stop", index: 5 },
        { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: "END" }, usage: usage() },
      ],
      tail: [
        { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: usage() },
        { type: "message_stop" },
      ],
    },
    {
      name: "a failure",
      head: [],
      events: [],
      tail: [{ type: "error", error: { type: "overloaded_error", message: "No" }, request_id: "req" }],
    },
  ],
};

function usage(): object {
  return {
    input_tokens: 9,
    cache_read_input_tokens: 1,
    cache_creation_input_tokens: 1,
    output_tokens: 9,
    server_tool_use: { web_search_requests: 1 },
    service_tier: "standard",
  };
}

/** Clients of three APIs that carry the state of reasoning from turn to turn, and send the whole conversation each time. */

export type Json = Record<string, unknown>;

export const VENDORS = ["openai", "anthropic", "google"] as const;
export type Vendor = (typeof VENDORS)[number];

const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const TOOL = { name: "get_weather", description: "Tells the weather" };

/** A client of one API that keeps the conversation itself and sends all of it each time. */
export interface StateClient {
  readonly vendor: Vendor;
  readonly path: (model: string) => string;
  ask(text: string): void;
  body(model: string): Json;
  /** Adds the response to the conversation, and the results of its calls. Returns the number of calls. */
  take(response: Json): number;
}

const list = (value: unknown) => (Array.isArray(value) ? (value as Json[]) : []);

export function responsesClient(): StateClient {
  const input: Json[] = [];
  return {
    vendor: "openai",
    path: () => "/v1/responses",
    ask: (content) => input.push({ role: "user", content }),
    body: (model) => ({
      model,
      input,
      tools: [{ type: "function", strict: false, parameters: PARAMETERS, ...TOOL }],
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "medium", summary: "auto" },
      store: false,
    }),
    take({ output }) {
      input.push(...list(output));
      const calls = list(output).filter(({ type }) => type === "function_call");
      for (const { call_id } of calls) input.push({ type: "function_call_output", call_id, output: "sunny" });
      return calls.length;
    },
  };
}

export function messagesClient(): StateClient {
  const messages: Json[] = [];
  return {
    vendor: "anthropic",
    path: () => "/v1/messages",
    ask: (content) => messages.push({ role: "user", content }),
    body: (model) => ({
      model,
      messages,
      max_tokens: 4_000,
      tools: [{ input_schema: PARAMETERS, ...TOOL }],
      thinking: { type: "enabled", budget_tokens: 1_024 },
    }),
    take({ content }) {
      messages.push({ role: "assistant", content });
      const calls = list(content).filter(({ type }) => type === "tool_use");
      const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "sunny" }));
      if (results.length > 0) messages.push({ role: "user", content: results });
      return calls.length;
    },
  };
}

export function geminiClient(): StateClient {
  const contents: Json[] = [];
  return {
    vendor: "google",
    path: (model) => `/v1beta/models/${model}:generateContent`,
    ask: (text) => contents.push({ role: "user", parts: [{ text }] }),
    body: () => ({
      contents,
      tools: [{ functionDeclarations: [{ parametersJsonSchema: PARAMETERS, ...TOOL }] }],
      generationConfig: { thinkingConfig: { includeThoughts: true } },
    }),
    take({ candidates }) {
      const content = list(candidates)[0]?.content as Json;
      contents.push(content);
      const calls = list(content.parts).flatMap(({ functionCall }) =>
        functionCall === undefined ? [] : [functionCall as Json],
      );
      const results = calls.map(({ name, id }) => ({
        functionResponse: { name, ...(id === undefined ? {} : { id }), response: { output: "sunny" } },
      }));
      if (results.length > 0) contents.push({ role: "user", parts: results });
      return calls.length;
    },
  };
}

export const STATE_CLIENTS: readonly [string, () => StateClient][] = [
  ["a Responses client", responsesClient],
  ["a Messages client", messagesClient],
  ["a Gemini client", geminiClient],
];

/** The state that the simulator of each vendor issues. */
export const SIMULATED_STATE: Readonly<Record<Vendor, RegExp>> = {
  openai: /"encrypted_content":"sim\.\d+\./,
  anthropic: new RegExp(Buffer.from("sim-signature").toString("base64").slice(0, 16)),
  google: new RegExp(Buffer.from("simulated-thought/").toString("base64").slice(0, 20)),
};

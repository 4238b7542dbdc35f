/**
 * Runs scenarios with @google/genai under Node. The arguments are the base URL, the key and a JSON list of scenarios;
 * the output is one line of JSON for each: what the client received, or its error.
 */

import { GoogleGenAI } from "@google/genai";

const [baseUrl = "", apiKey = "", list = "[]"] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey, httpOptions: { baseUrl } });

const WEATHER = {
  functionDeclarations: [
    {
      name: "get_weather",
      description: "The weather of a place.",
      parametersJsonSchema: {
        type: "object",
        properties: { place: { type: "string" } },
        required: ["place"],
        additionalProperties: false,
      },
    },
  ],
};
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** What a client shows of a response. */
function view(response) {
  const candidate = response.candidates?.[0];
  const parts = candidate?.content?.parts ?? [];
  return {
    text: parts
      .filter((part) => part.thought !== true)
      .map((part) => part.text ?? "")
      .join(""),
    thoughts: parts
      .filter((part) => part.thought === true)
      .map((part) => part.text ?? "")
      .join(""),
    calls: parts.flatMap(({ functionCall }) =>
      functionCall ? [{ name: functionCall.name, args: functionCall.args }] : [],
    ),
    finish: candidate?.finishReason ?? response.promptFeedback?.blockReason ?? null,
    usage: response.usageMetadata ?? null,
  };
}

async function collect(stream) {
  const parts = [];
  let last = null;
  for await (const chunk of stream) {
    parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    last = chunk;
  }
  const finishReason = last?.candidates?.[0]?.finishReason;
  return view({ ...last, candidates: [{ content: { parts }, finishReason }] });
}

const SCENARIOS = {
  plain: async ({ model, config }) =>
    view(await ai.models.generateContent({ model, contents: "Hello", config })),
  stream: async ({ model, config }) =>
    collect(await ai.models.generateContentStream({ model, contents: "Hello", config })),
  /** A chat: the client sends the model's own parts back, signatures included. */
  tool: async ({ model, stream = true, steps = 1, config = {} }) => {
    const chat = ai.chats.create({ model, config: { tools: [WEATHER], ...config } });
    const send = async (message) => {
      if (!stream) return view(await chat.sendMessage({ message }));
      return collect(await chat.sendMessageStream({ message }));
    };
    const turns = [await send("What is the weather in Bern?")];
    for (let step = 0; step < steps; step++) {
      const calls = turns.at(-1)?.calls ?? [];
      const message = calls.map(({ name }) => ({
        functionResponse: { name, response: { output: "sunny" } },
      }));
      if (message.length === 0) break;
      turns.push(await send(message));
    }
    return { turns };
  },
  image: async ({ model }) =>
    view(
      await ai.models.generateContent({
        model,
        contents: [
          {
            role: "user",
            parts: [{ text: "What is this?" }, { inlineData: { mimeType: "image/png", data: PIXEL } }],
          },
        ],
      }),
    ),
  json: async ({ model }) =>
    view(
      await ai.models.generateContent({
        model,
        contents: "Say it",
        config: {
          responseMimeType: "application/json",
          responseJsonSchema: {
            type: "object",
            properties: { word: { type: "string" } },
            required: ["word"],
          },
        },
      }),
    ),
  cancel: async ({ model }) => {
    const abort = new AbortController();
    let events = 0;
    try {
      const stream = await ai.models.generateContentStream({
        model,
        contents: "Hello",
        config: { abortSignal: abort.signal },
      });
      for await (const _ of stream) if (++events === 2) abort.abort();
      return { events, cancelled: false };
    } catch {
      return { events, cancelled: true };
    }
  },
  count: async ({ model }) => ({
    totalTokens: (await ai.models.countTokens({ model, contents: "Hello" })).totalTokens,
  }),
  embed: async ({ model, dimensions }) => {
    const config = dimensions === undefined ? {} : { outputDimensionality: dimensions };
    const { embeddings } = await ai.models.embedContent({ model, contents: ["One", "Two"], config });
    return { vectors: embeddings?.map(({ values }) => values) };
  },
  models: async () => {
    const names = [];
    for await (const { name } of await ai.models.list({ config: { pageSize: 2 } })) names.push(name);
    return { names };
  },
};

for (const scenario of JSON.parse(list)) {
  let result;
  try {
    result = await SCENARIOS[scenario.run](scenario);
  } catch (error) {
    result = { error: { name: error.name, status: error.status ?? null, message: String(error.message) } };
  }
  console.log(JSON.stringify(result));
}

/** The models of the demo installation, by their interface. */
export const DEMO_MODELS: Readonly<Record<string, string>> = {
  responses: "sim-fast",
  chat: "sim-fast",
  messages: "sim-fast",
  gemini: "sim-fast",
  embeddings: "sim-embed",
  images: "sim-image",
};

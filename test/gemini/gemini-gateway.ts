/** Test support: a gateway whose accounts have Gemini's API, with the simulator as Google. */

import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";

export const GOOGLE_CREDENTIAL = "google-credential-canary-81bd";

/** Public model → upstream model. */
export const MODELS: Readonly<Record<string, string>> = {
  "gemini-2.5-flash": "sim-fast",
  "gemini-2.5-pro": "sim-tools",
  "gemini-3-pro": "sim-reason",
  "gemini-3-agent": "sim-tools-reason",
  "gemini-embedding-001": "sim-embed",
};

const yamlList = (names: readonly string[]) => `[${names.map((name) => JSON.stringify(name)).join(", ")}]`;

export function geminiFile(models: Readonly<Record<string, string>> = MODELS): string {
  const names = Object.keys(models);
  return `
models:
${names.map((id) => `  - { id: ${JSON.stringify(id)}, interfaces: [gemini, embeddings] }`).join("\n")}
accounts:
  - name: google
    kind: gemini
    base_url: \${SIMULATOR_ORIGIN}
    credential: ${GOOGLE_CREDENTIAL}
    private_network: true
    models: ${JSON.stringify(models)}
groups:
  - { name: default, models: ${yamlList(names)}, accounts: [google] }
users:
  - { email: dev@example.com, role: user }
keys:
  - { name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }
`;
}

export function startGeminiGateway(options: GatewayOptions = {}): Promise<RunningGateway> {
  return startTestGateway({ file: geminiFile(), ...options });
}

export interface GeminiCall {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A call as Google's clients send it: with the key in their own header. A text is sent unchanged. */
export function callGemini(
  gateway: Pick<RunningGateway, "url">,
  path: string,
  body?: object | string,
  { key = TEST_KEY, headers = {} }: GeminiCall = {},
): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "x-goog-api-key": key, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

export const methodPath = (model: string, method: string) => `/v1beta/models/${model}:${method}`;
export const userTurn = (text: string) => ({ role: "user", parts: [{ text }] });

/** The data of server-sent events. */
export function readEvents(text: string): unknown[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

/** Test support: a gateway with an Amazon Bedrock and a Google Vertex AI account, whose upstream is the simulator. */

import { generateKeyPairSync } from "node:crypto";
import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";

export const BEDROCK_KEY = "bedrock-api-key-canary-77ad0c";
export const PROJECT = "canary-project-4711";
export const SERVICE_EMAIL = `gateway@${PROJECT}.iam.gserviceaccount.com`;
const KEY_ID = "5f0c7a91e2";

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
export const PRIVATE_KEY = privateKey;

/** A variable of the configuration file. */
const ORIGIN = ["$", "{SIMULATOR_ORIGIN}"].join("");

export function serviceAccountFile(change: object = {}): string {
  return JSON.stringify({
    type: "service_account",
    project_id: PROJECT,
    private_key_id: KEY_ID,
    private_key: privateKey,
    client_email: SERVICE_EMAIL,
    token_uri: `${ORIGIN}/token`,
    ...change,
  });
}

/** Public model → upstream model. */
export const BEDROCK_MODELS: Readonly<Record<string, string>> = {
  "bedrock-fast": "us.anthropic.claude-fast-v1:0",
  "bedrock-tools": "us.anthropic.claude-tools-v1:0",
  "bedrock-slow": "anthropic.claude-slow@events=40,interval=20ms",
  "bedrock-arn": "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123",
};
export const VERTEX_MODELS: Readonly<Record<string, string>> = {
  "vertex-claude": "claude-fast@20250929",
  "vertex-claude-tools": "claude-tools@20250929",
  "vertex-gemini": "gemini-2.5-fast",
  "vertex-gemini-tools": "gemini-2.5-tools",
};

const INTERFACES = ["chat", "responses", "messages", "gemini"];

export interface CloudSetup extends Omit<GatewayOptions, "file" | "models" | "simulator"> {
  bedrock?: object;
  vertex?: object;
  group?: object;
  model?: object;
  user?: object;
  /** Further accounts. */
  accounts?: readonly object[];
}

export function cloudFile({ bedrock, vertex, group, model, user, accounts = [] }: CloudSetup = {}): string {
  const models = [...Object.keys(BEDROCK_MODELS), ...Object.keys(VERTEX_MODELS)];
  const shared = { base_url: ORIGIN, private_network: true };
  const all = [
    {
      name: "bedrock",
      kind: "bedrock",
      region: "us-east-1",
      credential: BEDROCK_KEY,
      models: BEDROCK_MODELS,
      ...shared,
      ...bedrock,
    },
    {
      name: "vertex",
      kind: "vertex",
      region: "europe-west1",
      credential: serviceAccountFile(),
      models: VERTEX_MODELS,
      ...shared,
      ...vertex,
    },
    ...accounts,
  ];
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: INTERFACES, ...model })),
    accounts: all,
    groups: [
      { name: "default", models, accounts: all.map((one) => (one as { name: string }).name), ...group },
    ],
    users: [{ email: "dev@example.com", role: "user", ...user }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

export function startCloudGateway(setup: CloudSetup = {}): Promise<RunningGateway> {
  return startTestGateway({
    ...setup,
    file: cloudFile(setup),
    simulator: {
      credential: BEDROCK_KEY,
      serviceAccount: { email: SERVICE_EMAIL, keyId: KEY_ID, key: privateKey },
    },
  });
}

/** One question in each dialect. */
export const ASK: Readonly<
  Record<string, (model: string, stream: boolean) => { path: string; body: object }>
> = {
  messages: (model, stream) => ({
    path: "/v1/messages",
    body: { model, max_tokens: 500, stream, messages: [{ role: "user", content: "Hello there" }] },
  }),
  chat: (model, stream) => ({
    path: "/v1/chat/completions",
    body: { model, stream, messages: [{ role: "user", content: "Hello there" }] },
  }),
  responses: (model, stream) => ({ path: "/v1/responses", body: { model, stream, input: "Hello there" } }),
  gemini: (model, stream) => ({
    path: `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "Hello there" }] }] },
  }),
};

export async function ask(
  gateway: RunningGateway,
  dialect: string,
  model: string,
  { stream = false, ...init }: { stream?: boolean } & RequestInit = {},
): Promise<Response> {
  const request = ASK[dialect]?.(model, stream);
  if (request === undefined) throw new Error(`no dialect ${dialect}`);
  return gateway.call(request.path, request.body, init);
}

/** A gateway whose accounts have one interface each. The name of a model names the interface: `gemini-caller`. */

import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

export const UPSTREAMS = ["responses", "chat", "messages", "gemini"] as const;
export type Upstream = (typeof UPSTREAMS)[number];

/** Behaviour → upstream model. */
const BEHAVIOURS = {
  fast: "sim-fast",
  caller: "sim-tools",
  parallel: "sim-tools-parallel",
  speaker: "sim-tools-text",
  agent: "sim-tools-reason@steps=3",
  reader: "sim-tools-reason",
  slow: "sim-fast@events=400,interval=10ms",
  full: "fault/context",
  limited: "fault/429@retry=7",
  cut: "fault/incomplete",
  filtered: "fault/filtered",
  busy: "fault/529",
} as const;
export type ModelBehaviour = keyof typeof BEHAVIOURS;

export const modelName = (upstream: Upstream, behaviour: ModelBehaviour) => `${upstream}-${behaviour}`;

const names = Object.keys(BEHAVIOURS) as ModelBehaviour[];
export const MODEL_NAMES = UPSTREAMS.flatMap((upstream) => names.map((name) => modelName(upstream, name)));

/** Variables of the configuration file. */
const variable = (name: string) => ["$", `{${name}}`].join("");

/** Models with these behaviours have their own accounts, so that the cool-down reaches no other test. */
const COOLING: readonly ModelBehaviour[] = ["limited", "busy"];

function accounts(upstream: Upstream): object[] {
  const kind = upstream === "messages" ? "anthropic" : upstream === "gemini" ? "gemini" : "openai";
  const base = {
    kind,
    base_url: variable(kind === "gemini" ? "SIMULATOR_ORIGIN" : "SIMULATOR_URL"),
    credential: "sk-upstream",
    private_network: true,
    ...(kind === "openai" ? { interfaces: [upstream], profile: { pdf: true } } : {}),
  };
  const models = (own: readonly ModelBehaviour[]) =>
    Object.fromEntries(own.map((name) => [modelName(upstream, name), BEHAVIOURS[name]]));
  return [
    { ...base, name: upstream, models: models(names.filter((name) => !COOLING.includes(name))) },
    ...COOLING.map((name) => ({ ...base, name: modelName(upstream, name), models: models([name]) })),
  ];
}

/** Of the account that is reached over a WebSocket. */
export const SOCKET_MODEL = "socket-fast";

function socketAccount(): object {
  return {
    name: "socket",
    kind: "openai",
    base_url: variable("SIMULATOR_URL"),
    credential: "sk-upstream",
    private_network: true,
    interfaces: ["responses"],
    websocket: true,
    models: { [SOCKET_MODEL]: BEHAVIOURS.fast },
  };
}

interface MatrixOptions {
  readonly hasSocketAccount?: boolean;
  readonly request_policies?: readonly ({ readonly name: string } & Readonly<Record<string, unknown>>)[];
}

/** Each request policy has a key, whose secret `policyKey` returns. */
export function startMatrixGateway({
  request_policies = [],
  hasSocketAccount = false,
}: MatrixOptions = {}): Promise<RunningGateway> {
  const all = [...UPSTREAMS.flatMap(accounts), ...(hasSocketAccount ? [socketAccount()] : [])] as {
    name: string;
  }[];
  const models = [...MODEL_NAMES, ...(hasSocketAccount ? [SOCKET_MODEL] : [])];
  const file = JSON.stringify({
    models: models.map((id) => ({ id, interfaces: UPSTREAMS, price: { input: "1", output: "2" } })),
    accounts: all,
    groups: [
      {
        name: "default",
        interfaces: UPSTREAMS,
        models,
        accounts: all.map(({ name }) => name),
        // A request that waits for the end of a cool-down would only take time.
        queue: { max_waiting: 0 },
        billing: { charge: "balance" },
        on_disconnect: "cancel",
      },
    ],
    users: [{ email: "dev@example.com", role: "user", balance: "1000" }],
    request_policies,
    keys: [
      { name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY },
      ...request_policies.map(({ name }) => ({
        name,
        user: "dev@example.com",
        group: "default",
        request_policy: name,
        secret: policyKey(name),
      })),
    ],
  });
  return startTestGateway({ file, tokens: "words" });
}

export function policyKey(name: string): string {
  return `${name}-key-0123456789-0123456789-0123456789`;
}

/** A gateway with an Anthropic account, whose upstream is the simulator. */

import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
  UPSTREAM_CREDENTIAL,
} from "../support/running-gateway.ts";

export interface MessagesSetup extends Omit<GatewayOptions, "file" | "models"> {
  /** Public model → upstream model. */
  models: Readonly<Record<string, string>>;
  /** Further fields of the group. */
  group?: object;
  /** Further fields of the models, by their name. */
  modelFields?: Readonly<Record<string, object>>;
  /** Further fields of the key's user. */
  user?: object;
  account?: object;
}

/** A variable of the configuration file. */
const SIMULATOR_URL = ["$", "{SIMULATOR_URL}"].join("");

/** An account of kind `anthropic`, and a group that offers `messages`. */
export function messagesFile({ models, group, modelFields = {}, user, account }: MessagesSetup): string {
  return JSON.stringify({
    models: Object.keys(models).map((id) => ({ id, interfaces: ["messages"], ...modelFields[id] })),
    accounts: [
      {
        name: "anthropic",
        kind: "anthropic",
        base_url: SIMULATOR_URL,
        credential: UPSTREAM_CREDENTIAL,
        private_network: true,
        models,
        ...account,
      },
    ],
    groups: [{ name: "default", models: Object.keys(models), accounts: ["anthropic"], ...group }],
    users: [{ email: "dev@example.com", role: "user", ...user }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

export function startMessagesGateway(setup: MessagesSetup): Promise<RunningGateway> {
  return startTestGateway({ ...setup, file: messagesFile(setup) });
}

/** Sends a message with the test key, as a client without an SDK does. */
export function sendMessage(
  gateway: Pick<RunningGateway, "url">,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-api-key": TEST_KEY,
      "anthropic-version": "2023-06-01",
      ...headers,
    },
    body: JSON.stringify({ max_tokens: 1_000, ...body }),
  });
}

export const HELLO = [{ role: "user", content: "Hello there" }];

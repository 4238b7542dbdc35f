/** A gateway whose accounts have upstreams that respond as the test writes, one for each account. */

import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";

export type Json = Record<string, unknown>;

export interface VendorRequest {
  readonly path: string;
  readonly headers: Headers;
  readonly body: Json;
}

export interface VendorAccount {
  /** Further fields of the account: `kind`, `vendor`, `priority`. */
  readonly account: object;
  respond(request: VendorRequest): Response | Promise<Response>;
}

export interface VendorGateway extends RunningGateway {
  /** The requests that each account received, in order. */
  readonly received: readonly VendorRequest[][];
  /** The configuration file with these accounts only. */
  fileWith(names: readonly string[]): string;
}

export const VENDOR_MODEL = "vendor-model";
const INTERFACES = ["chat", "responses", "messages", "gemini"];

/** The accounts are named `vendor-0`, `vendor-1` and so on, and all serve `VENDOR_MODEL`. */
export async function startVendorGateway(
  accounts: readonly VendorAccount[],
  options: Partial<GatewayOptions> = {},
): Promise<VendorGateway> {
  const received: VendorRequest[][] = accounts.map(() => []);
  const servers = accounts.map(({ respond }, at) =>
    Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      async fetch(request) {
        const { pathname: path } = new URL(request.url);
        const body = (await request.json().catch(() => ({}))) as Json;
        const asked = { path, headers: request.headers, body };
        received[at]?.push(asked);
        return respond(asked);
      },
    }),
  );
  const all = accounts.map(({ account }, at) => ({
    name: `vendor-${at}`,
    base_url: `http://127.0.0.1:${servers[at]?.port}/v1`,
    credential: "sk-vendor",
    private_network: true,
    models: { [VENDOR_MODEL]: "upstream-model" },
    ...account,
  }));
  const fileWith = (names: readonly string[]) => buildFile(all.filter(({ name }) => names.includes(name)));
  const file = fileWith(all.map(({ name }) => name));
  const gateway = await startTestGateway({ ...options, file });
  return {
    ...gateway,
    received,
    fileWith,
    async stop() {
      await gateway.stop();
      await Promise.all(servers.map((server) => server.stop(true)));
    },
  };
}

function buildFile(accounts: readonly { readonly name: string }[]): string {
  const names = accounts.map(({ name }) => name);
  return JSON.stringify({
    models: [{ id: VENDOR_MODEL, interfaces: INTERFACES }],
    accounts,
    groups: [{ name: "default", interfaces: INTERFACES, models: [VENDOR_MODEL], accounts: names }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

/** A whole Chat Completions response. */
export function chatCompletion(message: object, finish: string = "stop"): Response {
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "upstream-model",
    choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: finish }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  });
}

/** The call of a function in a chat message. */
export function chatCall(id: string, name: string, input: object): object {
  return { id, type: "function", function: { name, arguments: JSON.stringify(input) } };
}

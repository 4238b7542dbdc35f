/** A gateway with several accounts behind one public model, each with its own simulator. */

import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayOptions, type RunningGateway, startTestGateway, TEST_KEY } from "./running-gateway.ts";

export interface AccountSetup {
  /** Replaces the simulator of the account. */
  url?: string;
  credential?: string;
  /** Public model → upstream model. */
  models?: Readonly<Record<string, string>>;
  limits?: object;
  priority?: number;
  weight?: number;
  websocket?: boolean;
}

export interface KeySetup {
  secret?: string;
  user?: string;
  limits?: object;
}

export interface PoolSetup {
  accounts: readonly AccountSetup[];
  /** Further fields of the one group: `limits`, `group_limits`, `queue`, `on_disconnect`. */
  group?: object;
  /** Beside the test key. */
  keys?: Readonly<Record<string, KeySetup>>;
  /** Email → limits. */
  users?: Readonly<Record<string, object>>;
  /** Shorter deadlines for the test. */
  limits?: NonNullable<GatewayOptions["limits"]>;
}

export interface PooledGateway extends RunningGateway {
  /** One for each account, in order; the simulator of an account with another address is idle. */
  upstreams: readonly Simulator[];
  send(ask: RequestSetup): Promise<Response>;
}

export const PUBLIC_MODEL = "pooled";
export const accountName = (index: number) => `account-${index}`;
/** The secret of a key of the setup. */
export const keySecret = (name: string) => `${name}-key-`.padEnd(40, "0123456789");

const INTERFACES = ["chat", "responses", "images"];
const DEFAULT_MODELS = { [PUBLIC_MODEL]: "sim-fast" };

export function poolFile(setup: PoolSetup, urls: readonly string[]): string {
  const { accounts, users = {} } = setup;
  const keys: Readonly<Record<string, KeySetup>> = { test: { secret: TEST_KEY }, ...setup.keys };
  const names = new Set(accounts.flatMap(({ models = DEFAULT_MODELS }) => Object.keys(models)));
  const named = accounts.map((account, i) => ({
    name: accountName(i),
    kind: "openai",
    private_network: true,
    credential: `credential-${i}`,
    models: DEFAULT_MODELS,
    interfaces: INTERFACES,
    ...withoutUrl(account),
    base_url: account.url ?? urls[i],
  }));
  return JSON.stringify({
    models: [...names].map((id) => ({ id, interfaces: INTERFACES })),
    accounts: named,
    groups: [
      {
        name: "default",
        interfaces: INTERFACES,
        models: [...names],
        accounts: named.map(({ name }) => name),
        ...setup.group,
      },
    ],
    users: Object.entries(users).map(([email, limits]) => ({ email, role: "user", limits })),
    keys: Object.entries(keys).map(([name, { secret = keySecret(name), ...key }]) => ({
      name,
      group: "default",
      secret,
      ...key,
    })),
  });
}

function withoutUrl({ url: _, ...account }: AccountSetup): Omit<AccountSetup, "url"> {
  return account;
}

export async function startPooledGateway(setup: PoolSetup): Promise<PooledGateway> {
  const upstreams = setup.accounts.map((_, i) => startSimulator({ seed: i + 1, record: "full" }));
  const gateway = await startTestGateway({
    file: poolFile(
      setup,
      upstreams.map(({ url }) => url),
    ),
    ...(setup.limits === undefined ? {} : { limits: setup.limits }),
  });
  return {
    ...gateway,
    upstreams,
    send: (ask) => sendToGateway(gateway.url, ask),
    async stop() {
      await gateway.stop();
      await Promise.all(upstreams.map((upstream) => upstream.stop()));
    },
  };
}

export interface RequestSetup {
  family?: "chat" | "responses";
  stream?: boolean;
  model?: string;
  /** The name of a key of the setup; without it the test key is used. */
  key?: string;
  headers?: Readonly<Record<string, string>>;
  /** Added to the body. */
  more?: object;
  signal?: AbortSignal;
}

export function sendToGateway(url: string, ask: RequestSetup): Promise<Response> {
  const { family = "chat", stream = false, model = PUBLIC_MODEL, key, headers = {}, more = {} } = ask;
  const prompt = family === "chat" ? { messages: [{ role: "user", content: "Hello" }] } : { input: "Hello" };
  const path = family === "chat" ? "/v1/chat/completions" : "/v1/responses";
  return fetch(url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key === undefined ? TEST_KEY : keySecret(key)}`,
      "content-type": "application/json",
      ...headers,
    },
    body: JSON.stringify({ model, ...prompt, ...(stream ? { stream } : {}), ...more }),
    ...(ask.signal === undefined ? {} : { signal: ask.signal }),
  });
}

/** Requests that each upstream has seen. */
export function seenBy({ upstreams }: PooledGateway): number[] {
  return upstreams.map(({ ledger }) => ledger.totals().requests);
}

/** Runs them with at most this many at once. */
export async function runConcurrently<T, R>(
  items: readonly T[],
  atOnce: number,
  run: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const workers = Array.from({ length: atOnce }, async () => {
    for (let i = next++; i < items.length; i = next++) {
      const item = items[i];
      if (item !== undefined) results[i] = await run(item);
    }
  });
  await Promise.all(workers);
  return results;
}

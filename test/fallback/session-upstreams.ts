/**
 * The two upstreams of a tool session: simulators behind a relay that records every request and makes the first one
 * fail at chosen turns.
 */

import { type Simulator, startSimulator } from "../../simulator/simulator.ts";

export const ROLES = ["first", "second"] as const;
export type Role = (typeof ROLES)[number];

export interface UpstreamRequest {
  readonly role: Role;
  /** Of the upstream's API, without the prefix of the relay. */
  readonly path: string;
  readonly body: Record<string, unknown>;
  /** The number of turns that were served before. */
  readonly turn: number;
  /** `rejected`: the simulator found the request invalid. */
  outcome: "served" | "fault" | "rejected";
}

export interface SessionUpstreams {
  readonly requests: readonly UpstreamRequest[];
  /** The signatures and encrypted reasoning that each upstream has issued. */
  readonly issued: Readonly<Record<Role, ReadonlySet<string>>>;
  /** As the `base_url` of an account, without `/v1`. */
  url(role: Role): string;
  stop(): Promise<void>;
}

/** Names of opaque state in the four dialects. */
export const STATE_FIELDS: readonly string[] = ["signature", "encrypted_content", "thoughtSignature", "data"];
const ISSUED_STATE = /"(?:signature|encrypted_content|thoughtSignature)"\s*:\s*"([^"]+)"/g;
/** A session that loops must end. */
const REQUESTS_MAX = 60;

/** `faults`: turn → fault of the simulator at the first upstream. */
export function startSessionUpstreams(seed: number, faults: ReadonlyMap<number, string>): SessionUpstreams {
  const requests: UpstreamRequest[] = [];
  const issued = { first: new Set<string>(), second: new Set<string>() };
  const simulators: Readonly<Record<Role, Simulator>> = {
    first: startSimulator({ seed: seed * 2 + 101, tokens: "words" }),
    second: startSimulator({ seed: seed * 2 + 102, tokens: "words" }),
  };

  async function relay(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const role = url.pathname.startsWith("/first/") ? "first" : "second";
    const path = url.pathname.slice(role.length + 1);
    const text = await request.text();
    const turn = requests.filter(({ outcome }) => outcome === "served").length;
    const fault = role === "first" ? faults.get(turn) : undefined;
    const seen: UpstreamRequest = { role, path, body: JSON.parse(text), turn, outcome: "rejected" };
    requests.push(seen);
    if (requests.length > REQUESTS_MAX) return new Response(null, { status: 400 });
    const simulator = simulators[role];
    if (fault !== undefined) simulator.force(fault, 1);
    const reply = await fetch(new URL(simulator.url).origin + path + url.search, {
      method: request.method,
      headers: withoutHost(request.headers),
      body: text,
    }).catch(() => null);
    const output = reply === null ? null : await reply.text().catch(() => null);
    if (fault !== undefined) {
      simulator.force(null);
      seen.outcome = "fault";
    } else if (reply?.ok) seen.outcome = "served";
    if (reply === null || output === null) return reset();
    for (const [, state = ""] of output.matchAll(ISSUED_STATE)) issued[role].add(state);
    return new Response(output, { status: reply.status, headers: reply.headers });
  }

  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch: relay });
  return {
    requests,
    issued,
    url: (role) => `http://127.0.0.1:${server.port}/${role}`,
    async stop() {
      await server.stop(true);
      await Promise.all(ROLES.map((role) => simulators[role].stop()));
    },
  };
}

function withoutHost(headers: Headers): Headers {
  const passed = new Headers(headers);
  for (const name of ["host", "content-length", "connection"]) passed.delete(name);
  return passed;
}

/** Bun resets the connection when the stream of a response fails. */
function reset(): Response {
  return new Response(new ReadableStream({ start: (controller) => controller.error() }));
}

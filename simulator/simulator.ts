/**
 * Starts the simulator: an upstream with the APIs of OpenAI, Anthropic, Google, Amazon Bedrock and Google Vertex AI, for
 * the demo and for tests.
 */

import { type Clock, systemClock } from "../src/base/clock.ts";
import { type KnownServiceAccount, TokenIssuer } from "./cloud/access-tokens.ts";
import { type FaultPort, openFaultPort } from "./delivery/fault-port.ts";
import { Ledger } from "./ledger.ts";
import { createPrefixCache } from "./messages/messages-cache.ts";
import { parseFault } from "./model/model-name.ts";
import { createPromptCache } from "./model/model-output.ts";
import { openTokenRule, type TokenRuleName } from "./model/token-rules.ts";
import { createResponseStore } from "./openai/response-store.ts";
import { handle } from "./routes.ts";
import type { Simulation } from "./simulation.ts";
import { SOCKET_HANDLERS } from "./socket/socket.ts";

export interface SimulatorOptions {
  hostname?: string;
  port?: number;
  /** Determines the words, vectors and colours, and, if present, the ids. */
  seed?: number;
  /** Callers must send it; null or absent accepts all callers. */
  credential?: string | null;
  /** "full" also records headers, digests and the last bodies; "counts" costs almost nothing. */
  record?: "full" | "counts";
  /** Opens a second port whose faults break connections in ways that Bun.serve cannot (see README.md). */
  faultPort?: boolean;
  /** "o200k" counts with a real tokenizer (about 75 MB); "bytes" uses a quarter of the bytes and costs nothing. */
  tokens?: TokenRuleName;
  clock?: Clock;
  /** The service account whose assertions `/token` accepts. Without one no access token is issued. */
  serviceAccount?: KnownServiceAccount;
}

export interface Simulator {
  /** `http://127.0.0.1:PORT/v1` */
  url: string;
  port: number;
  /** The same for the fault port; null when it is disabled. */
  faultUrl: string | null;
  ledger: Ledger;
  tokenIssuer: TokenIssuer;
  /** Like `POST /__control`: `"429@retry=2"` breaks every model until null, or for the next n requests. */
  force(fault: string | null, forNext?: number): void;
  /** Closes every WebSocket with this code; null resets them. */
  closeSockets(code: number | null): void;
  stop(): Promise<void>;
}

const DEFAULT_SEED = 1;
const BODY_BYTES_MAX = 1024 * 1024 * 1024;

export function startSimulator(options: SimulatorOptions = {}): Simulator {
  const hostname = options.hostname ?? "127.0.0.1";
  const ledger = new Ledger(options.record ?? "counts");
  const clock = options.clock ?? systemClock;
  const tokenIssuer = new TokenIssuer(options.serviceAccount ?? null, clock);
  const simulation: Simulation = {
    seed: options.seed ?? DEFAULT_SEED,
    credential: options.credential ?? null,
    clock,
    tokenIssuer,
    newId: createIdGenerator(options.seed),
    ledger,
    store: createResponseStore(),
    promptCache: createPromptCache(),
    prefixCache: createPrefixCache(),
    tokens: openTokenRule(options.tokens ?? "bytes"),
    sockets: new Set(),
    forced: null,
  };
  const server = Bun.serve({
    hostname,
    port: options.port ?? 0,
    // Stalls and slow paces are intended, so the server's own timers must not end them.
    idleTimeout: 0,
    maxRequestBodySize: BODY_BYTES_MAX,
    fetch: (request, at) =>
      handle(request, simulation, (from, data, headers) => at.upgrade(from, { data, headers })),
    websocket: SOCKET_HANDLERS,
    error: () => new Response(null, { status: 500 }),
  });
  const faultPort: FaultPort | null = options.faultPort
    ? openFaultPort(hostname, async (request) => (await handle(request, simulation)) ?? new Response(null))
    : null;
  const port = server.port ?? 0;
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  return {
    url: `http://${host}:${port}/v1`,
    port,
    faultUrl: faultPort === null ? null : `http://${host}:${faultPort.port}/v1`,
    ledger,
    tokenIssuer,
    force(fault, forNext = Number.POSITIVE_INFINITY) {
      simulation.forced = fault === null ? null : { fault: parseFault(fault), left: forNext };
    },
    closeSockets(code) {
      for (const socket of simulation.sockets) socket.end(code);
    },
    async stop() {
      faultPort?.close();
      await server.stop(true);
    },
  };
}

/** Two simulators of one gateway must not generate the same ids, unless a test sets the same seed for both. */
function createIdGenerator(seed: number | undefined): (prefix: string) => string {
  const tag =
    seed === undefined
      ? crypto.randomUUID().replaceAll("-", "").slice(0, 12)
      : Bun.hash.xxHash32("simulator", seed).toString(16).padStart(12, "0");
  let count = 0;
  return (prefix) => `${prefix}${tag}${(count++).toString(16).padStart(8, "0")}`;
}

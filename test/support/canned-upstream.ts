/** A paid gateway with one account, whose responses the test writes step by step. */

import type { PaidSetup } from "./paid-gateway.ts";
import { type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import type { GatewayOptions } from "./running-gateway.ts";

export interface GatewayWithResponses extends PaidGateway {
  /** The requests that the upstream received on `POST /v1/responses`. */
  requests: readonly string[];
}

export async function startGatewayWithResponses(
  respond: (request: Request) => Response | Promise<Response>,
  group: PaidSetup["group"] = {},
  limits: GatewayOptions["limits"] = {},
): Promise<GatewayWithResponses> {
  const requests: string[] = [];
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      requests.push(`${request.method} ${new URL(request.url).pathname}`);
      return respond(request);
    },
  });
  const account = {
    name: "own",
    kind: "openai",
    base_url: `http://127.0.0.1:${upstream.port}/v1`,
    credential: "credential",
    private_network: true,
    models: { paid: "up" },
  };
  const gateway = await startPaidGateway(
    { balance: "10.00", models: { paid: "up" }, accounts: [account], group },
    { limits },
  );
  return {
    ...gateway,
    requests,
    async stop() {
      await gateway.stop();
      await upstream.stop(true);
    },
  };
}

/** Sends its pieces in order; a promise among them is awaited. */
export function eventStream(pieces: readonly (string | Promise<unknown>)[]): Response {
  async function* body(): AsyncGenerator<string> {
    for (const piece of pieces) {
      if (typeof piece === "string") yield piece;
      else await piece;
    }
  }
  return new Response(body(), { headers: { "content-type": "text/event-stream" } });
}

export function chatChunk(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "up", choices })}\n\n`;
}

export function chatUsage(usage: object): string {
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "up", choices: [], usage })}\n\n`;
}

export const responsesEvent = (type: string, rest: object = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;

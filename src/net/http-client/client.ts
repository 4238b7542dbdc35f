/**
 * HTTP/1.1 to upstreams, on the runtime's sockets. Its fetch does its work on another thread, and handing over costs
 * more CPU than everything done here.
 */

import { type ConnectionsOptions, openConnections } from "./connections.ts";
import type { HttpClient } from "./contract.ts";
import { ClientExchange } from "./exchange.ts";

export type {
  AnswerHeaders,
  HttpClient,
  HttpExchange,
  HttpFailure,
  OutgoingRequest,
  ResponseHandler,
  StreamedBody,
} from "./contract.ts";

export interface HttpClientOptions extends ConnectionsOptions {
  headBytesMax: number;
}

export function openHttpClient(options: HttpClientOptions): HttpClient {
  const connections = openConnections(options);
  const { headBytesMax, clock } = options;
  const context = { connections, headBytesMax, monotonicMs: clock.monotonicMs };
  return {
    send(request, taker) {
      const exchange = new ClientExchange(context, request, taker);
      exchange.start();
      return exchange;
    },
    close: connections.close,
  };
}

/**
 * HTTP/1.1 client for upstreams, on the runtime's sockets. The runtime's `fetch` works on another thread, and passing
 * data between the threads costs more CPU than all of the work here.
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
    send(request, handler) {
      const exchange = new ClientExchange(context, request, handler);
      exchange.start();
      return exchange;
    },
    close: connections.close,
  };
}

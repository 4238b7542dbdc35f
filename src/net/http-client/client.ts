/**
 * HTTP/1.1 client for upstreams, on the runtime's sockets. The runtime's `fetch` works on another thread, and passing
 * data between the threads costs more CPU than all of the work here.
 */

import { ConnectionPool, type ConnectionsOptions } from "./connections.ts";
import type { HttpClient } from "./contract.ts";
import { ClientExchange } from "./exchange.ts";

export interface HttpClientOptions extends ConnectionsOptions {
  headBytesMax: number;
}

export function openHttpClient(options: HttpClientOptions): HttpClient {
  const connections = new ConnectionPool(options);
  const { headBytesMax, clock } = options;
  const context = { connections, headBytesMax, monotonicMs: clock.monotonicMs };
  return {
    send(request, sink) {
      const exchange = new ClientExchange(context, request, sink);
      exchange.start();
      return exchange;
    },
    close: () => connections.close(),
  };
}

/** What dispatch is asked to do: one admitted request, and everything that may decide where it goes. */

import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { StreamReader } from "../interfaces/stream.ts";
import type { Route } from "../policy/snapshot.ts";
import type { QueueSettings } from "../records.ts";
import type { Client } from "./send.ts";
import type { Trace } from "./trace.ts";

export interface Order {
  requestId: string;
  keyId: string;
  groupId: string;
  queue: QueueSettings;
  endpoint: Endpoint;
  request: ModelRequest;
  routes: readonly Route[];
  /** Keeps a conversation on its account; scoped to the key, so that nobody shares another's. */
  affinity: string | null;
  clientHeaders: Headers;
  client: Client;
  /** A fresh reader for each attempt: what a failed one read counts for nothing. */
  openReader(): StreamReader;
  /** Filled as it goes, for the record. */
  trace: Trace;
}

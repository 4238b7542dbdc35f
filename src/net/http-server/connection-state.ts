/**
 * The state of a server connection.
 * - `between`: no request is being served.
 * - `queued`: further requests have arrived and wait for their turn.
 * - `within`: a request is being served.
 * - `responded`: the response is complete; the rest of the request body or of the response is still in transit.
 * - `upgraded`: the connection uses another protocol.
 * - `ending`: the last response is complete, and the client has not read all of it.
 * - `lingering`: the client has read everything. Bytes that still arrive are discarded: closing a socket with unread
 * bytes would reset it, and the client could lose the response.
 * - `over`: the connection is closed.
 */
export type ConnectionState =
  | "between"
  | "queued"
  | "within"
  | "responded"
  | "upgraded"
  | "ending"
  | "lingering"
  | "over";

/** What is known about a client: `silent` before its first request, `anonymous` until it has authenticated. */
export type Trust = "silent" | "anonymous" | "authenticated";

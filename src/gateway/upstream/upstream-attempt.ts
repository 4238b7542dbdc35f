/** One request to one account, as the caller of an upstream describes it. */

import type { PolicyAccount } from "../../accounts/account.ts";
import type { TurnRequest } from "../../accounts/websocket/client.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { UpstreamBody } from "../../protocols/shared/request.ts";

/**
 * The receiver of the response. Its signal fires when it disconnects. The runtime creates the signal on first access,
 * which is a cost that fast responses avoid: access it late.
 */
export interface Client extends Pick<Request, "signal"> {
  /** The real client, if it still counts as connected. No attempt starts for one that disconnected. */
  readonly realClient?: Client;
}

export interface UpstreamAttempt {
  account: PolicyAccount;
  method: "GET" | "POST" | "DELETE";
  /** The path of the API, appended to the base URL. */
  path: string;
  upstreamModel: string;
  clientHeaders: HeaderReader;
  /** Header lines that continue the distributed trace; empty if the account does not receive it. */
  traceLines?: string;
  body: { contentType: string; content: UpstreamBody } | null;
  /** The turn of a client's WebSocket, sent by WebSocket if the account supports it. */
  turn?: Omit<TurnRequest, "wholeBody" | "beforeWrite"> | null;
  wantsEvents: boolean;
  /** The time to the head of a stream, or to the last byte of a whole response. */
  deadlineMs: number;
  /** The longest whole response, if it is shorter than that of every call. */
  responseBytesMax?: number;
  /** Called with the length of a whole response while it arrives. It is aborted if this returns false. */
  reserveResponse?: (bytes: number) => boolean;
  client: Client;
  /** Called immediately before the request is written to a connection. */
  beforeWrite?: (() => void) | null;
  /** Null unless the request is captured. */
  capture?: AttemptCapture | null;
}

/**
 * What every dialect offers: reading and writing of requests, whole responses and streams. All of it is pure: JSON or
 * events in, JSON or events out. A reader of a request throws the `ApiError` for a request that is invalid; a writer
 * throws one that names the field if the request must not be sent without it.
 */

import type { ApiError } from "../../errors.ts";
import type { AccountProfile } from "./account-profile.ts";
import type { DroppedFields } from "./dropped-fields.ts";
import type { Dialect, HubRequest, HubSettings } from "./hub-request.ts";
import type { HubEvent, HubResponse } from "./hub-response.ts";
import type { StateSealer } from "./sealed-state.ts";

export interface DialectCodec {
  readonly dialect: Dialect;
  /** Begins the ids of responses: `resp_`. */
  readonly responseIdPrefix: string;
  /** The path of a request below the account's base URL: `/chat/completions`. */
  requestPath(options: { readonly upstreamModel: string; readonly stream: boolean }): string;
  readRequest(json: Readonly<Record<string, unknown>>, options: ReadOptions): HubRequest;
  writeRequest(request: HubRequest, target: WriteTarget): WrittenRequest;
  /** Reads an upstream's whole response. Returns null if the JSON is not a response of this dialect. */
  readResponse(json: Readonly<Record<string, unknown>>, options: ResponseReadOptions): HubResponse | null;
  writeResponse(response: HubResponse, client: ClientTarget): Record<string, unknown>;
  openStreamReader(options: ResponseReadOptions): HubStreamReader;
  openStreamWriter(client: ClientTarget): HubStreamWriter;
}

export interface ReadOptions {
  /** The model and whether to stream: some dialects have both in the path. */
  readonly publicModel: string;
  readonly stream: boolean;
}

export interface WriteTarget {
  readonly upstreamModel: string;
  readonly profile: AccountProfile;
  /** Opens the opaque state of earlier turns for this account, or drops it. */
  readonly sealer: StateSealer;
  /** The output limit that the gateway sets; null to keep the client's. */
  readonly outputTokensMax: number | null;
  /** The maximum output of the model, for dialects that require a limit; null if unknown. */
  readonly modelOutputTokensMax: number | null;
  /** The limit of web searches that the gateway sets; null to keep the client's. */
  readonly webSearchesMax: number | null;
}

export interface WrittenRequest {
  readonly body: Record<string, unknown>;
  /** Headers that belong to the body, such as `anthropic-version`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The fields that were dropped, by their names in the client's dialect. */
  readonly dropped: readonly string[];
  /** How the names and kinds of tools were changed, so that calls can be returned under their original names. */
  readonly toolNames: ToolNames;
}

export interface ToolNames {
  resolve(upstreamName: string): ClientTool | null;
  /** The names that `resolve` knows and that differ from the client's, or whose tool is not a plain function. */
  listChanged(): ChangedToolName[];
}

export type ChangedToolName = readonly [upstreamName: string, tool: ClientTool];

export interface ClientTool {
  readonly name: string;
  readonly namespace: string | null;
  readonly tool: "function" | "custom";
}

export interface ResponseReadOptions {
  readonly toolNames: Pick<ToolNames, "resolve">;
  readonly sealer: StateSealer;
  /** Takes the names of content that other dialects cannot express. */
  readonly dropped: Pick<DroppedFields, "add">;
}

/** What the response to a request repeats or depends on. */
export interface RepeatedRequest extends Pick<HubRequest, "dialect" | "original" | "tools"> {
  readonly settings: Pick<HubSettings, "reasoning" | "wantsEncryptedReasoning">;
}

export interface ClientTarget {
  readonly publicModel: string;
  readonly request: RepeatedRequest;
  /** The id of the response in the client's dialect, with its prefix. */
  readonly responseId: string;
  /** Responses: the response that the client continues. */
  readonly previousResponseId: string | null;
  /** An estimate of the input tokens, for streams that report them first. */
  readonly inputTokensEstimate: number;
  readonly nowMs: number;
  newId(prefix: string): string;
  /** Chat: the client requested a usage chunk. */
  readonly wantsUsageChunk: boolean;
  /** Takes the names of content that the client's dialect cannot express. */
  readonly dropped: DroppedFields;
}

export interface HubStreamReader {
  /** `data` is the JSON text of one server-sent event, `name` its `event:` field. Returns no events for noise. */
  read(data: string, name: string | null): readonly HubEvent[];
  /** The upstream closed the stream. Returns the events that complete it, or an `error` event if it broke off. */
  close(): readonly HubEvent[];
}

export interface HubStreamWriter {
  /** Returns the server-sent events of the client's dialect as text; empty if there is nothing to send. */
  write(event: HubEvent): string;
  /** Returns an event that reports continued work; null if the dialect has none. */
  keepAlive(): string | null;
  /** Returns the end of a broken stream: one terminal event with the error. */
  fail(error: ApiError, requestId: string): string;
  /** Responses: the response object of the terminal event as JSON; null before that event. */
  completeResponse?(): string | null;
}

/** A request in the dialect of an account, as dispatch sends it. */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Part } from "../../base/parts.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { StreamReader, TextSink } from "../../protocols/shared/stream.ts";
import type { WholeResponseResult } from "../../protocols/whole-response.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { WholeResult } from "../whole-result.ts";

/** The name of opaque state among the dropped fields. */
export const DROPPED_STATE = "state";

/** The limits that the gateway sets for one account; null to keep the client's. */
export interface AttemptLimits {
  readonly outputTokensMax: number | null;
  readonly webSearchesMax: number | null;
}

export interface Translator {
  /** Throws the error for the client if the request cannot be expressed in the dialect of the account. */
  translate(route: AccountRoute, limits: AttemptLimits): Promise<TranslatedAttempt>;
  /** Returns true if the next attempt differs: opaque state that an upstream rejected is left out. */
  dropState(): boolean;
}

export const NO_HEADERS: HeaderReader = { get: () => null, has: () => false };

export type SendBody = (body: readonly Part[]) => Promise<WholeResult>;

/** A request as written for one account, and how its response is read. */
export interface TranslatedAttempt {
  readonly dialect: Dialect;
  readonly path: string;
  readonly body: readonly Part[];
  /** Headers that belong to the body. */
  readonly headers: HeaderReader;
  readonly dropped: readonly string[];
  /** The conversation carries opaque state that the account cannot use. */
  readonly isStateDropped: boolean;
  openReader(sink: TextSink | null): StreamReader;
  readWhole(body: Part): MaybePromise<WholeResponseResult>;
  /** Sends the request in several bodies instead of `body`; null if one is enough. */
  readonly sendBatches: ((sendBody: SendBody) => Promise<WholeResult>) | null;
}

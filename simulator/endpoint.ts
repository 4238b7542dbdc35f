/** The input and output types of an endpoint. */

import type { JsonFields } from "./json-fields.ts";
import type { Behaviour, Fault } from "./model/model-name.ts";
import type { PromptCache } from "./model/model-output.ts";
import type { TokenRule } from "./model/tokens.ts";
import type { Reply } from "./reply.ts";

/** The input of an endpoint: plain data, so that it can be called without a server. */
export interface Call {
  fields: JsonFields;
  /** The headers of an HTTP request. */
  headers?: Headers;
  behaviour: Behaviour;
  /** The active fault: the model's own, or the one set at run time. */
  fault: Fault | null;
  seed: number;
  createdAt: number;
  newId: (prefix: string) => string;
  promptCache: PromptCache;
  tokens: TokenRule;
}

export type Endpoint = (call: Call) => Reply;

/** A public model as it is stored. */

import {
  identity,
  integer,
  interfaceList,
  internal,
  named,
  optionalInteger,
  price,
  type RecordOf,
} from "./fields.ts";

/** A public model. In the order of the file. */
export const MODEL_FIELDS = {
  /** The name that callers send and that `GET /v1/models` lists. */
  id: identity,
  interfaces: interfaceList,
  price,
  /** Maximum input and output tokens together; null: from the price list, or unknown. */
  contextTokens: optionalInteger,
  /** Maximum output tokens of one response; null: from the price list, or unknown. */
  outputTokensMax: named("max_output_tokens", optionalInteger),
  createdAtMs: internal(integer),
};

export interface ModelRecord extends RecordOf<typeof MODEL_FIELDS> {}

/** A public model as it is stored. */

import { modelFallback } from "./fallback.ts";
import type { RecordOf } from "./fields.ts";
import * as field from "./fields.ts";

/** A public model. In the order of the file. */
export const MODEL_FIELDS = {
  /** The name that callers send and that `GET /v1/models` lists. */
  id: field.identity,
  interfaces: field.interfaceList,
  price: field.price,
  /** Maximum input and output tokens together; null: from the price list, or unknown. */
  contextTokens: field.optionalInteger,
  /** Maximum output tokens of one response; null: from the price list, or unknown. */
  outputTokensMax: field.named("max_output_tokens", field.optionalInteger),
  /** Other models that serve a request in the same group. */
  fallback: modelFallback,
  createdAtMs: field.internal(field.integer),
};

export interface ModelRecord extends RecordOf<typeof MODEL_FIELDS> {}

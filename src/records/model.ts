/** A public model as it is stored. */

import type { Interface } from "./interfaces.ts";
import type { Price } from "./price.ts";

/** A public model. Its id is the name that callers send and that `GET /v1/models` lists. */
export interface ModelRecord {
  id: string;
  interfaces: Interface[];
  price: Price | null;
  /** Maximum input and output tokens together; null: from the price list, or unknown. */
  contextTokens: number | null;
  /** Maximum output tokens of one response; null: from the price list, or unknown. */
  outputTokensMax: number | null;
  createdAtMs: number;
}

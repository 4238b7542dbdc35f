/** The counter of input tokens, as a gateway opens it. Its thread ends when it is idle. */

import { limits } from "../../config/limits/product-limits.ts";
import { InputCounter } from "./count-input.ts";

export const INPUT_COUNTER = new InputCounter({
  limits: limits.tokenCountThread,
  monotonicMs: () => performance.now(),
});

/** Schema of `capture`: how captured requests are stored. Which requests are captured is a setting of groups and keys. */

import { z } from "zod";
import { CAPTURE_REDACTIONS } from "../../records/capture.ts";
import { limits } from "../limits/product-limits.ts";
import { describeFields, wholeNumber } from "./basic-values.ts";
import { durationWithin } from "./limits.ts";
import { durationText } from "./usage-limits.ts";

const {
  keptMs,
  keptMsMin,
  keptMsMax,
  budgetMib,
  budgetMibMin,
  budgetMibMax,
  bodyKib,
  bodyKibMin,
  bodyKibMax,
} = limits.capture;

export const capture = describeFields({
  retention: {
    is: durationWithin(keptMsMin, keptMsMax, "7d").prefault(durationText(keptMs)),
    means: "how long captures are kept, a [duration](#durations)",
  },
  budget_mib: {
    is: wholeNumber(budgetMibMin, budgetMibMax).default(budgetMib),
    means: "the space for all captures in the database, in MiB. If it is full, the oldest are deleted",
  },
  body_kib: {
    is: wholeNumber(bodyKibMin, bodyKibMax).default(bodyKib),
    means: "the limit of each captured body, in KiB. Of a longer body, the beginning and the end are kept",
  },
  redact: {
    is: z.array(z.enum(CAPTURE_REDACTIONS)).default(() => []),
    means:
      "what is removed from captures by pattern, in addition to keys, credentials and inline media, which are always removed: `email`, `card` (payment cards), `phone` (international form), `ip` (IPv4)",
    leftOut: "nothing more",
  },
});

export type FileCapture = z.output<typeof capture>;

/** Google's SDK on accounts of every dialect. */

import { describeMatrix } from "./describe-matrix.ts";
import { openGenaiClient } from "./genai-client.ts";

describeMatrix("@google/genai", { native: "gemini", open: openGenaiClient });

/** Worker that redacts, compresses and encrypts captures one after the other. See `capture-thread.ts`. */

import { serveJobs } from "../threads/serve-jobs.ts";
import type { CaptureJob } from "./capture-thread.ts";
import { buildDocument } from "./document.ts";
import { encryptDocument } from "./sealed-content.ts";

serveJobs<CaptureJob, string>(({ requestId, draft, rules, dataKey }) => ({
  result: encryptDocument(buildDocument(draft, rules), requestId, dataKey),
  transfer: [],
}));

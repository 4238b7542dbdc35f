/** Worker that counts the input of requests and the output of responses. See `count-input.ts`. */

import { serveJobs } from "../../threads/serve-jobs.ts";
import type { CountJob, CountResult } from "./count-input.ts";
import { countInputHere, countResponse } from "./count-request.ts";
import { loadTokenizer } from "./tokenizer.ts";

serveJobs<CountJob, CountResult>(
  async (job) => ({
    result:
      job.kind === "input" ? await countInputHere(job.bytes, job.output) : await countResponse(job.bytes),
    transfer: [],
  }),
  loadTokenizer(),
);

/** Worker that counts the input of requests. See `count-input.ts`. */

import { serveJobs } from "../threads/serve-jobs.ts";
import type { CountJob } from "./count-input.ts";
import { countInputHere } from "./count-request.ts";
import { loadTokenizer } from "./tokenizer.ts";

serveJobs<CountJob, number>(
  async ({ bytes, output }) => ({ result: await countInputHere(bytes, output), transfer: [] }),
  loadTokenizer(),
);

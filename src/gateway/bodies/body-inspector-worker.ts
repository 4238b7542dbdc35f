/** Worker that inspects JSON bodies and transfers each back. See `body-inspector.ts`. */

import { wholeBytesPart } from "../../base/parts.ts";
import { inspectBody } from "../../protocols/read-request.ts";
import { serveJobs } from "../threads/serve-jobs.ts";
import type { InspectedBody, InspectionJob } from "./body-inspector.ts";

serveJobs<InspectionJob, InspectedBody>(({ bytes, endpoint, limits }) => ({
  result: { bytes, inspection: inspectBody(wholeBytesPart(bytes), endpoint, limits) },
  transfer: [bytes.buffer],
}));

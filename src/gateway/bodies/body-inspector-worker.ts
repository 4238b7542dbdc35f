/** Worker that inspects JSON bodies and transfers each back. See `body-inspector.ts`. */

import { wholeBytesPart } from "../../base/parts.ts";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import { inspectBody } from "../../protocols/read-request.ts";
import { serveJobs } from "../threads/serve-jobs.ts";
import type { InspectedBody, InspectionJob } from "./body-inspector.ts";

serveJobs<InspectionJob, InspectedBody>(({ bytes, endpoint: name, model, limits }) => {
  const known = lookUpEndpoint(name);
  const endpoint = model === undefined ? known : { ...known, model };
  const inspection = inspectBody(wholeBytesPart(bytes), endpoint, limits);
  return { result: { bytes, inspection }, transfer: [bytes.buffer] };
});

/** Worker that inspects JSON bodies and transfers each back. See `body-inspector.ts`. */

import { wholeBytesPart } from "../../base/parts.ts";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import { inspectBody, readModelRequest } from "../../protocols/read-request.ts";
import { applyRules } from "../../protocols/request-policy/apply-rules.ts";
import { serveJobs } from "../../threads/serve-jobs.ts";
import type { InspectedBody, InspectionJob } from "./body-inspector.ts";

serveJobs<InspectionJob, InspectedBody>(({ bytes: received, endpoint: name, model, limits, rules }) => {
  const known = lookUpEndpoint(name);
  const endpoint = model === undefined ? known : { ...known, model };
  const scanned =
    rules === null ? null : readModelRequest(wholeBytesPart(received), endpoint, limits).scannedBody();
  const applied = rules === null || scanned === null ? null : applyRules(scanned, rules, endpoint);
  const changed = applied?.changed?.bytes ?? null;
  const bytes = changed === null ? received : new Uint8Array(changed);
  const inspection = inspectBody(wholeBytesPart(bytes), endpoint, limits);
  const policy = applied === null ? null : { changes: applied.changes, outputCap: applied.outputCap };
  return { result: { bytes, inspection, policy }, transfer: [bytes.buffer] };
});

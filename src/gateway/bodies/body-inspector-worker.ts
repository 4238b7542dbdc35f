/** Worker that inspects JSON bodies one after the other and transfers each back. See `body-inspector.ts`. */

import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { inspectBody } from "../../protocols/read-request.ts";
import type { InspectionJob, InspectionOutcome, InspectionReply } from "./body-inspector.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<InspectionJob>) => {
  const { bytes } = data;
  const reply: InspectionReply = { bytes, outcome: inspect(data) };
  self.postMessage(reply, [bytes.buffer]);
};

function inspect({ bytes, endpoint, limits }: InspectionJob): InspectionOutcome {
  try {
    return { kind: "inspected", inspection: inspectBody(wholeBytesPart(bytes), endpoint, limits) };
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause;
    const { code, message, param } = cause;
    return { kind: "refused", code, message, param };
  }
}

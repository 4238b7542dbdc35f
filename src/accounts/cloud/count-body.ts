/** Requests that count tokens at Amazon Bedrock and Google Vertex AI. */

import { joinParts, type Part, partsLength, wholePart } from "../../base/parts.ts";
import type { RequestBody, UpstreamBody } from "../../protocols/shared/request.ts";
import type { Interface } from "../../records/interfaces.ts";
import type { PolicyAccount } from "../account.ts";
import { hostedForm } from "./hosting.ts";

/** Amazon Bedrock takes the counted request in Base64. Encoding a longer one would hold the event loop too long. */
const ENCODED_BYTES_MAX = 1024 * 1024;

interface CountedRequest {
  readonly body: RequestBody;
  readonly upstreamModel: string;
  readonly iface: Interface;
}

/** Returns null if the account cannot count the tokens of this request. */
export function buildCountBody(
  account: PolicyAccount,
  { body, upstreamModel, iface }: CountedRequest,
): UpstreamBody | null {
  const form = hostedForm(account, { iface });
  if (form?.api !== "messages") return body.forUpstream(upstreamModel, form);
  // The path of Vertex AI names no model.
  if (account.kind === "vertex") return body.forUpstream(upstreamModel, { ...form, keeps: ["model"] });
  // An ARN names an inference profile, for which tokens are not counted.
  if (upstreamModel.startsWith("arn:")) return null;
  // The counted request must be complete, and a request for a count has no limit of its output.
  const content = body.withOutputCap(1).forUpstream(upstreamModel, form);
  return "open" in content || partsLength(content) > ENCODED_BYTES_MAX ? null : encodeRequest(content);
}

function encodeRequest(content: readonly Part[]): Part[] {
  const encoded = Buffer.from(joinParts(content)).toString("base64");
  return wholePart(Buffer.from(`{"input":{"invokeModel":{"body":"${encoded}"}}}`));
}

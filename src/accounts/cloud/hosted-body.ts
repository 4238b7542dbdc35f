/** Bodies and paths of Messages that Amazon Bedrock and Google Vertex AI share. */

import type { HostedForm } from "../../protocols/shared/request.ts";

export const COUNT_TOKENS_PATH = "/messages/count_tokens";

/** The form of the vendor for a request that the gateway writes itself. */
export function toHostedBody(
  form: HostedForm | null,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (form?.api !== "messages") return body;
  const { model: _model, stream, ...rest } = body;
  const kept = form.keeps.includes("stream") && stream !== undefined ? { stream } : {};
  return { anthropic_version: form.version, ...rest, ...kept };
}

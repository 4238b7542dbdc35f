/** Checks requests of Amazon Bedrock and Google Vertex AI, and responds to them as the hosted API does. */

import type { Call } from "../endpoint.ts";
import type { Rejection } from "../errors.ts";
import { respondGemini } from "../gemini/gemini-routes.ts";
import { invalidArgument } from "../gemini/google-rejection.ts";
import { isRecord, type JsonFields, parseJson, topLevelFields } from "../json-fields.ts";
import { countMessageTokens, createMessage } from "../messages/messages.ts";
import { invalidMessages } from "../messages/messages-errors.ts";
import { jsonReply, type Reply } from "../reply.ts";
import type { Simulation } from "../simulation.ts";
import { withInvocationMetrics } from "./bedrock-frames.ts";
import { bedrockRejection, invalidBedrock } from "./cloud-errors.ts";
import type { CloudPath } from "./cloud-path.ts";

/** Members of Anthropic's own API that the hosted one rejects: automatic caching and server-held conversations. */
const REJECTED_FIELDS = ["cache_control", "thread"];

/** Flags that the real services are known to reject. */
const REJECTED_BETAS: ReadonlySet<string> = new Set([
  "claude-code-20250219",
  "fast-mode-2026-02-01",
  "oauth-2025-04-20",
  "prompt-caching-scope-2026-01-05",
]);

export function respondCloud(call: Call, path: CloudPath, query: string, simulation: Simulation): Reply {
  if (path.host === "bedrock") return respondBedrock(call, path, simulation);
  return path.api === "gemini"
    ? respondVertexGemini(call, path, query)
    : respondVertexClaude(call, path, simulation);
}

function respondBedrock(call: Call, path: CloudPath, simulation: Simulation): Reply {
  if (call.fault?.name === "not-ready")
    return bedrockRejection(429, "ModelNotReadyException", "Model is not ready for inference.");
  if (call.fault?.name === "expired")
    return bedrockRejection(403, "AccessDeniedException", "Bearer Token has expired");
  const fields = path.countsTokens ? readCountInput(call.fields) : call.fields;
  if (fields === null) return invalidBedrock("Malformed input request: input.invokeModel.body is required");
  for (const name of ["model", "stream", ...REJECTED_FIELDS])
    if (fields.has(name)) return invalidBedrock(`${name}: Extra inputs are not permitted`);
  if (parseField(fields, "anthropic_version") !== "bedrock-2023-05-31")
    return invalidBedrock("anthropic_version: Field required");
  const betas = parseField(fields, "anthropic_beta") ?? [];
  if (!Array.isArray(betas) || betas.some((flag) => typeof flag !== "string" || REJECTED_BETAS.has(flag)))
    return invalidBedrock("invalid beta flag");
  const messages = asMessagesCall(call, fields, { betas: betas.join(","), path });
  if (path.countsTokens) {
    const counted = countMessageTokens(messages);
    if (counted.kind !== "json") return counted;
    const json = parseJson(counted.body);
    return jsonReply(JSON.stringify({ inputTokens: isRecord(json) ? json.input_tokens : 0 }), counted.usage);
  }
  const reply = createMessage(messages, simulation);
  return reply.kind === "events"
    ? { ...reply, frames: withInvocationMetrics(reply.frames, reply.usage) }
    : reply;
}

function respondVertexClaude(call: Call, path: CloudPath, simulation: Simulation): Reply {
  const { fields, headers } = call;
  if (parseField(fields, "anthropic_version") !== "vertex-2023-10-16")
    return invalidMessages("anthropic_version: Input should be 'vertex-2023-10-16'");
  const betas = headers?.get("anthropic-beta") ?? "";
  const refused = betas.split(",").find((flag) => REJECTED_BETAS.has(flag.trim()));
  if (refused !== undefined)
    return invalidMessages(`Unexpected value(s) \`${refused}\` for the \`anthropic-beta\` header.`);
  if (path.countsTokens) return countMessageTokens(asMessagesCall(call, fields, { betas, path }));
  const extra = ["model", ...REJECTED_FIELDS].find((name) => fields.has(name));
  if (extra !== undefined) return invalidMessages(`${extra}: Extra inputs are not permitted`);
  if ((parseField(fields, "stream") === true) !== path.streams)
    return invalidMessages("stream: does not match the method");
  return createMessage(asMessagesCall(call, fields, { betas, path }), simulation);
}

function respondVertexGemini(call: Call, { model, method }: CloudPath, query: string): Reply {
  return (
    checkVertexContents(parseField(call.fields, "contents")) ?? respondGemini(call, { model, method }, query)
  );
}

/** Unlike the Gemini API, Vertex AI requires roles and rejects the ids of calls. */
function checkVertexContents(contents: unknown): Rejection | null {
  for (const [at, content] of (Array.isArray(contents) ? contents : []).entries()) {
    if (!isRecord(content)) continue;
    if (content.role !== "user" && content.role !== "model")
      return invalidArgument("Please use a valid role: user, model.");
    for (const part of Array.isArray(content.parts) ? content.parts : []) {
      for (const [field, name] of [
        ["functionCall", "function_call"],
        ["functionResponse", "function_response"],
      ] as const) {
        const call: unknown = isRecord(part) ? part[field] : null;
        if (isRecord(call) && "id" in call)
          return invalidArgument(
            `Invalid JSON payload received. Unknown name "id" at 'contents[${at}].parts[0].${name}': Cannot find field.`,
          );
      }
    }
  }
  return null;
}

/** The request as Anthropic's own API would receive it. */
function asMessagesCall(
  call: Call,
  fields: JsonFields,
  { betas, path }: { readonly betas: string; readonly path: CloudPath },
): Call {
  const own = new Map(fields);
  own.delete("anthropic_version");
  own.delete("anthropic_beta");
  if (!own.has("model")) own.set("model", JSON.stringify(path.model));
  if (path.streams) own.set("stream", "true");
  if (path.countsTokens) own.delete("max_tokens");
  const headers = new Headers({ "anthropic-version": "2023-06-01" });
  if (betas !== "") headers.set("anthropic-beta", betas);
  return { ...call, fields: own, headers };
}

/** The counted request is a field of the body, in Base64. */
function readCountInput(fields: JsonFields): JsonFields | null {
  const input = parseField(fields, "input");
  const inner = isRecord(input) && isRecord(input.invokeModel) ? input.invokeModel.body : null;
  return typeof inner === "string" ? topLevelFields(Buffer.from(inner, "base64").toString()) : null;
}

function parseField(fields: JsonFields, name: string): unknown {
  const slice = fields.get(name);
  return slice === undefined ? null : parseJson(slice);
}

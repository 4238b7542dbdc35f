/** Accounts of kind `bedrock`: Claude at Amazon Bedrock. */

import { joinParts, type Part, partsLength, wholePart } from "../../base/parts.ts";
import { EVENT_FRAMES_TYPE } from "../../protocols/messages/bedrock-events.ts";
import type { HostedForm } from "../../protocols/shared/request.ts";
import type { PolicyAccount } from "../account.ts";
import { COUNT_TOKENS_PATH } from "../cloud/hosted-body.ts";
import { HOSTED_CLAUDE_PROFILE } from "../profiles.ts";
import type { VendorErrors } from "../vendor-errors.ts";
import { BedrockStreamSink } from "./bedrock-stream-sink.ts";
import { checkApiKey, KIND_DEFAULTS } from "./kind-defaults.ts";
import type { CountedRequest, FileFields, KindDefinition, PathTarget } from "./kind-definition.ts";

const BETAS: readonly string[] = [
  "compact-2026-01-12",
  "computer-use-2024-10-22",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "dev-full-thinking-2025-05-14",
  "effort-2025-11-24",
  "fine-grained-tool-streaming-2025-05-14",
  "interleaved-thinking-2025-05-14",
  "mid-conversation-output-config-2026-07-01",
  "mid-conversation-tool-changes-2026-07-01",
  "output-128k-2025-02-19",
  "thinking-binding-controls-2026-08-01",
  "thinking-display-updates-2026-08-18",
  "token-efficient-tools-2025-02-19",
  "tool-examples-2025-10-29",
  "tool-search-tool-2025-10-19",
];

/** Named exceptions in a header or in a stream. */
const ERRORS: VendorErrors = {
  codes: new Map(),
  types: new Map([
    ["AccessDeniedException", "credential"],
    ["UnrecognizedClientException", "credential"],
    ["ExpiredTokenException", "credential"],
    ["InvalidSignatureException", "credential"],
    ["MissingAuthenticationTokenException", "credential"],
    ["ThrottlingException", "rate_limited"],
    ["ServiceQuotaExceededException", "quota"],
    // The model is being loaded: another account, or a later attempt, may succeed.
    ["ModelNotReadyException", "overloaded"],
    ["ServiceUnavailableException", "overloaded"],
    ["ModelTimeoutException", "timeout"],
    ["ModelErrorException", "server"],
    ["ModelStreamErrorException", "server"],
    ["InternalServerException", "server"],
    ["ResourceNotFoundException", "model_missing"],
    ["ValidationException", "rejected"],
  ]),
  ambiguousTypes: [],
  texts: [
    {
      // Texts about the model arrive as an invalid request or as a missing permission.
      types: ["AccessDeniedException", "ValidationException"],
      begins:
        /^(?:the provided model identifier is invalid|invocation of model id \S{1,2048} with on-demand throughput isn.t supported|you don.t have access to the model|model access is denied|this model version has reached the end of its life|access denied\. this model is marked by provider as legacy|operation not allowed)/i,
      class: "model_missing",
    },
  ],
};

export const bedrock: KindDefinition = {
  ...KIND_DEFAULTS,
  interfaces: ["messages"],
  address: { from: "region", regionDefault: null, regionSuggested: "us-east-1", baseUrl: regionalBaseUrl },
  fields: ["region"],
  check: (account) => [...requireRegion(account), ...checkApiKey(account)],
  profile: () => HOSTED_CLAUDE_PROFILE,
  provider: "aws.bedrock",
  path: bedrockPath,
  hasStablePaths: false,
  // The flags are in the body.
  forwardedHeaders: () => "",
  hosting: { betas: BETAS, form: (_iface, betas) => hostedForm(betas) },
  framing: {
    contentType: EVENT_FRAMES_TYPE,
    open: (sink, options) => new BedrockStreamSink(sink, options),
  },
  // Bedrock counts for some models only, and rejects the others as invalid requests.
  tokenCount: { body: buildCountBody, field: "inputTokens", isRejectionFinal: false },
  errors: ERRORS,
  modelLists: ({ baseUrl, basePath }) => ({
    // Models are listed by another host than they are called by.
    baseUrl: baseUrl.replace("://bedrock-runtime.", "://bedrock."),
    // Current models of Claude can be called by an inference profile only.
    paths: [`${basePath}/inference-profiles?maxResults=1000`],
  }),
  // A key that may call models need not be allowed to list them.
  listFailures: { 403: "list_denied" },
};

function regionalBaseUrl(region: string): string {
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return `https://bedrock-runtime.${region}.${domain}`;
}

function requireRegion(account: FileFields) {
  if (Object.hasOwn(account, "region") || Object.hasOwn(account, "base_url")) return [];
  const message = "is missing. Set the region of the Bedrock endpoint, like us-east-1.";
  return [{ field: "region", message }];
}

/** Inference profiles may be ARNs, whose colons and slashes belong to the id. */
function bedrockPath({ basePath }: PolicyAccount, { path, upstreamModel, wantsEvents }: PathTarget): string {
  if (path === COUNT_TOKENS_PATH)
    return `${basePath}/model/${encodeURIComponent(foundationModel(upstreamModel))}/count-tokens`;
  const method = wantsEvents ? "invoke-with-response-stream" : "invoke";
  return `${basePath}/model/${encodeURIComponent(upstreamModel)}/${method}`;
}

/** Tokens are counted for a model and not for the inference profile of a geography. */
function foundationModel(upstreamModel: string): string {
  return upstreamModel.replace(/^[a-z-]{2,8}\.(?=anthropic\.)/, "");
}

function hostedForm(betas: readonly string[]): HostedForm {
  return { api: "messages", version: "bedrock-2023-05-31", betas, keeps: [] };
}

/** A counted request is sent in Base64. Encoding a longer one would hold the event loop too long. */
const ENCODED_BYTES_MAX = 1024 * 1024;

function buildCountBody({ body, upstreamModel }: CountedRequest): Part[] | null {
  // An ARN names an inference profile, for which tokens are not counted.
  if (upstreamModel.startsWith("arn:")) return null;
  // The counted request must be complete, and a request for a count has no limit of its output.
  const content = body.withOutputCap(1).forUpstream(upstreamModel, hostedForm([]));
  return "open" in content || partsLength(content) > ENCODED_BYTES_MAX ? null : encodeRequest(content);
}

function encodeRequest(content: readonly Part[]): Part[] {
  const encoded = Buffer.from(joinParts(content)).toString("base64");
  return wholePart(Buffer.from(`{"input":{"invokeModel":{"body":"${encoded}"}}}`));
}

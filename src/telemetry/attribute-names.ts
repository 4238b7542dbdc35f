/**
 * The attribute names of exported spans, in one table. The names of the generative-AI conventions are not stable yet:
 * these are the conventions of 2026-11, and no other file contains such a name.
 */

export const ATTRIBUTE = {
  serviceName: "service.name",
  serviceVersion: "service.version",
  serviceInstanceId: "service.instance.id",
  sdkName: "telemetry.sdk.name",
  sdkLanguage: "telemetry.sdk.language",
  sdkVersion: "telemetry.sdk.version",

  httpMethod: "http.request.method",
  httpRoute: "http.route",
  httpStatus: "http.response.status_code",
  urlPath: "url.path",
  urlScheme: "url.scheme",
  serverAddress: "server.address",
  serverPort: "server.port",
  clientAddress: "client.address",
  userAgent: "user_agent.original",
  protocolName: "network.protocol.name",
  errorType: "error.type",

  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  requestStream: "gen_ai.request.stream",
  requestTokensMax: "gen_ai.request.max_tokens",
  requestChoices: "gen_ai.request.choice.count",
  conversationId: "gen_ai.conversation.id",
  outputType: "gen_ai.output.type",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadTokens: "gen_ai.usage.cache_read.input_tokens",
  cacheCreationTokens: "gen_ai.usage.cache_creation.input_tokens",
  reasoningTokens: "gen_ai.usage.reasoning.output_tokens",

  requestId: "gateway.request_id",
  keyId: "gateway.key_id",
  userId: "gateway.user_id",
  group: "gateway.group",
  publicModel: "gateway.model",
  outcome: "gateway.outcome",
  waitMs: "gateway.wait_ms",
  attempts: "gateway.attempts",
  costNano: "gateway.cost_nano",
  account: "gateway.account",
  attempt: "gateway.attempt",
  fallbackStep: "gateway.fallback_step",
  fallbackReason: "gateway.fallback_reason",
  upstreamRequestId: "gateway.upstream_request_id",
} as const;

export type AttributeName = keyof typeof ATTRIBUTE;

/** What an endpoint does, in the words of the conventions. */
export const OPERATION_BY_INTERFACE = {
  chat: { name: "chat", outputType: "text" },
  responses: { name: "chat", outputType: "text" },
  messages: { name: "chat", outputType: "text" },
  gemini: { name: "generate_content", outputType: "text" },
  embeddings: { name: "embeddings", outputType: null },
  images: { name: "generate_content", outputType: "image" },
} as const;

/** The provider by the end of its host name. */
const PROVIDERS_BY_HOST: readonly (readonly [hostEnd: string, provider: string])[] = [
  ["openai.azure.com", "azure.ai.openai"],
  ["services.ai.azure.com", "azure.ai.inference"],
  ["api.openai.com", "openai"],
  ["anthropic.com", "anthropic"],
  ["generativelanguage.googleapis.com", "gcp.gemini"],
  ["aiplatform.googleapis.com", "gcp.vertex_ai"],
  ["deepseek.com", "deepseek"],
  ["groq.com", "groq"],
  ["mistral.ai", "mistral_ai"],
  ["x.ai", "x_ai"],
  ["moonshot.cn", "moonshot_ai"],
  ["moonshot.ai", "moonshot_ai"],
  ["perplexity.ai", "perplexity"],
  ["cohere.com", "cohere"],
  ["ml.cloud.ibm.com", "ibm.watsonx.ai"],
];

/** An upstream that is compatible with OpenAI and has another host name is reported as `openai`, by its API. */
export function findProvider(kind: string, hostname: string): string {
  if (/^bedrock[\w.-]*\.amazonaws\.com$/.test(hostname)) return "aws.bedrock";
  for (const [hostEnd, provider] of PROVIDERS_BY_HOST) {
    if (hostname === hostEnd || hostname.endsWith(`.${hostEnd}`)) return provider;
  }
  return kind;
}

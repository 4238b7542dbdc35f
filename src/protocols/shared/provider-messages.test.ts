/** Error messages of many providers, and what a client of the gateway receives. */

import { expect, test } from "bun:test";
import { publicMessage } from "./public-message.ts";

const AUDIENCE = {
  publicModel: "fast",
  upstreamModel: "gpt-6-eu-0419",
  account: { name: "primary", credential: "sk-live-zzz", baseUrl: "https://api.acme-llm.io/v1" },
  mentions: () => false,
};

/** Null: the client receives the message unchanged. Whitespace becomes one space. */
const MESSAGES: readonly [message: string, expected: string | null][] = [
  // LiteLLM
  [
    "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - ctx too long",
    null,
  ],
  [
    "litellm.BadRequestError: OpenAIException - Invalid value for 'content': expected a string, got null. Received Model Group=gpt-6-eu-0419\nAvailable Model Group Fallbacks=None",
    "litellm.BadRequestError: OpenAIException - Invalid value for 'content': expected a string, got null. Received Model Group=fast Available Model Group Fallbacks=None",
  ],
  [
    "litellm.RateLimitError: AzureException RateLimitError - Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 4 seconds.",
    "litellm.RateLimitError: AzureException RateLimitError - Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI [redacted] pricing tier. Please retry after 4 seconds.",
  ],
  [
    "litellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect API key provided: sk-proj-********************abcd. You can find your API key at https://platform.openai.com/account/api-keys.",
    "litellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect API key provided: [redacted]. You can find your API key at [redacted].",
  ],
  [
    "litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort'], for model=gpt-6-eu-0419. To drop these, set `litellm.drop_params=True` or for proxy:\n\n`litellm_settings:\n drop_params: true`",
    "litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort'], for model=fast. To drop these, set `litellm.drop_params=True` or for proxy: `litellm_settings: drop_params: true`",
  ],
  [
    "litellm.NotFoundError: No fallback model group found for original model group=gpt-6-eu-0419. Fallbacks=[]. Received Model Group=gpt-6-eu-0419",
    "litellm.NotFoundError: No fallback model group found for original model group=fast. Fallbacks=[]. Received Model Group=fast",
  ],
  ["litellm.Timeout: APITimeoutError - Request timed out. Error_str: Request timed out.", null],
  [
    'litellm.InternalServerError: VertexAIException InternalServerError - {"error":{"code":500,"message":"Internal error encountered.","status":"INTERNAL"}}',
    null,
  ],
  // OpenAI
  [
    "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens.\", 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}",
    null,
  ],
  [
    '{"error":{"message":"Unsupported value: \'temperature\' does not support 0 with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}',
    null,
  ],
  [
    "Request too large for gpt-4o in organization org-abc123DEF on tokens per min (TPM): Limit 30000, Requested 45231. The input or output tokens must be reduced in order to run successfully. Visit https://platform.openai.com/account/rate-limits to learn more.",
    "Request too large for [redacted] in organization [redacted] on tokens per min (TPM): Limit 30000, Requested 45231. The input or output tokens must be reduced in order to run successfully. Visit [redacted] to learn more.",
  ],
  [
    "Incorrect API key provided: sk-abcd****wxyz. You can find your API key at https://platform.openai.com/account/api-keys.",
    "Incorrect API key provided: [redacted]. You can find your API key at [redacted].",
  ],
  [
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
    null,
  ],
  [
    "Project `proj_AbC123` does not have access to model `gpt-6-eu-0419`",
    "Project `[redacted]` does not have access to model `fast`",
  ],
  [
    "The server had an error processing your request. Sorry about that! (Please include the request ID req_0f1e2d3c4b5a in your message.)",
    "The server had an error processing your request. Sorry about that! (Please include the request ID [redacted] in your message.)",
  ],
  [
    "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
    null,
  ],
  [
    "Could not download image from https://files.acme.example/a.png?sig=9d7",
    "Could not download image from [redacted]",
  ],
  // Azure
  [
    "Operation returned an invalid status code 'Bad Request' from acme-eastus.openai.azure.com",
    "Operation returned an invalid status code 'Bad Request' from [redacted]",
  ],
  [
    "The deployment gpt4-prod-eu does not exist at https://acme.openai.azure.com/openai/deployments/gpt4-prod-eu",
    "The deployment [redacted] does not exist at [redacted]",
  ],
  ["Principal does not have access to API/Operation.", null],
  [
    "Unsupported data type for deployment chat-eu in resource group acmerg of subscription 3f2b6c1e-0000-4f7a-9a51-1f2d3c4b5a69",
    "Unsupported data type for deployment [redacted] in resource group [redacted] of subscription [redacted]",
  ],
  // vLLM
  [
    "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {'model': 'gpt-6-eu-0419'}}]",
    "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {'model': 'fast'}}]",
  ],
  [
    "2 validation errors for ValidatorIterator\n0.ChatCompletionSystemMessageParam.role\n  Input should be 'system' [type=literal_error, input_value='user', input_type=str]",
    "2 validation errors for ValidatorIterator [redacted] Input should be 'system' [type=literal_error, input_value='user', input_type=str]",
  ],
  ["The model `gpt-6-eu-0419` does not exist.", "The model `fast` does not exist."],
  ['"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', null],
  ["ValueError: At most 1 image(s) may be provided in one request.", null],
  // Ollama
  ["model 'gpt-6-eu-0419' not found, try pulling it first", "model 'fast' not found, try pulling it first"],
  ["registry.ollama.ai/library/gpt-6-eu-0419 does not support tools", "fast does not support tools"],
  ["model requires more system memory (9.2 GiB) than is available (4.1 GiB)", null],
  ["llama runner process has terminated: cudaMalloc failed: out of memory", null],
  // DeepSeek
  [
    "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (62000 in the messages, 8000 in the completion). Please reduce the length of the messages or completion.",
    null,
  ],
  [
    "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 120",
    null,
  ],
  ["Insufficient Balance", null],
  ["deepseek-reasoner does not support Function Calling", "[redacted] does not support Function Calling"],
  // OpenRouter
  ["No endpoints found that support image input", null],
  [
    'Provider returned error: {"error":{"message":"Invalid JSON schema","code":"invalid_schema"}} via provider Fireworks (user_2aBcD3EfGh)',
    'Provider returned error: {"error":{"message":"Invalid JSON schema","code":"invalid_schema"}} via provider Fireworks ([redacted])',
  ],
  [
    "This request requires more credits, or fewer max_tokens. You requested up to 4096 tokens, but can only afford 512. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account",
    "This request requires more credits, or fewer max_tokens. You requested up to 4096 tokens, but can only afford 512. To increase, visit [redacted] and upgrade to a paid account",
  ],
  // Groq
  [
    "Rate limit reached for model `gpt-6-eu-0419` in organization `org_01hxyz` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Used 5800, Requested 400. Please try again in 2s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
    "Rate limit reached for model `fast` in organization `[redacted]` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Used 5800, Requested 400. Please try again in 2s. Need more tokens? Upgrade to Dev Tier today at [redacted]",
  ],
  ["Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", null],
  [
    "The model `llama2-70b-4096` has been decommissioned and is no longer supported. Please refer to https://console.groq.com/docs/deprecations for a recommendation on which model to use instead.",
    "The model `[redacted]` has been decommissioned and is no longer supported. Please refer to [redacted] for a recommendation on which model to use instead.",
  ],
  [
    "'messages.0' : for 'role:user' the following must be satisfied[('messages.0' : property 'timestamp' is unsupported)]",
    null,
  ],
  [
    "Tool call validation failed: attempted to call tool 'acme_lookup' which was not in request.tools",
    "Tool call validation failed: attempted to call tool '[redacted]' which was not in request.tools",
  ],
  // Mistral
  ["Tool call id was abc but must be a-z, A-Z, 0-9, with a length of 9.", null],
  [
    "Invalid model: gpt-6-eu-0419. Workspace 7d1e0f6a-1111-4222-8333-444455556666 has no access.",
    "Invalid model: fast. Workspace [redacted] has no access.",
  ],
  ["Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", null],
  ["Input should be less than or equal to 1.5 (body.temperature)", null],
  // Anthropic
  [
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01AbCdEf. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: [redacted]. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
  ],
  [
    "messages.0.content.1.image.source.base64: The image was specified using the image/png media type, but the image appears to be a image/jpeg image",
    null,
  ],
  [
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12).",
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 ([redacted]).",
  ],
  [
    "messages.5.content.0.thinking.signature: Invalid `signature` in `thinking` block (workspace wrkspc_01AcMe, organization 5f0c1c9e-aaaa-4bbb-8ccc-0123456789ab)",
    "messages.5.content.0.thinking.signature: Invalid `signature` in `thinking` block (workspace [redacted], organization [redacted])",
  ],
  // Bedrock
  [
    "Invocation of model ID gpt-6-eu-0419 with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.",
    "Invocation of model ID fast with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.",
  ],
  [
    "User: arn:aws:sts::123456789012:assumed-role/acme-llm/i-0abc is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:us-east-1:123456789012:inference-profile/acme-claude",
    "User: [redacted] is not authorized to perform: bedrock:InvokeModel on resource: [redacted]",
  ],
  [
    "Malformed input request: #/messages/0: required key [role] not found, please reformat your input and try again.",
    null,
  ],
  // Vertex AI
  [
    "Publisher Model `projects/acme-ml-prod/locations/us-central1/publishers/google/models/gpt-6-eu-0419` was not found or your project does not have access to it. Please ensure you are using a valid model version.",
    "Publisher Model `fast` was not found or your project does not have access to it. Please ensure you are using a valid model version.",
  ],
  [
    "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/acme-ml-prod/locations/us-central1' (or it may not exist).",
    "Permission '[redacted]' denied on resource '[redacted]' (or it may not exist).",
  ],
  [
    "Vertex AI API has not been used in project acme-ml-prod before or it is disabled. Consumer project_number:740989871600",
    "Vertex AI API has not been used in project [redacted] before or it is disabled. Consumer [redacted]",
  ],
  [
    "Service agent service-740989871600@gcp-sa-aiplatform.iam.gserviceaccount.com cannot read gs://acme-bucket/a.png",
    "Service agent [redacted] cannot read [redacted]",
  ],
  // Gemini
  [
    "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty for OBJECT type",
    null,
  ],
  [
    "Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/google.ai.generativelanguage.v1beta.ThinkingLevel), \"max\"",
    "Invalid value at 'generation_config.thinking_config.thinking_level' ([redacted]), \"max\"",
  ],
  [
    "API key not valid. Please pass a valid API key. AIzaSyA1b2C3d4E5f6G7h8I9j0",
    "API key not valid. Please pass a valid API key. [redacted]",
  ],
  // others
  [
    "Unauthorized: bob.smith@acme.io from 10.1.2.3 (host gpu-7.internal.acme.io:8000, trace 4bf92f3577b34da6a3ce929d0e0e4736)",
    "Unauthorized: [redacted] from [redacted] (host [redacted], trace [redacted])",
  ],
  [
    "Error in request to http://10.0.0.12:8000/v1/chat/completions: Connection refused",
    "Error in request to [redacted]: Connection refused",
  ],
  ["json_validate_failed: Failed to generate JSON. Please adjust your prompt.", null],
  ["TypeError: Object of type Undefined is not JSON serializable", null],
  ["jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'", null],
  ['organization: "acme" is over its limit', 'organization: "[redacted]" is over its limit'],
];

test.each(MESSAGES)("%s", (message, expected) => {
  expect(publicMessage(message, AUDIENCE)).toBe(expected ?? message.split(/\s+/).join(" "));
});

test.each([
  ["set password=hunter token=letmein key=sk-abc", "set password=[redacted] token=[redacted] key=[redacted]"],
  ["organization=acme project=globex", "organization=[redacted] project=[redacted]"],
  ['{"organization":"acme","project":"globex"}', '{"organization":"[redacted]","project":"[redacted]"}'],
  ["AcmeCorpError: limits of Acme Corp", "[redacted]: limits of [redacted]"],
  ["acme.BadRequestError: no", "[redacted]: no"],
  ["litellm.AcmeError at litellm.acme.io", "[redacted] at [redacted]"],
  ["gateway.internal and model.local are down", "[redacted] and [redacted] are down"],
  ["acme_prod and model_acme_error", "[redacted] and [redacted]"],
  ["--acme-token and Acme/Project", "[redacted] and [redacted]"],
  ["project gemini and deployment claude", "project [redacted] and deployment [redacted]"],
  ["On-Acme, on/ACME and non-Acme", "[redacted], [redacted] and [redacted]"],
  ["api.search.ai, Gateway.Internal and model.internal.web", "[redacted], [redacted] and [redacted]"],
  ["vllm:8000, acme:user and messages[acme]", "[redacted], [redacted] and [redacted]]"],
  [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY21lIn0.c2lnbmF0dXJl is not a valid token",
    "[redacted] is not a valid token",
  ],
  ["ExceededBudget: Team=globex over budget", "ExceededBudget: Team=[redacted] over budget"],
  ["Unauthorized: Globex Industries of Bob Smith", "Unauthorized: [redacted] of [redacted]"],
  ["a=b=c and token=abc==", "[redacted] and [redacted]"],
])("redacts names in every known notation: %s", (message, expected) => {
  expect(publicMessage(message, { ...AUDIENCE, account: null })).toBe(expected);
});

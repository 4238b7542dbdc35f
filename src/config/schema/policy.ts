/** Schemas of accounts, which connect to upstreams, and groups, which keys belong to. */

import { z } from "zod";
import { VENDORS } from "../../accounts/vendors.ts";
import { usageLimits } from "../../count-limits.ts";
import { ACCOUNT_FIELDS, ACCOUNT_KINDS } from "../../records/account.ts";
import { CAPTURE_MODES } from "../../records/capture.ts";
import {
  CHARGES,
  DEFAULT_QUEUE,
  GROUP_ACCESS,
  GROUP_FIELDS,
  ON_DISCONNECT,
  WEB_SEARCHES_DEFAULT,
} from "../../records/group.ts";
import { isProjectId } from "../../secrets/service-account.ts";
import { limits } from "../limits/product-limits.ts";
import {
  baseUrl,
  decimal,
  describeFields,
  flagFields,
  modelName,
  name,
  text,
  wholeNumber,
} from "./basic-values.ts";
import { groupFallback } from "./fallback.ts";
import { accountLimits, callerLimits, duration } from "./limits.ts";
import { allInterfaces, interfaces, priceField } from "./models.ts";
import { durationText } from "./usage-limits.ts";

const credential = text(
  "a string of visible characters, or the JSON of a service account for vertex",
  // The value is sent in a header, where other characters would be rejected or split the header. A service account
  // is not sent; config/parse/check-account.ts checks it.
  (value) => /^[\x21-\x7e]{1,8192}$/.test(value) || /^\s*\{[\x20-\x7e\s]{1,16384}\}\s*$/.test(value),
);

/** The allowed names on either side of the `models` of an account. */
const modelMapping = text(
  "a model name, or one with a single * as its last character",
  (value) =>
    value.length >= 1 && value.length <= limits.modelNameCharsMax && /^[^\s*\p{C}]*\*?$/u.test(value),
);

const flag = z.exactOptional(z.boolean());

/** What an upstream can express. Used for translated requests only. */
const profile = describeFields({
  max_tokens_field: {
    is: z.exactOptional(z.enum(["max_completion_tokens", "max_tokens"])),
    means: "the field of Chat Completions that limits the output",
    leftOut: "as the vendor",
  },
  system_role: {
    is: z.exactOptional(z.enum(["developer", "system", "user"])),
    means: "the role of instructions in Chat Completions",
    leftOut: "as the vendor",
  },
  system_position: {
    is: z.exactOptional(z.enum(["first", "any"])),
    means: "where system messages are accepted",
    leftOut: "as the vendor",
  },
  strict_schema: { is: flag, means: "whether `strict` schemas are accepted", leftOut: "as the vendor" },
  parallel_tools: { is: flag, means: "whether `parallel_tool_calls` is accepted", leftOut: "as the vendor" },
  reasoning_field: {
    is: z.exactOptional(z.enum(["reasoning_content", "reasoning", "content", "none"])),
    means: "the field of Chat Completions with the reasoning; `content`: parts of the type `thinking`",
    leftOut: "as the vendor",
  },
  reasoning_replay: {
    is: z.exactOptional(z.enum(["required", "allowed", "refused"])),
    means: "whether the reasoning of earlier turns is sent back",
    leftOut: "as the vendor",
  },
  sampling: { is: flag, means: "whether `temperature` and `top_p` are accepted", leftOut: "as the vendor" },
  thinking: {
    is: z.exactOptional(z.enum(["effort", "budget", "adaptive", "level", "none"])),
    means: "how the effort of reasoning is set",
    leftOut: "as the vendor",
  },
  stream_usage: {
    is: z.exactOptional(z.enum(["option", "always", "never"])),
    means: "whether streams report their usage",
    leftOut: "as the vendor",
  },
  custom_tools: { is: flag, means: "whether tools with free text are accepted", leftOut: "as the vendor" },
  json_schema: {
    is: z.exactOptional(z.enum(["native", "tool", "none"])),
    means: "how a schema of the response is enforced",
    leftOut: "as the vendor",
  },
  image_url: {
    is: z.exactOptional(z.enum(["remote", "inline"])),
    means: "whether the upstream fetches images by URL",
    leftOut: "as the vendor",
  },
  pdf: { is: flag, means: "whether PDF files are accepted", leftOut: "as the vendor" },
  cache: {
    is: z.exactOptional(z.enum(["explicit", "implicit", "none"])),
    means: "how prompts are cached",
    leftOut: "as the vendor",
  },
  betas: {
    is: z.exactOptional(
      text("beta flags, separated by commas", (value) => /^[\w.,: -]{1,4096}$/.test(value)),
    ),
    means:
      "for `bedrock` and `vertex`: the flags of `anthropic-beta` that the upstream accepts; the others are left out",
    leftOut: "the flags that are known to be accepted",
  },
});

export const account = describeFields({
  name: { is: name, means: "the name of the account" },
  kind: {
    is: z.enum(ACCOUNT_KINDS),
    means:
      "the kind of upstream: `openai` is any upstream with an OpenAI-compatible API, `azure` is Azure OpenAI, `anthropic` is any upstream with Anthropic's Messages API, `bedrock` is Claude at [Amazon Bedrock](vendors.md#amazon-bedrock), `gemini` is Google's Gemini API, `vertex` is Gemini and Claude at [Google Vertex AI](vendors.md#google-vertex-ai), `simulator` is the built-in simulator",
  },
  vendor: {
    is: z.enum(VENDORS).optional(),
    means:
      "the vendor of an OpenAI-compatible API: sets the base URL, the interfaces and the [capability profile](vendors.md)",
    leftOut: "none: the profile of most OpenAI-compatible servers, or OpenAI's own for its address",
    also: "only for `openai`",
  },
  profile: {
    is: profile.optional(),
    means:
      "what the upstream can express, as far as it differs from the [profile](vendors.md) of its kind or vendor",
    leftOut: "the profile of the kind or vendor",
  },
  base_url: {
    is: baseUrl.optional(),
    means:
      "the upstream's base URL, with `/v1` if the upstream has it; for `azure` the URL of the resource, with or without `/openai/v1`; for `anthropic` with or without `/v1`; for `gemini` with or without `/v1beta`",
    leftOut:
      "that of the `vendor` or of the `region`, else required for `openai` and `azure`; `https://api.anthropic.com` for `anthropic`, `https://generativelanguage.googleapis.com` for `gemini`",
    also: "not for `simulator`",
  },
  credential: {
    is: credential.optional(),
    means: "the upstream's API key, stored encrypted; for `vertex` the JSON key file of a service account",
    leftOut: "the current credential is kept, if there is one",
    also: "at most 8192 characters, 16384 for `vertex`; not for `simulator`",
  },
  region: {
    is: text("a region like us-east-1, europe-west1 or global", (value) =>
      /^[a-z]{2,10}(?:-[a-z0-9]{1,20}){0,4}$/.test(value),
    ).optional(),
    means: "where the models run; decides the address",
    leftOut: "required for `bedrock`, `global` for `vertex`",
    also: "only for `bedrock` and `vertex`",
  },
  project: {
    is: text("the id of a Google Cloud project", isProjectId).optional(),
    means: "the Google Cloud project that the requests are billed to",
    leftOut: "the project of the service account",
    also: "only for `vertex`",
  },
  interfaces: {
    is: interfaces.optional(),
    means: "the interfaces that the upstream supports",
    leftOut:
      "`messages` for `anthropic` and `bedrock`; `gemini` and `embeddings` for `gemini`; `messages` and `gemini` for `vertex`, each for the models that have it; all for `simulator`; `chat`, `responses`, `embeddings` and `images` for the others",
  },
  api_version: {
    is: text("a date like 2024-10-21 or 2025-04-01-preview, or one of v1, preview, latest", (value) =>
      /^(?:\d{4}-\d{2}-\d{2}(?:-[a-z0-9]{1,20})?|v1|preview|latest)$/.test(value),
    ).optional(),
    means:
      "the API version: a date for Azure's dated API, which has deployments in its paths; otherwise a version of the v1 API",
    leftOut: "the v1 API, without a version",
    also: "only for `azure`",
  },
  ...flagFields(ACCOUNT_FIELDS),
  priority: {
    is: wholeNumber(0, 1_000).default(1),
    means:
      "accounts with the lowest number are used first; the next number is used when none of them is available",
  },
  weight: {
    is: wholeNumber(1, 1_000).default(1),
    means: "the share of requests among accounts of the same priority",
  },
  limits: {
    is: accountLimits.optional(),
    means:
      "the upstream's limits for this credential, which the gateway does not exceed, see [Limits](#limits)",
    leftOut: "unlimited",
  },
  models: {
    is: z.record(modelMapping, modelMapping).default(() => ({ "*": "*" })),
    means: "public name → upstream name. An exact name takes precedence, then the longest pattern with `*`",
    leftOut: "every name unchanged",
    also: "a `*` at the end of both names matches the rest",
  },
});

const multiplier = decimal(6);
/** Whether the group has the model is checked in config/parse/check.ts. */
const groupModel = z.string({ error: "a model of the group" });

const billing = describeFields({
  charge: {
    is: z.enum(CHARGES).default("none"),
    means:
      "the payer: `none` (requests are free), the `balance` of the key's user, or a `subscription` of that user",
  },
  plans: {
    is: z.array(name).min(1, { error: "a list with at least one plan" }).optional(),
    means: "the plans that can be charged",
    leftOut: "any",
    also: "each one of `plans`; only with `charge: subscription`",
  },
  multiplier: { is: multiplier.optional(), means: 'multiplies the prices; `"0"` is free', leftOut: '`"1"`' },
  model_multipliers: {
    is: z.record(groupModel, multiplier).optional(),
    means: "multipliers of single models, **in addition** to the group's multiplier",
    leftOut: "none",
  },
  model_prices: {
    is: z.record(groupModel, priceField).optional(),
    means: "prices of single models in this group, instead of their other prices",
    leftOut: "none",
  },
});

const queue = describeFields({
  max_waiting: {
    is: wholeNumber(0, 1_000_000).default(DEFAULT_QUEUE.maxWaiting),
    means: "maximum number of queued requests of the group; `0` disables the queue",
  },
  timeout: {
    is: duration(limits.queueTimeoutMsMax).prefault(durationText(DEFAULT_QUEUE.timeoutMs)),
    means: "maximum total queue time of a request, a [duration](#durations)",
  },
});

export const group = describeFields({
  name: { is: name, means: "the name of the group" },
  interfaces: {
    is: interfaces.default(allInterfaces),
    means: "the interfaces that the group's keys may use",
  },
  models: {
    is: z.array(modelName).default(() => []),
    means: "the public models of the group, in the order of the list",
    also: "each one of `models`",
  },
  accounts: {
    is: z.array(name).default(() => []),
    means: "the accounts that serve the models",
    also: "each one of `accounts`",
  },
  access: {
    is: z.enum(GROUP_ACCESS).default("everyone"),
    means: "who may create keys in the group, see below",
  },
  billing: { is: billing.optional(), means: "the payer and the prices", leftOut: "requests are free" },
  limits: {
    is: callerLimits.optional(),
    means: "limits for **each key** of the group",
    leftOut: "unlimited",
  },
  group_limits: {
    is: callerLimits.optional(),
    means: "limits for **all keys** of the group together",
    leftOut: "unlimited",
  },
  queue: {
    is: queue.optional(),
    means: "the queue for a free account or a slot of a concurrency limit",
    leftOut: "the defaults of its fields",
  },
  on_disconnect: {
    is: z.enum(ON_DISCONNECT).optional(),
    means:
      "what to do when the client disconnects before the end: `cancel` aborts the upstream request, `drain` reads the response to its end, for up to ten minutes, to record the usage ([what is charged](disconnects.md))",
    leftOut: "`drain` if the group charges, else `cancel`",
  },
  web_searches_max: {
    is: wholeNumber(1, usageLimits.webSearchesMax).optional(),
    means:
      "the [web searches](billing.md#web-searches) that are held and charged for one request without a limit of its own (`max_uses`, `max_tool_calls`); sent to the account as that limit",
    leftOut: String(WEB_SEARCHES_DEFAULT),
    also: "only where a search has a price, and the group charges or has a USD limit",
  },
  ...flagFields(GROUP_FIELDS),
  capture: {
    is: z.enum(CAPTURE_MODES).default("off"),
    means:
      "which requests of the group's keys are [captured](observability.md#captured-requests) with their bodies, for administrators: `off`, `errors` (failed and rejected ones) or `all`",
  },
  request_policy: {
    is: name.optional(),
    means: "the [request policy](policies.md) of all keys of the group",
    leftOut: "requests may contain anything",
    also: "one of `request_policies`",
  },
  fallback: {
    is: groupFallback.optional(),
    means: "[other groups](routing.md) that serve a request which this group cannot serve, in this order",
    leftOut: "none",
  },
});

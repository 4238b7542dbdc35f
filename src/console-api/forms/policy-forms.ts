/**
 * Groups, accounts and models in the shape of gateway.yaml. Only the shape is checked here. The schema of the
 * file validates the values when a change is planned, with better error messages.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { account, group } from "../../config/schema/policy.ts";
import { ACCOUNT_KINDS } from "../../records/account.ts";
import { CAPTURE_MODES } from "../../records/capture.ts";
import { FALLBACK_CONDITIONS } from "../../records/fallback.ts";
import { CHARGES, GROUP_ACCESS, ON_DISCONNECT } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { Price } from "../../records/price.ts";
import { EFFORTS, OVER_DENIED, OVER_MAXIMUM, TOOL_KINDS } from "../../records/request-policy.ts";
import { limitsShape, rateFields } from "./limits-form.ts";

const usd = z.string().optional();
const interfaces = z.array(z.enum(INTERFACES));

export const priceForm = z.strictObject({
  input: usd,
  cached_input: usd,
  cache_write: usd,
  cache_write_1h: usd,
  output: usd,
  reasoning: usd,
  image_input: usd,
  audio_input: usd,
  audio_output: usd,
  image: usd,
  images: z.record(z.string(), z.string()).optional(),
  request: usd,
  long_context: z
    .strictObject({
      above: z.number(),
      input: z.string(),
      cached_input: usd,
      cache_write: usd,
      cache_write_1h: usd,
      output: usd,
      reasoning: usd,
    })
    .optional(),
  per_call: z.strictObject({ web_search: usd }).optional(),
  tier: z.strictObject({ flex: usd, priority: usd, fast: usd }).optional(),
} satisfies Record<keyof Price, unknown>);

type Switches<Shape extends z.ZodRawShape> = {
  [Name in keyof Shape as Shape[Name] extends z.ZodDefault<z.ZodBoolean>
    ? Name
    : never]: z.ZodOptional<z.ZodBoolean>;
};

/** The switches of a section of the file. */
function switches<Shape extends z.ZodRawShape>({ shape }: z.ZodObject<Shape>): Switches<Shape> {
  const names = Object.keys(shape).filter((name) => {
    const field = shape[name];
    return field instanceof z.ZodDefault && field.unwrap() instanceof z.ZodBoolean;
  });
  return Object.fromEntries(names.map((name) => [name, z.boolean().optional()])) as Switches<Shape>;
}

const fallbackConditions = {
  when: z.array(z.enum(FALLBACK_CONDITIONS)),
  /** The payer, instead of that of the target group. */
  pay: z.enum(CHARGES).optional(),
  /** A factor of the cost at the first step: `2.5`. */
  max_price: z.string().optional(),
  leave_after: z.string().optional(),
  stay: z.string().optional(),
};

export const modelForm = z.strictObject({
  id: z.string(),
  interfaces,
  price: priceForm.optional(),
  context_tokens: z.number().optional(),
  max_output_tokens: z.number().optional(),
  /** Other models that serve a request in the same group, in this order. */
  fallback: z.array(z.strictObject({ model: z.string(), ...fallbackConditions })).optional(),
});

export const accountForm = z.strictObject({
  name: z.string(),
  kind: z.enum(ACCOUNT_KINDS),
  /** The vendor of an OpenAI-compatible API. */
  vendor: z.string().optional(),
  /** What differs from the vendor's capability profile. */
  profile: z.record(z.string(), z.union([z.string(), z.boolean()])).optional(),
  base_url: z.string().optional(),
  interfaces: interfaces.optional(),
  api_version: z.string().optional(),
  /** Where the models of Amazon Bedrock or Google Vertex AI run. */
  region: z.string().optional(),
  /** The Google Cloud project of a Vertex AI account. */
  project: z.string().optional(),
  /** `private_network` is kept as long as the address stays the same. Only the configuration file can enable it. */
  ...switches(account),
  priority: z.number().optional(),
  weight: z.number().optional(),
  limits: z.strictObject(rateFields).optional(),
  /** Public name → upstream name; a trailing `*` on both sides matches the rest. */
  models: z.record(z.string(), z.string()).optional(),
});

export const groupForm = z.strictObject({
  name: z.string(),
  access: z.enum(GROUP_ACCESS).optional(),
  interfaces: interfaces.optional(),
  models: z.array(z.string()).optional(),
  accounts: z.array(z.string()).optional(),
  billing: z
    .strictObject({
      charge: z.enum(CHARGES).optional(),
      plans: z.array(z.string()).optional(),
      multiplier: z.string().optional(),
      model_multipliers: z.record(z.string(), z.string()).optional(),
      model_prices: z.record(z.string(), priceForm).optional(),
    })
    .optional(),
  /** For each key separately. */
  limits: limitsShape.optional(),
  /** For all keys of the group together. */
  group_limits: limitsShape.optional(),
  queue: z.strictObject({ max_waiting: z.number().optional(), timeout: z.string().optional() }).optional(),
  /** If omitted: `drain` if the group charges, otherwise `cancel`. */
  on_disconnect: z.enum(ON_DISCONNECT).optional(),
  /** The web searches that are paid for in a request without a limit of its own. */
  web_searches_max: z.number().optional(),
  /** Which requests of its keys are captured; `off` if omitted. */
  capture: z.enum(CAPTURE_MODES).optional(),
  /** The name of the request policy of all its keys. */
  request_policy: z.string().optional(),
  /** Other groups that serve a request, in this order. */
  fallback: z.array(z.strictObject({ group: z.string(), ...fallbackConditions })).optional(),
  ...switches(group),
});

const inputLimit = z.union([z.number(), z.literal("deny")]).optional();

export const requestPolicyForm = z.strictObject({
  name: z.string(),
  /** Owners may choose the policy for their own keys. */
  self_service: z.boolean().optional(),
  models: z.array(z.string()).optional(),
  networks: z.array(z.string()).optional(),
  input_tokens: z.strictObject({ max: z.number() }).optional(),
  output_tokens: z.strictObject({ max: z.number(), over: z.enum(OVER_MAXIMUM).optional() }).optional(),
  effort: z.strictObject({ max: z.enum(EFFORTS), over: z.enum(OVER_MAXIMUM).optional() }).optional(),
  service_tiers: z.array(z.string()).optional(),
  tools: z
    .strictObject({ deny: z.array(z.enum(TOOL_KINDS)), over: z.enum(OVER_DENIED).optional() })
    .optional(),
  inputs: z
    .strictObject({ images: inputLimit, files: inputLimit, urls: inputLimit, audio: inputLimit })
    .optional(),
  force: z
    .strictObject({ store: z.literal(false).optional(), background: z.literal(false).optional() })
    .optional(),
});

/** Identifies the content of a document: a client that saves a form sends the version that it loaded. */
export function computeVersion(document: object): string {
  return createHash("sha256").update(JSON.stringify(document)).digest("hex").slice(0, 16);
}

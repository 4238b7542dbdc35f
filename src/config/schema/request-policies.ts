/** Schema of request policies: what the requests of groups and keys may contain. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import { parseNetwork } from "../../net/http-server/networks.ts";
import {
  EFFORTS,
  FORCED_MEMBERS,
  INPUT_KINDS,
  type InputKind,
  OUTPUT_TOKENS_MIN,
  OVER_DENIED,
  OVER_MAXIMUM,
  TOOL_KINDS,
} from "../../records/request-policy.ts";
import { limits } from "../limits/product-limits.ts";
import { COUNT_MAX, describeFields, name, text, wholeNumber } from "./basic-values.ts";
import { count } from "./limits.ts";

const UNRESTRICTED = "unrestricted";

/** The list must name something: an empty one would allow nothing. */
function nonEmptyList<Element extends z.ZodType>(element: Element, noun: string) {
  return z.array(element).min(1, { error: `a list with at least one ${noun}` });
}

const modelPattern = text(
  "a model name, or the start of one with a * as its last character",
  (value) =>
    value.length >= 1 && value.length <= limits.modelNameCharsMax && /^[^\s*\p{C}]*\*?$/u.test(value),
);
const network = text(
  "a network like 10.0.0.0/8 or 2001:db8::/32, or a single address",
  (value) => parseNetwork(value) !== null,
);
const tier = text("the name of a service tier, like default", (value) =>
  /^[a-z][a-z0-9_]{0,63}$/.test(value),
);

const inputTokens = describeFields({
  max: { is: count, means: "maximum number of input tokens of a request; more are rejected" },
});
const over = z.enum(OVER_MAXIMUM).default("lower");
const outputTokens = describeFields({
  max: {
    is: wholeNumber(OUTPUT_TOKENS_MIN, COUNT_MAX),
    means: "maximum number of output tokens of a response. It is sent also if the client sets none",
  },
  over: { is: over, means: "what happens to a larger limit of the client" },
});
const effort = describeFields({
  max: {
    is: z.enum(EFFORTS),
    means: "the highest effort of reasoning that a request may set, also as a budget of tokens",
  },
  over: { is: over, means: "what happens to a higher effort" },
});
const tools = describeFields({
  deny: {
    is: nonEmptyList(z.enum(TOOL_KINDS), "kind of tool"),
    means:
      "kinds of tools of vendors, in every dialect: `web_search` is also `googleSearch` and `web_search_options`. Tools of unknown types are denied as well; functions of the client never are",
  },
  over: {
    is: z.enum(OVER_DENIED).default("drop"),
    means: "whether denied tools are removed from the request, or the request is rejected",
  },
});

const INPUT_RULE = "deny, or a whole number, 0 or more";
const INPUT_MEANINGS: Readonly<Record<InputKind, string>> = {
  images: "maximum number of images of a request, or `deny`",
  files: "maximum number of files, also uploaded ones, or `deny`",
  urls: "maximum number of images and files that the upstream fetches from a URL, or `deny`",
  audio: "maximum number of audio and video inputs, or `deny`",
};
const inputs = describeFields(
  mapKinds(INPUT_KINDS, (kind) => ({
    is: z.union([z.literal("deny"), wholeNumber(0, COUNT_MAX)], INPUT_RULE).optional(),
    means: INPUT_MEANINGS[kind],
    leftOut: UNRESTRICTED,
  })),
);
const force = describeFields(
  mapKinds(FORCED_MEMBERS, (member) => ({
    is: z
      .boolean()
      .refine((value): value is false => !value, { error: "false" })
      .optional(),
    means: `\`false\` sets \`${member}\` of requests to \`false\``,
    leftOut: "as the client sends it",
  })),
);

export const requestPolicy = describeFields({
  name: { is: name, means: "the name of the request policy" },
  self_service: {
    is: z.boolean().default(false),
    means: "whether owners of keys may choose the policy for their own keys",
  },
  models: {
    is: nonEmptyList(modelPattern, "model").optional(),
    means: "the models that may be called, of those that the group publishes",
    leftOut: "all models of the group",
    also: "a `*` at the end matches the rest; each matches one of `models`",
  },
  networks: {
    is: nonEmptyList(network, "network").optional(),
    means: "the networks that requests may come from",
    leftOut: "any network",
  },
  input_tokens: { is: inputTokens.optional(), means: "the size of the input", leftOut: UNRESTRICTED },
  output_tokens: { is: outputTokens.optional(), means: "the size of the output", leftOut: UNRESTRICTED },
  effort: { is: effort.optional(), means: "the effort of reasoning", leftOut: UNRESTRICTED },
  service_tiers: {
    is: nonEmptyList(tier, "service tier").optional(),
    means: "the service tiers that a request may name; others are rejected. `speed` of Messages is one, too",
    leftOut: UNRESTRICTED,
  },
  tools: { is: tools.optional(), means: "denied tools", leftOut: UNRESTRICTED },
  inputs: { is: inputs.optional(), means: "inputs besides text; more are rejected", leftOut: UNRESTRICTED },
  force: { is: force.optional(), means: "members that are always `false`", leftOut: "none" },
});

/** Schemas of accounts, which connect to upstreams, and groups, which keys belong to. */

import { z } from "zod";
import { CHARGES, DEFAULT_QUEUE, GROUP_ACCESS, ON_DISCONNECT } from "../../records.ts";
import { limits } from "../product-limits.ts";
import { accountLimits, callerLimits } from "./limits.ts";
import { allInterfaces, interfaces, modelName, priceField } from "./models.ts";
import { durationMs, durationText } from "./usage-limits.ts";
import { baseUrl, decimal, described, name, text, wholeNumber } from "./words.ts";

export const FILE_ACCOUNT_KINDS = ["openai", "azure", "anthropic", "gemini", "simulator"] as const;

const credential = text(
  "a string of visible characters",
  // The value is sent in a header. Other characters would be rejected there, or split the header.
  (value) => /^[\x21-\x7e]{1,8192}$/.test(value),
);

/** The allowed names on either side of the `models` of an account. */
const mapped = text(
  "a model name, or one with a single * as its last character",
  (value) =>
    value.length >= 1 && value.length <= limits.modelNameCharsMax && /^[^\s*\p{C}]*\*?$/u.test(value),
);

export const account = described({
  name: { is: name, means: "what it is called here" },
  kind: {
    is: z.enum(FILE_ACCOUNT_KINDS),
    means:
      "what it speaks: `openai` is anything that speaks OpenAI's API, `azure` is Azure OpenAI, `simulator` is built in and answers by itself",
    also: "`anthropic` and `gemini` are refused in this version",
  },
  base_url: {
    is: baseUrl.optional(),
    means:
      "the upstream's address, with its `/v1` if it has one; of `azure` that of the resource, with `/openai/v1` or without",
    leftOut: "required for `openai` and `azure`",
    also: "not for `simulator`",
  },
  credential: {
    is: credential.optional(),
    means: "the upstream's API key, sealed in the store",
    leftOut: "the present one is kept, if there is one",
    also: "up to 8192 of them; not for `simulator`",
  },
  interfaces: { is: interfaces.default(allInterfaces), means: "what this upstream speaks" },
  websocket: {
    is: z.boolean().default(false),
    means:
      "its `/responses` accepts WebSocket: turns that come over a WebSocket go out over one. An upstream that refuses to is spoken to over HTTP for ten minutes, the log says `websocket_unspoken`, and `doctor` finds it out before",
    also: "only with `responses` among its interfaces",
  },
  api_version: {
    is: text("a date like 2024-10-21 or 2025-04-01-preview, or one of v1, preview, latest", (value) =>
      /^(?:\d{4}-\d{2}-\d{2}(?:-[a-z0-9]{1,20})?|v1|preview|latest)$/.test(value),
    ).optional(),
    means:
      "the version to ask for: a date for Azure's dated API, which names deployments in its paths; else one of its v1 API",
    leftOut: "its v1 API, without a version",
    also: "only for `azure`",
  },
  private_network: {
    is: z.boolean().default(false),
    means: "loopback and private addresses may be dialled; only this file can say so",
    also: "not for `simulator`",
  },
  priority: {
    is: wholeNumber(0, 1_000).default(1),
    means: "accounts with the lowest number are used first; others when none of these can",
  },
  weight: { is: wholeNumber(1, 1_000).default(1), means: "its share among accounts of one priority" },
  limits: {
    is: accountLimits.optional(),
    means: "what the upstream grants this credential; the gateway stays within it, see [Limits](#limits)",
    leftOut: "unlimited",
  },
  models: {
    is: z.record(mapped, mapped).default(() => ({ "*": "*" })),
    means: "public name → upstream name. An exact name wins, then the longest `*`",
    leftOut: "every name as it is",
    also: "a `*` at the end of both stands for the rest",
  },
  enabled: { is: z.boolean().default(true), means: "whether it is used" },
});

const multiplier = decimal(6);
/** Whether the group has the model is checked in config/parse/check.ts. */
const modelOfGroup = z.string({ error: "a model of the group" });

const billing = described({
  charge: {
    is: z.enum(CHARGES).default("none"),
    means: "nobody pays, the `balance` of the key's user does, or a `subscription` of that user",
  },
  plans: {
    is: z.array(name).min(1, { error: "a list with at least one plan" }).optional(),
    means: "the plans that may pay",
    leftOut: "any",
    also: "each one of `plans`; only with `charge: subscription`",
  },
  multiplier: { is: multiplier.optional(), means: 'times the price; `"0"` is free', leftOut: '`"1"`' },
  model_multipliers: {
    is: z.record(modelOfGroup, multiplier).optional(),
    means: "for single models of the group, **times** the group's multiplier",
    leftOut: "none",
  },
  model_prices: {
    is: z.record(modelOfGroup, priceField).optional(),
    means: "for single models of the group, instead of their price elsewhere",
    leftOut: "none",
  },
});

/** Bounds the wait, and the timer that implements it. */
const queueTimeout = text(
  `a duration like 30s, at most ${durationText(limits.queueTimeoutMsMax)}`,
  (value) => {
    const ms = durationMs(value);
    return ms !== null && ms <= limits.queueTimeoutMsMax;
  },
).transform((value) => durationMs(value) ?? 0);

const queue = described({
  max_waiting: {
    is: wholeNumber(0, 1_000_000).default(DEFAULT_QUEUE.maxWaiting),
    means: "how many requests of the group may wait, whatever for; 0: none waits",
  },
  timeout: {
    is: queueTimeout.prefault(durationText(DEFAULT_QUEUE.timeoutMs)),
    means: "how long each may wait in all, a [duration](#durations)",
  },
});

export const group = described({
  name: { is: name, means: "what it is called" },
  interfaces: { is: interfaces.default(allInterfaces), means: "what its keys may call" },
  models: {
    is: z.array(modelName).default(() => []),
    means: "public models it publishes, in the order of the list",
    also: "each one of `models`",
  },
  accounts: {
    is: z.array(name).default(() => []),
    means: "accounts that serve them",
    also: "each one of `accounts`",
  },
  access: { is: z.enum(GROUP_ACCESS).default("everyone"), means: "who may make keys in it, see below" },
  billing: { is: billing.optional(), means: "who pays, and how much", leftOut: "nobody pays" },
  limits: { is: callerLimits.optional(), means: "for **each key** of the group", leftOut: "unlimited" },
  group_limits: {
    is: callerLimits.optional(),
    means: "for **all keys** of the group together",
    leftOut: "unlimited",
  },
  queue: {
    is: queue.optional(),
    means: "where requests wait for a free account, or for a slot of a concurrency limit",
    leftOut: "as its fields say",
  },
  on_disconnect: {
    is: z.enum(ON_DISCONNECT).optional(),
    means:
      "when the client leaves before the end: `cancel` stops the upstream, `drain` reads its answer to the end, for up to ten minutes, so that its usage is known ([what is charged](billing.md#when-a-client-leaves))",
    leftOut: "`drain` where the group charges, else `cancel`",
  },
  websocket: {
    is: z.boolean().default(true),
    means:
      "its keys may use Responses over WebSocket; without it `GET /v1/responses` is a `426`, and clients go on over HTTP",
  },
});

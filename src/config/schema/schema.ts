/**
 * The schema of gateway.yaml with the description of each field, from which docs/configuration.md is generated
 * (config/reference/reference.ts). Only this schema decides which fields are required. Rules that span several
 * places of the file (references, duplicates) are in config/parse/check.ts, so that one invalid value does not
 * hide them.
 */

import { z } from "zod";
import { model } from "./models.ts";
import { key, plan, user } from "./people.ts";
import { account, group } from "./policy.ts";
import { alerts, registration, retention, server, smtp } from "./settings.ts";
import { described } from "./words.ts";

export { modelName, modelSizes, priceField } from "./models.ts";
export { isPassword, PASSWORD_RULE } from "./people.ts";
export { FILE_ACCOUNT_KINDS } from "./policy.ts";
export {
  EMAIL_RULE,
  fields,
  INSTANT_RULE,
  instantMs,
  isEmail,
  isHttpUrl,
  isName,
  NAME_RULE,
  PUBLIC_URL_RULE,
  startMs,
  text,
} from "./words.ts";

const AS_BEFORE = "what was applied before goes on";

export const gatewayFile = described({
  server: {
    is: server.default(() => ({})),
    means:
      "where this process listens. Read by `start --config` only; a flag or an environment variable of the same meaning wins",
  },
  registration: {
    is: registration.optional(),
    means:
      "who may register. `closed`: nobody; users are named in this file, or made and invited by administrators. `invite`: whoever has an invitation, a link that works once. `open`: anybody",
    leftOut: `${AS_BEFORE}; \`closed\` to begin with`,
  },
  retention: {
    is: retention.optional(),
    means: "how long records of single requests stay. Sums by hour and by day, and the ledger, stay for ever",
    leftOut: AS_BEFORE,
  },
  smtp: {
    is: smtp.optional(),
    means:
      "the server that mail goes out by: verification of addresses, forgotten passwords, invitations. Without one there are links that an administrator hands over",
    leftOut: `${AS_BEFORE}; given, it is taken as a whole`,
  },
  alerts: {
    is: alerts.optional(),
    means:
      "what the gateway watches, and which webhooks are told. [Alerts](alerts.md) says when each rule speaks, what is posted, and how to check that it comes from here",
    leftOut: `${AS_BEFORE}; given, it is taken as a whole`,
  },
  models: {
    is: z.array(model).default(() => []),
    means: "public names, exactly as clients send them and `GET /v1/models` lists them",
  },
  accounts: {
    is: z.array(account).default(() => []),
    means: "upstream credentials, and how to reach what they open",
  },
  groups: {
    is: z.array(group).default(() => []),
    means: "what a key is assigned to: it grants models, accounts and limits",
  },
  plans: {
    is: z.array(plan).default(() => []),
    means:
      "what users can be granted beside a balance: so much money in each window of time. Groups with `billing.charge: subscription` let it pay; see [Subscriptions](billing.md#subscriptions)",
  },
  users: {
    is: z.array(user).default(() => []),
    means: "people: who signs in, whose keys they are, and who pays",
  },
  keys: {
    is: z.array(key).default(() => []),
    means: "what callers send. A key is known by its user and its name",
  },
});

export type GatewayFile = z.output<typeof gatewayFile>;
/** The sections of a file before validation. */
export type GatewayDocument = {
  readonly [section in keyof GatewayFile]?: GatewayFile[section] extends readonly unknown[]
    ? readonly object[]
    : unknown;
};
export type FileModel = GatewayFile["models"][number];
export type FileAccount = GatewayFile["accounts"][number];
export type FileGroup = GatewayFile["groups"][number];
export type FilePlan = GatewayFile["plans"][number];
export type FileUser = GatewayFile["users"][number];
export type FileSubscription = NonNullable<FileUser["subscriptions"]>[number];
export type FileKey = GatewayFile["keys"][number];

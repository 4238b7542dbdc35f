/**
 * The schema of gateway.yaml with the description of each field, from which docs/configuration.md is generated
 * (config/reference/reference.ts). Only this schema decides which fields are required. Rules that span several
 * places of the file (references, duplicates) are in config/parse/check.ts, so that one invalid value does not
 * hide them.
 */

import { z } from "zod";
import { alerts } from "./alerts.ts";
import { describeFields } from "./basic-values.ts";
import { capture } from "./capture.ts";
import { model } from "./models.ts";
import { key, plan, user } from "./people.ts";
import { account, group } from "./policy.ts";
import { requestPolicy } from "./request-policies.ts";
import { scim } from "./scim.ts";
import { serviceAccount } from "./service-accounts.ts";
import { registration, retention, server, smtp } from "./settings.ts";
import { signIn } from "./sign-in.ts";
import { log, telemetry } from "./telemetry.ts";
import { toolSignIn } from "./tool-sign-in.ts";
import { usageExport } from "./usage-export.ts";

const KEEPS_STORED_VALUE = "the current setting is kept";

export const gatewayFile = describeFields({
  server: {
    is: server.default(() => ({})),
    means:
      "the address of this process. Only `start --config` reads this section; the corresponding flags and environment variables take precedence",
  },
  telemetry: {
    is: telemetry.optional(),
    means:
      "the export of traces. Only `start --config` reads this section; the corresponding environment variables take precedence. [Observability](observability.md) describes the spans",
    leftOut: "no traces are exported, unless the environment configures it",
  },
  log: {
    is: log.optional(),
    means: "what this process logs. Only `start --config` reads this section",
    leftOut: "the access log is off",
  },
  capture: {
    is: capture.optional(),
    means:
      "how [captured requests](observability.md#captured-requests) are stored. Only `start --config` reads this section. Which requests are captured is a setting of groups and keys",
    leftOut: "the defaults of its fields",
  },
  registration: {
    is: registration.optional(),
    means:
      "the registration mode. `closed`: no registration; users are defined in this file, or created or invited by administrators. `invite`: with an invitation, a link that works once. `open`: for everyone",
    leftOut: `${KEEPS_STORED_VALUE}; initially \`closed\``,
  },
  sign_in: {
    is: signIn.optional(),
    means:
      "how people sign in: passwords, and OpenID Connect providers of a company. [Sign-in](sign-in.md) has the steps for each provider",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole. Initially passwords`,
  },
  scim: {
    is: scim.optional(),
    means:
      "the directory that pushes people and groups by SCIM 2.0, with the token of a service account with the scope `scim`. [Directory](directory.md) has the steps for Okta and Microsoft Entra",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole. Initially off`,
  },
  tool_sign_in: {
    is: toolSignIn.optional(),
    means:
      "lets tools on people's computers sign in instead of holding a key: Claude Code with `/login`, others with `npx model-gateway login`. Needs `server.public_url`. [Sign-in](sign-in.md#tools) describes it",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole. Initially off`,
  },
  retention: {
    is: retention.optional(),
    means: "the retention of request records. Hourly and daily roll-ups and the ledger are kept forever",
    leftOut: KEEPS_STORED_VALUE,
  },
  smtp: {
    is: smtp.optional(),
    means:
      "the mail server for address verification, password resets and invitations. Without a mail server, an administrator creates links and passes them on",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole`,
  },
  alerts: {
    is: alerts.optional(),
    means:
      "the alert rules, and the webhooks that receive the alerts. [Alerts](alerts.md) describes the condition of each rule, the payload, and how to verify its signature",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole`,
  },
  usage_export: {
    is: usageExport.optional(),
    means:
      "the export of usage to other systems: a feed of all requests, for webhooks and for programs that pull it. [Usage export](usage-export.md) describes the records and the delivery",
    leftOut: `${KEEPS_STORED_VALUE}; otherwise the section is replaced as a whole. Initially disabled`,
  },
  models: {
    is: z.array(model).default(() => []),
    means: "the public models, with the names that clients send and `GET /v1/models` lists",
  },
  accounts: {
    is: z.array(account).default(() => []),
    means: "upstream accounts: the credential and the address",
  },
  request_policies: {
    is: z.array(requestPolicy).default(() => []),
    means:
      "what requests may contain: models, networks, sizes, efforts, tools and inputs. Groups and keys name a policy; see [Request policies](policies.md)",
  },
  groups: {
    is: z.array(group).default(() => []),
    means: "groups of keys: the models, accounts, price and limits of their keys",
  },
  plans: {
    is: z.array(plan).default(() => []),
    means:
      "subscription plans: a quota in USD per time window. Groups with `billing.charge: subscription` charge it; see [Subscriptions](subscriptions.md)",
  },
  users: {
    is: z.array(user).default(() => []),
    means: "the users, who sign in, own keys and pay",
  },
  keys: {
    is: z.array(key).default(() => []),
    means: "the API keys. A key is identified by its user and its name",
  },
  service_accounts: {
    is: z.array(serviceAccount).default(() => []),
    means:
      "programs that call the console API under their own name, such as a payment system or CI. [Service accounts](service-accounts.md) describes their tokens, which are not part of this file",
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
export type FileRequestPolicy = GatewayFile["request_policies"][number];
export type FileGroup = GatewayFile["groups"][number];
export type FilePlan = GatewayFile["plans"][number];
export type FileUser = GatewayFile["users"][number];
export type FileSubscription = NonNullable<FileUser["subscriptions"]>[number];
export type FileKey = GatewayFile["keys"][number];
export type FileServiceAccount = GatewayFile["service_accounts"][number];

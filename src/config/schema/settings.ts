/**
 * Schemas of the settings of the installation: listening, registration, retention, mail. An omitted
 * section keeps its applied values, except for `server`. A section that is present replaces the stored one as a
 * whole.
 */

import { z } from "zod";
import { REGISTRATIONS, SMTP_SECURITY } from "../../records/settings.ts";
import { limits } from "../limits/product-limits.ts";
import {
  describeFields,
  HOST_RULE,
  host,
  isEmail,
  isHttpUrl,
  text,
  url,
  wholeNumber,
} from "./basic-values.ts";
import { durationMs, durationText } from "./usage-limits.ts";
import { PRIVATE_NETWORK } from "./webhooks.ts";

/** An origin as browsers send it: only scheme, host and port, in lower case. */
const origin = text("an origin like https://app.example.com, without a path", (value) => {
  return isHttpUrl(value) && new URL(value).origin === value;
});

/** A host name as in the Host header, without the port. */
const hostName = text("a host name like gateway.lan, without a scheme or a port", (value) => {
  return /^(?!-)[A-Za-z0-9._-]{1,253}$/.test(value);
});

const MIB = 2 ** 20;
const LARGE_BODIES_MIB_MAX = 1_048_576;

export const DRAIN_DELAY_RULE = `a duration like 5s, at most ${durationText(limits.drainDelayMsMax)}, or 0s`;

/** Null if the value breaks the rule. */
export function parseDrainDelay(value: string): number | null {
  const ms = /^0m?s?$/.test(value) ? 0 : durationMs(value);
  return ms === null || ms > limits.drainDelayMsMax ? null : ms;
}

export type ProcessesSetting = number | "auto";
export const PROCESSES_RULE = `auto, or a number from 1 to ${limits.processes.max}`;

/** Null if the value breaks the rule. */
export function parseProcesses(value: string): ProcessesSetting | null {
  if (value === "auto") return value;
  const count = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  return count >= 1 && count <= limits.processes.max ? count : null;
}

export const COORDINATOR_LOSS = ["share", "closed", "open"] as const;
export type CoordinatorLossSetting = (typeof COORDINATOR_LOSS)[number];

export const server = describeFields({
  host: {
    is: text("an address or host name to listen on", (value) =>
      /^[A-Za-z0-9.:_-]{1,253}$/.test(value),
    ).optional(),
    means: "the address to listen on (`--host`, `HOST`); `0.0.0.0` listens on all addresses",
    leftOut: "`127.0.0.1`",
  },
  port: {
    is: wholeNumber(0, 65_535).optional(),
    means: "the port to listen on (`--port`, `PORT`); `0` chooses a free port",
    leftOut: "`8787`",
  },
  public_url: {
    is: url.optional(),
    means: "the public address of the gateway, used in links (`PUBLIC_URL`)",
    leftOut: "derived from host and port",
  },
  allowed_origins: {
    is: z.array(origin).optional(),
    means:
      "origins of web pages that may open a WebSocket, besides the gateway's own. Clients that send no origin are always allowed",
    leftOut: "none",
  },
  allowed_hosts: {
    is: z.array(hostName).optional(),
    means:
      "host names, besides the one of `public_url`, for the console, the explorer, the documentation and `/api`. IP addresses and `localhost` are always allowed. Requests for other host names are rejected with `misdirected_request`, which protects against DNS rebinding. `/v1` is served under any host name",
    leftOut: "none",
  },
  large_bodies_mib: {
    is: wholeNumber(limits.largeBodies.bytesMin / MIB, LARGE_BODIES_MIB_MAX).optional(),
    means:
      "memory for all request bodies and stored responses above 1 MiB together, in MiB. If it is full, a request waits briefly and is then rejected with `no_room_for_body`",
    leftOut: `a quarter of the available memory, from ${limits.largeBodies.bytesMin / MIB} to ${limits.largeBodies.bytesMax / MIB}`,
  },
  drain_delay: {
    is: text(DRAIN_DELAY_RULE, (value) => parseDrainDelay(value) !== null).optional(),
    means:
      "at shutdown, how long the node serves new requests after `/readyz` reports 503, until load balancers have noticed (`DRAIN_DELAY`). Longer than the interval of their checks",
    leftOut: `\`${durationText(limits.drainDelayMs)}\` on PostgreSQL, \`0s\` on SQLite`,
  },
  processes: {
    is: z.union([z.literal("auto"), wholeNumber(1, limits.processes.max)], PROCESSES_RULE).optional(),
    means:
      "how many processes serve the port (`--processes`, `PROCESSES`), each a node of its own: see [all cores of one machine](many-nodes.md#all-cores-of-one-machine). `auto`: one for each core. More than one needs PostgreSQL and Linux",
    leftOut: "`1`",
  },
  on_coordinator_loss: {
    is: z.enum(COORDINATOR_LOSS).optional(),
    means:
      "with several nodes, what happens to requests with limits while no node reaches the [coordinator of limits](many-nodes.md#limits) (`ON_COORDINATOR_LOSS`). `share`: each node serves its part of the limit. `closed`: they are rejected with `store_unavailable`. `open`: each node serves the whole limit",
    leftOut: "`share`",
  },
});

export type FileServer = z.output<typeof server>;

export const registration = z.enum(REGISTRATIONS);

/** Null keeps usage rows forever. With less than a week, a late settlement could be counted twice. */
const usageRowsKept = text(
  `a duration like 90d, at least ${durationText(limits.usageRowsKeptMsMin)}, or forever`,
  (value) => value === "forever" || (durationMs(value) ?? 0) >= limits.usageRowsKeptMsMin,
).transform((value) => (value === "forever" ? null : durationMs(value)));

/** 0 stores no responses. */
const responsesKept = text(
  `a duration like 30d, at most ${durationText(limits.storedResponses.keptMsMax)}, or none`,
  (value) => value === "none" || isBetween(durationMs(value), limits.storedResponses),
).transform((value) => (value === "none" ? 0 : (durationMs(value) ?? 0)));

function isBetween(ms: number | null, { keptMsMin, keptMsMax }: { keptMsMin: number; keptMsMax: number }) {
  return ms !== null && ms >= keptMsMin && ms <= keptMsMax;
}

export const retention = describeFields({
  usage_rows: {
    is: usageRowsKept.optional(),
    means:
      "the retention of request rows: the request lists, `GET /v1/requests/{id}`, and the location of stored responses. A [duration](#durations). PostgreSQL drops [whole partitions](maintenance.md#retention), so rows stay up to a day longer, or a week if they are kept for more than 31 days, or a month for more than a year",
    leftOut: "the current setting is kept; initially `forever`",
  },
  responses: {
    is: responsesKept.optional(),
    means:
      "how long the gateway stores responses of accounts that have another interface than Responses, for `previous_response_id` and `GET /v1/responses/{id}`. They are sealed; a request with `store: false` is not stored. `none` writes no response to the database: they stay in memory, for a while",
    leftOut: "the current setting is kept; initially `30d`",
  },
});

const SENDER_RULE = "an e-mail address, or a name and an address, like Gateway <gateway@example.com>";

/** The value becomes a header, so it must not contain characters that end one. */
function isSender(value: string): boolean {
  const address = /^(?:[^<>"\p{C}]{1,100} )?<([^<>]+)>$/u.exec(value)?.[1] ?? value;
  return isEmail(address);
}

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i;

export const smtp = describeFields({
  enabled: { is: z.boolean().default(true), means: "`false` deletes the mail settings, and no mail is sent" },
  host: { is: host.optional(), means: "the mail server", leftOut: "required, unless `enabled` is `false`" },
  port: { is: wholeNumber(1, 65_535).default(587), means: "the port of the mail server" },
  security: {
    is: z.enum(SMTP_SECURITY).default("starttls"),
    means:
      "`tls`: TLS from the start (usual on port 465). `starttls`: upgrade before login (587). `none`: unencrypted; with a `user` only for a server on this machine",
  },
  user: {
    is: text("the name to sign in with, 1 to 256 characters", (value) =>
      /^[^\p{C}]{1,256}$/u.test(value),
    ).optional(),
    means: "the user name at the mail server",
    leftOut: "no login",
  },
  password: {
    is: text("a password of 1 to 1024 characters", (value) => /^[^\p{C}]{1,1024}$/u.test(value)).optional(),
    means: "the password of `user`, stored encrypted",
    leftOut: "the current password is kept if host and user are unchanged; otherwise required with `user`",
  },
  from: {
    is: text(SENDER_RULE, isSender).optional(),
    means: "the sender of mails",
    leftOut: "required, unless `enabled` is `false`",
  },
  private_network: PRIVATE_NETWORK,
})
  .refine((value) => !value.enabled || value.host !== undefined, { error: HOST_RULE, path: ["host"] })
  .refine((given) => !given.enabled || given.from !== undefined, { error: SENDER_RULE, path: ["from"] })
  .refine((given) => given.user !== undefined || given.password === undefined, {
    error: "set together with password: it is the name to sign in with",
    path: ["user"],
  })
  .refine(
    (given) =>
      given.security !== "none" || given.user === undefined || LOOPBACK.test(given.host ?? "localhost"),
    {
      error: "tls or starttls if user is set, because the password would be sent unencrypted",
      path: ["security"],
    },
  );

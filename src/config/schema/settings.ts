/**
 * Schemas of the settings of the installation: listening, registration, retention, mail, alerts. An omitted
 * section keeps its applied values, except for `server`. A section that is present replaces the stored one as a
 * whole.
 */

import { z } from "zod";
import { DEFAULT_ALERTS, REGISTRATIONS, SMTP_SECURITY } from "../../records.ts";
import { limits } from "../product-limits.ts";
import { durationMs, durationText } from "./usage-limits.ts";
import {
  described,
  HOST_RULE,
  host,
  isEmail,
  isHttpUrl,
  name,
  postUrl,
  text,
  url,
  wholeNumber,
  windowUsd,
} from "./words.ts";

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

export const server = described({
  host: {
    is: text("an address or host name to listen on", (value) =>
      /^[A-Za-z0-9.:_-]{1,253}$/.test(value),
    ).optional(),
    means: "the address to listen on (`--host`, `HOST`); `0.0.0.0` listens everywhere",
    leftOut: "`127.0.0.1`",
  },
  port: {
    is: wholeNumber(0, 65_535).optional(),
    means: "the port (`--port`, `PORT`); 0 takes a free one",
    leftOut: "`8787`",
  },
  public_url: {
    is: url.optional(),
    means: "the address that people use, for links (`PUBLIC_URL`)",
    leftOut: "made from host and port",
  },
  allowed_origins: {
    is: z.array(origin).optional(),
    means:
      "web pages that may open a WebSocket beside the gateway's own; programs send no origin, and need not be named",
    leftOut: "none",
  },
  allowed_hosts: {
    is: z.array(hostName).optional(),
    means:
      "names beside that of `public_url` under which the console, the explorer, the documentation and `/api` are served. IP addresses and `localhost` always are; a request for any other name is refused with `misdirected_request`, so that a web page cannot reach them by a name of its own (DNS rebinding). `/v1` is served under any name",
    leftOut: "none",
  },
  large_bodies_mib: {
    is: wholeNumber(limits.largeBodies.bytesMin / MIB, LARGE_BODIES_MIB_MAX).optional(),
    means:
      "memory for request bodies above 1 MiB, those of all clients together, in MiB. Whoever finds none free waits a moment, and is then refused with `no_room_for_body`",
    leftOut: `a quarter of the memory there is, from ${limits.largeBodies.bytesMin / MIB} to ${limits.largeBodies.bytesMax / MIB}`,
  },
});

export const registration = z.enum(REGISTRATIONS);

/** Null keeps usage rows forever. With less than a week, a late settlement could be counted twice. */
const usageRowsKept = text(
  `a duration like 90d, at least ${durationText(limits.usageRowsKeptMsMin)}, or forever`,
  (value) => value === "forever" || (durationMs(value) ?? 0) >= limits.usageRowsKeptMsMin,
).transform((value) => (value === "forever" ? null : durationMs(value)));

export const retention = described({
  usage_rows: {
    is: usageRowsKept.optional(),
    means:
      "one row a request: lists of requests, `GET /v1/requests/{id}`, and where a stored response lives. A [duration](#durations)",
    leftOut: "what was applied before goes on; `forever` to begin with",
  },
});

const SENDER_RULE = "an e-mail address, or a name and one, like Gateway <gateway@example.com>";

/** The value becomes a header, so it must not contain characters that end one. */
function isSender(value: string): boolean {
  const address = /^(?:[^<>"\p{C}]{1,100} )?<([^<>]+)>$/u.exec(value)?.[1] ?? value;
  return isEmail(address);
}

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i;

const PRIVATE_NETWORK = {
  is: z.boolean().default(false),
  means: "a loopback or private address may be dialled; only this file can say so",
};

export const smtp = described({
  enabled: { is: z.boolean().default(true), means: "`false` forgets all of this: no mail is sent" },
  host: { is: host.optional(), means: "the server", leftOut: "required, unless `enabled` is `false`" },
  port: { is: wholeNumber(1, 65_535).default(587), means: "its port" },
  security: {
    is: z.enum(SMTP_SECURITY).default("starttls"),
    means:
      "`tls` from the first byte (usual on port 465), `starttls` before anything is said (587), or `none`, which with a `user` is for a server on this machine only",
  },
  user: {
    is: text("the name to sign in with, 1 to 256 characters", (value) =>
      /^[^\p{C}]{1,256}$/u.test(value),
    ).optional(),
    means: "who signs in",
    leftOut: "nobody signs in",
  },
  password: {
    is: text("a password of 1 to 1024 characters", (value) => /^[^\p{C}]{1,1024}$/u.test(value)).optional(),
    means: "what `user` signs in with; sealed in the store",
    leftOut:
      "the present one is kept, as long as host and user stay; required with `user` where there is none",
  },
  from: {
    is: text(SENDER_RULE, isSender).optional(),
    means: "the sender",
    leftOut: "required, unless `enabled` is `false`",
  },
  private_network: PRIVATE_NETWORK,
})
  .refine((given) => !given.enabled || given.host !== undefined, { error: HOST_RULE, path: ["host"] })
  .refine((given) => !given.enabled || given.from !== undefined, { error: SENDER_RULE, path: ["from"] })
  .refine((given) => given.user !== undefined || given.password === undefined, {
    error: "given together with password: it is the name to sign in with",
    path: ["user"],
  })
  .refine(
    (given) =>
      given.security !== "none" || given.user === undefined || LOOPBACK.test(given.host ?? "localhost"),
    {
      error: "tls or starttls where somebody signs in: anybody on the way could read the password",
      path: ["security"],
    },
  );

const webhook = described({
  name: { is: name, means: "what it is called here" },
  url: {
    is: postUrl,
    means: "where to post. Administrators see it: what must stay secret belongs into `secret`",
  },
  secret: {
    is: text("a secret of 16 to 256 visible characters", (value) =>
      /^[\x21-\x7e]{16,256}$/.test(value),
    ).optional(),
    means: "what postings are signed with; sealed in the store",
    leftOut: "the present one of this name is kept; without one nothing is signed",
  },
  private_network: PRIVATE_NETWORK,
  enabled: { is: z.boolean().default(true), means: "whether it is told" },
});

const { accountParked, poolEmpty, spend, errorRate, overruns } = DEFAULT_ALERTS;

const WATCHED_MS_MAX = 3_600_000;
const span = (minMs: number) =>
  text(`a duration from ${durationText(minMs)} to ${durationText(WATCHED_MS_MAX)}, like 5m`, (value) => {
    const ms = durationMs(value);
    return ms !== null && ms >= minMs && ms <= WATCHED_MS_MAX;
  }).transform((value) => durationMs(value) ?? minMs);

const isOn = (byDefault: boolean) => ({ is: z.boolean().default(byDefault), means: "whether it is told" });
const BY_ITS_FIELDS = "as its fields say";

export const alerts = described({
  webhooks: {
    is: z
      .array(webhook)
      .max(limits.webhooksMax, { error: `a list of at most ${limits.webhooksMax}` })
      .refine((list) => new Set(list.map((one) => one.name)).size === list.length, {
        error: "a list in which every name stands once",
      })
      .default(() => []),
    means: "who is told",
    leftOut: "nobody",
  },
  account_parked: {
    is: described({ enabled: isOn(accountParked.enabled) }).optional(),
    means: "the alert that an account's credential was refused",
    leftOut: BY_ITS_FIELDS,
  },
  pool_empty: {
    is: described({
      enabled: isOn(poolEmpty.enabled),
      for: {
        is: span(1_000).prefault(durationText(poolEmpty.forMs)),
        means: "told after so long without one, a [duration](#durations)",
      },
    }).optional(),
    means: "the alert that no account of a group can be asked",
    leftOut: BY_ITS_FIELDS,
  },
  spend: {
    is: described({
      enabled: isOn(spend.enabled),
      usd_per_day: {
        is: windowUsd.default(spend.usdPerDay),
        means: "told at so much, in USD, by the prices of the requests, whoever pays",
      },
    }).optional(),
    means: "the alert that the requests of a day, in UTC, have cost much",
    leftOut: BY_ITS_FIELDS,
  },
  error_rate: {
    is: described({
      enabled: isOn(errorRate.enabled),
      percent: {
        is: wholeNumber(1, 100).default(errorRate.percent),
        means: "told when so many of a hundred requests do",
      },
      over: {
        is: span(60_000).prefault(durationText(errorRate.overMs)),
        means: "counted over so long, a [duration](#durations)",
      },
      min_requests: {
        is: wholeNumber(1, 1_000_000).default(errorRate.requestsMin),
        means: "and only if there were so many requests in that time",
      },
    }).optional(),
    means: "the alert that many requests go wrong",
    leftOut: BY_ITS_FIELDS,
  },
  overruns: {
    is: described({
      enabled: isOn(overruns.enabled),
      count: {
        is: wholeNumber(1, 1_000_000).default(overruns.count),
        means: "told when so many requests of one user do",
      },
      over: {
        is: span(60_000).prefault(durationText(overruns.overMs)),
        means: "counted over so long, a [duration](#durations)",
      },
    }).optional(),
    means: "the alert that requests of one user repeatedly cost more than was held for them",
    leftOut: BY_ITS_FIELDS,
  },
});

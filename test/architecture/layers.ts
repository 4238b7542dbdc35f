/**
 * The order of dependencies: each folder (or root file) of `src/`, what it holds and what it may import. The
 * architecture test enforces it, and the table in ARCHITECTURE.md is generated from it.
 */

export interface Layer {
  readonly name: string;
  /** One line for the table in ARCHITECTURE.md. */
  readonly holds: string;
  /** Names of layers further down, or `everything`. Every layer may import `base` as well. */
  readonly mayImport: readonly string[] | "everything";
}

/** The lowest layer, open to all. */
export const BASE = "base";

const SHARED_FILES = ["records", "errors", "count-limits"];
const GATEWAY_IMPORTS = [
  ...SHARED_FILES,
  "net",
  "json",
  "money",
  "observe",
  "secrets",
  "store",
  "billing",
  "policy",
  "limits",
  "pool",
  "nodes",
  "protocols",
  "accounts",
  "telemetry",
  "capture",
  "threads",
];

/** From the top to the bottom: a layer imports only layers below it. */
export const LAYERS: readonly Layer[] = [
  { name: "cli", holds: "the commands", mayImport: "everything" },
  {
    name: "main",
    holds:
      "the composition root: opens policy → billing → gateway → console API → server, closes them in reverse",
    mayImport: "everything",
  },
  {
    name: "composition",
    holds: "the steps of the composition root: one file for each group of services, with its shutdown",
    mayImport: "everything",
  },
  {
    name: "server",
    holds:
      "routes, request ids, draining, built pages; the operator's socket in the data folder, which `explain` and `wallet` use",
    mayImport: [...GATEWAY_IMPORTS, "version", "public-api", "console-api", "gateway", "responses-websocket"],
  },
  {
    name: "console-api",
    holds: "the console's API: one table of operations, authentication and authorization of people",
    mayImport: [
      ...GATEWAY_IMPORTS,
      "version",
      "openapi",
      "usage-export",
      "alerts",
      "mail",
      "openid",
      "scim",
      "config",
      "gateway",
    ],
  },
  {
    name: "responses-websocket",
    holds: "Responses over WebSocket, the client's side: connections, lanes, turns, conversation memory",
    mayImport: [
      ...SHARED_FILES,
      "net",
      "json",
      "observe",
      "protocols",
      "limits",
      "accounts",
      "gateway",
      "threads",
    ],
  },
  {
    name: "public-api",
    holds:
      "the public API described: operations, schemas, examples, error guide; the source of `/openapi.json` and the explorer",
    mayImport: ["records", "errors", "openapi"],
  },
  {
    name: "gateway",
    holds: "the life of a request, from authentication to settlement",
    mayImport: GATEWAY_IMPORTS,
  },
  {
    name: "usage-export",
    holds: "usage as records for other systems: batches of the usage feed, their delivery to webhooks",
    mayImport: ["net", "records", "money", "observe", "secrets", "store", "policy", "alerts", "version"],
  },
  {
    name: "alerts",
    holds: "conditions an operator must know about, and their delivery to webhooks",
    mayImport: [
      "net",
      "records",
      "money",
      "observe",
      "secrets",
      "store",
      "policy",
      "pool",
      "accounts",
      "version",
    ],
  },
  {
    name: "scim",
    holds: "SCIM 2.0 as directories speak it: filters, PATCH, resources, errors. Pure",
    mayImport: ["errors", "store", "config"],
  },
  {
    name: "openid",
    holds: "OpenID Connect providers: the flow, verified claims, the person that they describe",
    mayImport: ["json", "net", "records", "secrets", "store", "config"],
  },
  {
    name: "mail",
    holds: "sends e-mail over SMTP",
    mayImport: ["net", "records", "secrets", "store", "accounts"],
  },
  {
    name: "config",
    holds: "gateway.yaml ↔ records, settings, and every limit and deadline of the product",
    mayImport: [
      "net",
      "records",
      "accounts",
      "count-limits",
      "money",
      "secrets",
      "store",
      "policy",
      "observe",
      "telemetry",
    ],
  },
  {
    name: "nodes",
    holds: "what nodes share: the health of accounts, counts of throttles, the coordinators of limits",
    mayImport: ["observe", "store", "policy", "pool", "limits", "accounts"],
  },
  {
    name: "pool",
    holds: "account selection: health, affinity, scores, the waiting queue",
    mayImport: ["net", "records", "policy", "limits", "accounts", "protocols"],
  },
  {
    name: "policy",
    holds: "records → immutable snapshot with the price of every publication; the key index",
    mayImport: ["net", "accounts", "records", "money", "secrets", "store", "observe"],
  },
  {
    name: "accounts",
    holds:
      "kinds of upstream accounts: addresses, headers, access tokens, failures, rate limits; the Responses WebSocket client",
    mayImport: [...SHARED_FILES, "net", "json", "secrets", "protocols"],
  },
  {
    name: "billing",
    holds: "holds, settlements, journal, recovery, reconciliation, top-ups, codes, subscriptions",
    mayImport: ["records", "money", "secrets", "store", "observe"],
  },
  {
    name: "capture",
    holds: "captured requests: copies in flight, redaction, encryption, the queue to the database",
    mayImport: ["net", "records", "secrets", "store", "observe", "threads"],
  },
  {
    name: "telemetry",
    holds: "distributed traces: span contexts, spans as OTLP, their export to a collector",
    mayImport: ["net", "observe", "version"],
  },
  {
    name: "limits",
    holds: "exact windows and concurrency in memory; what several nodes borrow of them",
    mayImport: ["records", "money"],
  },
  {
    name: "protocols",
    holds: "the API dialects: requests, responses, streams. Pure: no I/O, no clock",
    mayImport: [...SHARED_FILES, "net", "json", "money"],
  },
  {
    name: "store",
    holds:
      "SQL. Only `store/engine/`, and `billing/` where it has one implementation per engine, compare the database engine; other files ask `engine/dialect.ts` for its properties",
    mayImport: ["records", "money", "secrets"],
  },
  {
    name: "money",
    holds: "amounts, prices, tariffs, the bundled price list, plan windows. Pure",
    mayImport: ["records"],
  },
  {
    name: "threads",
    holds: "runs jobs in worker threads, within limits of CPU time and memory",
    mayImport: ["errors"],
  },
  {
    name: "json",
    holds: "finds and replaces members of JSON bodies without parsing them",
    mayImport: [],
  },
  {
    name: "net",
    holds: "HTTP/1.1 and WebSocket, both sides: a closed library that knows no gateway",
    mayImport: [],
  },
  {
    name: "secrets",
    holds: "keys, sealing, passwords, one-time codes, keys of service accounts",
    mayImport: [],
  },
  { name: "observe", holds: "log lines, counters, the text format of metrics", mayImport: [] },
  {
    name: "records",
    holds: "the records that the store keeps and the policy is compiled from",
    mayImport: [],
  },
  { name: "errors", holds: "every error code with its status, and the error object", mayImport: [] },
  {
    name: "count-limits",
    holds: "how often something may repeat within one request or response",
    mayImport: [],
  },
  { name: "openapi", holds: "writes the OpenAPI documents of both APIs", mayImport: [] },
  { name: "version", holds: "the version of the product", mayImport: [] },
  {
    name: BASE,
    holds: "clock, deadlines, byte ranges, cache: what every other layer may import",
    mayImport: [],
  },
];

/** Folders beside `src/` and the layers of `src/` that each may import. */
export const OTHER_PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  /** The simulator is another server: it shares only the wire format and the clock. */
  simulator: ["net", "json", BASE],
  /** The console takes types of the API's routes and the table of limits, and the explorer the description of the API. */
  console: ["console-api", "public-api", "records", "errors", BASE],
  /** The dashboard and the alert rules are about the metrics of the catalogue. */
  deploy: ["observe"],
  /** The release takes the allocator settings for the image and the unit, and the schema of gateway.yaml for the chart. */
  release: ["cli", "config"],
};

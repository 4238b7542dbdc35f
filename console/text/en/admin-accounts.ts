/** English texts: the pages of upstream accounts. */

import { plural } from "../plural.ts";

/** Texts of the form that differ for a kind. */
interface KindTexts {
  readonly about?: string;
  readonly baseUrl?: string;
  readonly region?: string;
  readonly credential?: string;
}

const kindTexts: Readonly<Partial<Record<string, KindTexts>>> = {
  bedrock: {
    credential: "Bedrock API key",
    region: "For example us-east-1. A Bedrock API key is valid in its own region.",
  },
  gemini: { baseUrl: "Without a version" },
  vertex: { region: "global, us, eu, or a location like europe-west1." },
  simulator: {
    about:
      "Returns generated responses without a real model, for testing. It needs no URL and no credential.",
  },
};

export const adminAccounts = {
  title: "Accounts",
  about: "Upstream credentials and their health. Nodes share what the upstreams report.",
  add: "Add account",
  search: "Search accounts",
  none: "No accounts yet",
  noneYet:
    "An account is a credential at a provider. Add an account, test it, and add it to the pool of a group.",
  notFound: "No account matches this name",
  columns: {
    name: "Name",
    state: "Status",
    interfaces: "Interfaces",
    groups: "Groups",
    inFlight: "In flight",
    latency: "First byte",
    errors: "Error rate",
    requests: "Requests, 24 h",
    cost: "Upstream cost, 24 h",
    charged: "Charged, 24 h",
  },
  states: {
    well: "Healthy",
    untried: "No traffic yet",
    cooling: "Cooling down",
    probing: "Probing",
    parked: "Parked",
    draining: "Draining",
    disabled: "Disabled",
  },
  draining: (count: number) => plural(count, "Draining, 1 in flight", "Draining, # in flight"),
  causes: {
    connect: "connection failed",
    timeout: "timed out",
    reset: "connection reset",
    credential: "credential rejected",
    rate_limited: "rate limited",
    quota: "quota exhausted",
    overloaded: "overloaded",
    server: "server error",
    bad_answer: "invalid response",
    model_missing: "model not found",
    operator: "by an administrator",
  },
  modelsAiling: (count: number) => plural(count, "1 model cooling down", "# models cooling down"),
  freeIn: (time: string) => `· retry in ${time}`,
  kinds: {
    openai: "OpenAI or compatible",
    azure: "Azure OpenAI",
    anthropic: "Anthropic or compatible",
    bedrock: "Amazon Bedrock (Claude)",
    gemini: "Google Gemini",
    vertex: "Google Vertex AI",
    simulator: "Built-in simulator",
  },
  kindTexts,
  inNoGroup: "no group",
  one: "Live figures cover this process only.",
  form: {
    name: "Name",
    nameHint: "Internal name. Callers do not see it. It cannot be changed later.",
    kind: "Type",
    vendor: "Provider",
    vendorHint: "Sets the address, the interfaces and what the provider can express.",
    noVendor: "Other (no preset)",
    localVendor:
      "A server in your own network. A private address can be allowed in the configuration file only: add the account there with `private_network: true`, and apply the file.",
    baseUrl: "Base URL",
    baseUrlHint: "Usually ends with /v1",
    baseUrlByRegion: "Leave empty to use the address of the region.",
    region: "Region",
    project: "Google Cloud project",
    projectHint: "Leave empty to use the project of the service account.",
    serviceAccount: "Service account key (JSON)",
    serviceAccountHint: "Paste the key file. It is stored encrypted and never shown again.",
    serviceAccountFile: "Choose key file",
    apiVersion: "API version",
    apiVersionHint: "For the dated Azure API, for example 2024-10-21. Leave empty to use the v1 API.",
    credential: "Credential",
    credentialNew: "Stored encrypted and never shown again.",
    credentialKept: "Leave empty to keep the stored credential.",
    interfaces: "Supported interfaces",
    websocket: "Supports Responses over WebSocket",
    websocketHint: "WebSocket turns are then sent upstream over a WebSocket.",
    /** By the name of the switch in the configuration file. */
    switches: {
      propagate_trace: {
        label: "Continue traces at the upstream",
        hint: "Sends traceparent and tracestate with each request, if traces are exported.",
      },
    },
    priority: "Priority",
    priorityHint: "Accounts with the lowest number are used first.",
    weight: "Weight",
    weightHint: "Share of traffic among accounts with the same priority.",
    limits: "Upstream limits",
    limitsAbout: "The gateway stays within these limits, so that the upstream does not reject requests.",
    models: "Models",
    modelsAbout:
      "Public name = upstream name, one per line. A trailing * on both sides is a wildcard: * = * forwards every name unchanged.",
    save: "Save",
    saved: "Account saved. The change is active.",
    private:
      "This account uses a private network address. Only the configuration file can allow that. A different address must be allowed again.",
  },
  test: {
    button: "Test connection",
    about: "Lists the upstream models with the values in this form.",
    good: (ms: string) => `Connected. The credential is valid (${ms}).`,
    models: (count: number) => plural(count, "1 model available:", "# models available:"),
    useModels: "Use these models",
    results: {
      simulator: "The simulator is built in and always available.",
      not_json:
        "The server returned a web page, not an API response. Check the base URL; it usually ends with /v1.",
      refused:
        "The upstream rejected the credential. Check that it is complete, and that it was not revoked.",
      list_denied:
        "Connected, but the upstream denied the list of models. The credential is invalid, or it may call models only. Send a request to find out.",
      no_list:
        "Connected, but the upstream has no model list. Some upstreams have none; otherwise check the base URL.",
      limited: "Connected, but the account is rate limited or out of quota. Check the provider's console.",
      redirects: "The upstream returned a redirect, and redirects are not followed. Enter the final URL.",
      fails: "The upstream returned an error. Check the provider's status page, or try again later.",
      forbidden_address:
        "The address is in a private network or on this machine. Only the configuration file can allow it: private_network.",
      unknown_host: "The host name could not be resolved. Check the name, and DNS on the gateway's machine.",
      bad_url: "This URL is not reachable. Check the URL.",
    },
    failures: {
      refused: "Connection refused. Check the host, the port and firewalls.",
      tls: "The TLS certificate is not trusted. Check the host name in the URL.",
      reset: "The server closed the connection. Check whether the URL must use http or https.",
      connect_timeout: "Connection timed out. Check the URL and firewalls.",
      bad_http: "The server does not use HTTP. Check http or https, and the port.",
      late: "The upstream did not respond in time.",
    },
    socket: {
      supported: "WebSocket is supported.",
      unsupported:
        "WebSocket is not supported here; turns are sent over HTTP. Turn the option off, or check the base URL.",
    },
    status: (status: number) => `Status ${status}`,
  },
  actions: {
    disable: "Drain and disable",
    enable: "Enable",
    park: "Park",
    unpark: "Retry now",
    setCredential: "Replace credential",
    delete: "Delete",
  },
  disable: {
    title: (name: string) => `Drain and disable ${name}?`,
    about: "No process sends new requests to this account. Requests in flight finish.",
    last: (groups: string) =>
      `This is the only enabled account of ${groups}. Their models become unavailable.`,
    done: (name: string) => `${name} disabled.`,
  },
  enabled: (name: string) => `${name} enabled.`,
  park: {
    title: (name: string) => `Park ${name}?`,
    about:
      "The account gets no requests until you retry it. With PostgreSQL this holds on all nodes; with SQLite, until the process restarts. Its models stay listed.",
    done: (name: string) => `${name} parked.`,
  },
  unparked: (name: string) => `${name} receives requests again.`,
  credential: {
    title: (name: string) => `Replace the credential of ${name}`,
    about: "Requests in flight finish with the old credential. The health of the account is reset.",
    label: "New credential",
    done: "Credential replaced.",
  },
  delete: {
    title: (name: string) => `Delete account ${name}?`,
    breaks: (groups: string) => `The account is removed from ${groups}.`,
    none: "No group uses this account.",
    keeps: "The credential is deleted permanently. Usage records are kept.",
    done: (name: string) => `Account ${name} deleted.`,
  },
  facts: {
    title: "Live status",
    models: "Recently used models",
    none: "No recent requests.",
    upstreamModel: "Upstream model",
    reportedLimits: "Limits reported by the upstream",
    notReported: "not reported",
    requests: (left: string, limit: string) => `${left} of ${limit} requests remaining`,
    tokens: (left: string, limit: string) => `${left} of ${limit} tokens remaining`,
    unknown: "?",
    resets: "resets",
  },
  usage: {
    title: "Cost and revenue",
    about: "Upstream cost at list prices, and the charges to users for requests served by this account.",
    days: (days: number) => plural(days, "Last 24 hours", `Last ${days} days`),
    span: "Time range",
    requests: "Requests",
    failed: "Failed",
    upstream: "Upstream cost",
    cost: "List price",
    charged: "Charged",
    margin: "Margin",
    since: (time: string) => `Too many requests to count. Figures start at ${time}.`,
  },
  settings: "Settings",
  since: "Added",
  more: (name: string) => `More actions for ${name}`,
};

/** The table of all endpoints with their methods. */

import { decodeUriText } from "../base/decode-uri.ts";
import type { ToolAction } from "../console-api/tools/oauth-endpoints.ts";
import { ApiError } from "../errors.ts";
import { ENDPOINTS } from "../protocols/endpoints.ts";
import { type Endpoint, publicPath } from "../protocols/shared/endpoint.ts";
import { UnknownUrl } from "./unknown-url.ts";

export type Destination =
  | { kind: "model_call"; endpoint: Endpoint }
  | { kind: "stored_response"; responseId: string; action: "" | "/cancel" | "/input_items" }
  /** `endpoint` is Gemini's; without it the count is that of a message. */
  | { kind: "count_tokens"; endpoint?: Endpoint }
  | { kind: "models" }
  | { kind: "model"; id: string }
  | { kind: "gemini_models" }
  | { kind: "gemini_model"; id: string }
  | { kind: "usage" }
  | { kind: "request"; id: string }
  | { kind: "responses_socket" }
  | { kind: "api" }
  | { kind: "site"; site: SiteName }
  | { kind: "moved"; to: string }
  | { kind: "tool_sign_in"; action: ToolAction }
  | { kind: "managed_settings" }
  | { kind: "tool_telemetry" }
  | { kind: "openapi" }
  | { kind: "health" }
  | { kind: "readiness" };

/** Sites, each below a path of its name. */
const SITES = ["console", "explorer", "docs"] as const;
export type SiteName = (typeof SITES)[number];

type Methods = Readonly<Record<string, Destination>>;

const read = (destination: Destination): Methods => ({ GET: destination, HEAD: destination });

const EXACT: ReadonlyMap<string, Methods> = new Map<string, Methods>([
  ["/healthz", { GET: { kind: "health" }, HEAD: { kind: "health" } }],
  ["/readyz", { GET: { kind: "readiness" }, HEAD: { kind: "readiness" } }],
  ["/openapi.json", { GET: { kind: "openapi" } }],
  // Claude Code asks here whether the server is there, before it sends its key.
  ["/api/hello", { HEAD: { kind: "health" } }],
  ["/.well-known/oauth-authorization-server", { GET: { kind: "tool_sign_in", action: "metadata" } }],
  ["/oauth/device_authorization", { POST: { kind: "tool_sign_in", action: "device" } }],
  ["/oauth/token", { POST: { kind: "tool_sign_in", action: "token" } }],
  ["/oauth/revoke", { POST: { kind: "tool_sign_in", action: "revoke" } }],
  // The page of a code, as tools show it.
  ["/device", { GET: { kind: "moved", to: "/console/device" } }],
  ["/managed/settings", { GET: { kind: "managed_settings" } }],
  ["/v1/metrics", { POST: { kind: "tool_telemetry" } }],
  ["/v1/logs", { POST: { kind: "tool_telemetry" } }],
  ["/v1/messages/count_tokens", { POST: { kind: "count_tokens" } }],
  ["/v1/models", { GET: { kind: "models" } }],
  ["/v1beta/models", { GET: { kind: "gemini_models" } }],
  ["/v1/usage", { GET: { kind: "usage" } }],
  ...ENDPOINTS.filter(({ api }) => !api.hasModelInPath).map((endpoint): [string, Methods] => {
    const call: Methods = { POST: { kind: "model_call", endpoint } };
    return [
      publicPath(endpoint),
      endpoint.hasWebSocket ? { ...call, GET: { kind: "responses_socket" } } : call,
    ];
  }),
]);

/** Paths of the console API, and of SCIM, which is a part of it. */
const API_PATH = /^\/(?:api|scim)\//;

export function findDestination(method: string, path: string): Destination {
  // The console API has its own table of methods and paths.
  const exact = EXACT.get(path);
  if (exact === undefined && (API_PATH.test(path) || path === "/metrics")) return { kind: "api" };
  const methods = exact ?? matchPattern(path) ?? matchPage(path);
  if (!methods) throw new UnknownUrl(path, suggestPath(path));
  const destination = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (destination) return destination;
  // A method of Google's that does not exist here looks like the end of a model id.
  if (method === "POST" && GEMINI_METHOD.test(path)) throw new UnknownUrl(path, null);
  const allow = Object.keys(methods).join(", ");
  throw new ApiError("method_not_allowed", `${method} is not allowed for this path. Allowed: ${allow}.`, {
    headers: { allow },
  });
}

/** A method of Google's: `/models/{model}:predict`. */
const GEMINI_METHOD = /^\/v1(?:beta|alpha)?\/models\/.+:\w+$/;

/** Clients of these paths read errors in Google's form. */
export function isGeminiPath(path: string): boolean {
  return path.startsWith("/v1beta/") || GEMINI_METHOD.test(path);
}

interface Pattern {
  /** As written in the documentation. */
  readonly path: string;
  readonly matches: RegExp;
  readonly methods: (id: string) => Methods;
}

const GEMINI_PATTERNS: readonly Pattern[] = ENDPOINTS.filter(({ api }) => api.hasModelInPath).map(
  (endpoint) => ({
    path: publicPath(endpoint),
    // A model id may contain slashes and colons. Clients may set another version of the API.
    matches: new RegExp(`^/v1(?:beta|alpha)?${endpoint.path.replace("{model}", "(.+)")}$`),
    methods: (model) => {
      const named = { ...endpoint, model };
      return { POST: { kind: endpoint.output === "count" ? "count_tokens" : "model_call", endpoint: named } };
    },
  }),
);

const PATTERNS: readonly Pattern[] = [
  ...GEMINI_PATTERNS,
  {
    path: "/v1beta/models/{model}",
    matches: /^\/v1beta\/models\/(.+)$/,
    methods: (id) => ({ GET: { kind: "gemini_model", id } }),
  },
  {
    path: "/v1/models/{model}",
    // A model id may contain slashes, so it is the whole rest of the path.
    matches: /^\/v1\/models\/(.+)$/,
    methods: (id) => ({ GET: { kind: "model", id } }),
  },
  {
    path: "/v1/requests/{request_id}",
    matches: /^\/v1\/requests\/([\w-]+)$/,
    methods: (id) => ({ GET: { kind: "request", id } }),
  },
  {
    path: "/v1/responses/{response_id}",
    matches: /^\/v1\/responses\/([^/]+)$/,
    methods: (responseId) => {
      const call = { kind: "stored_response", responseId, action: "" } as const;
      return { GET: call, DELETE: call };
    },
  },
  {
    path: "/v1/responses/{response_id}/cancel",
    matches: /^\/v1\/responses\/([^/]+)\/cancel$/,
    methods: (responseId) => ({ POST: { kind: "stored_response", responseId, action: "/cancel" } }),
  },
  {
    path: "/v1/responses/{response_id}/input_items",
    matches: /^\/v1\/responses\/([^/]+)\/input_items$/,
    methods: (responseId) => ({ GET: { kind: "stored_response", responseId, action: "/input_items" } }),
  },
];

/** Not part of the API for programs: pages, and what the sign-in of tools defines (docs/sign-in.md). */
const UNDOCUMENTED: ReadonlySet<Destination["kind"]> = new Set<Destination["kind"]>([
  "moved",
  "tool_sign_in",
  "managed_settings",
  "tool_telemetry",
]);

/** All endpoints, for the documentation. */
export function listRoutes(): { method: string; path: string }[] {
  const exact = [...EXACT].map(([path, methods]) => ({ path, methods }));
  const patterns = PATTERNS.map(({ path, methods }) => ({ path, methods: methods("") }));
  return [...exact, ...patterns].flatMap(({ path, methods }) =>
    Object.entries(methods).flatMap(([method, { kind }]) => (UNDOCUMENTED.has(kind) ? [] : { method, path })),
  );
}

function matchPattern(path: string): Methods | null {
  for (const { matches, methods } of PATTERNS) {
    const match = matches.exec(path)?.[1];
    if (match === undefined) continue;
    const id = decodeUriText(match);
    return id === null ? null : methods(id);
  }
  return null;
}

function matchPage(path: string): Methods | null {
  // Browsers are sent to the console. A HEAD is the question of a client whether the server is there.
  if (path === "/") return { GET: { kind: "moved", to: "/console/" }, HEAD: { kind: "health" } };
  const site = SITES.find((name) => path === `/${name}` || path.startsWith(`/${name}/`));
  if (site === undefined) return null;
  // Links on the pages are relative to the folder.
  return read(path === `/${site}` ? { kind: "moved", to: `/${site}/` } : { kind: "site", site });
}

/** Returns the path that was probably meant: one that exists and differs only in `/v1` or in slashes. */
function suggestPath(path: string): string | null {
  const once = path.replace(/\/{2,}/g, "/").replace(/^(?:\/v1)+(?=\/|$)/, "");
  const bare = once.length > 1 ? once.replace(/\/$/, "") : once;
  const suggested = `/v1${bare}`;
  if (suggested === path) return null;
  return EXACT.has(suggested) || matchPattern(suggested) !== null ? suggested : null;
}

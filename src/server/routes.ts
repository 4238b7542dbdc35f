/** The one table of endpoints. What is not in it does not exist; what is, says its methods. */

import { ApiError } from "../errors.ts";
import { ENDPOINTS, type Endpoint } from "../interfaces/request.ts";

export type Destination =
  | { kind: "model_call"; endpoint: Endpoint }
  | { kind: "stored_response"; responseId: string; action: "" | "/cancel" | "/input_items" }
  | { kind: "models" }
  | { kind: "model"; id: string }
  | { kind: "usage" }
  | { kind: "request"; id: string }
  | { kind: "responses_socket" }
  | { kind: "health" }
  | { kind: "readiness" };

type Methods = Readonly<Record<string, Destination>>;

const EXACT: ReadonlyMap<string, Methods> = new Map<string, Methods>([
  ["/healthz", { GET: { kind: "health" }, HEAD: { kind: "health" } }],
  ["/readyz", { GET: { kind: "readiness" }, HEAD: { kind: "readiness" } }],
  ["/v1/models", { GET: { kind: "models" } }],
  ["/v1/usage", { GET: { kind: "usage" } }],
  ...ENDPOINTS.map((endpoint): [string, Methods] => {
    const call: Methods = { POST: { kind: "model_call", endpoint } };
    return [
      `/v1${endpoint.path}`,
      endpoint.name === "responses" ? { ...call, GET: { kind: "responses_socket" } } : call,
    ];
  }),
]);

export function findDestination(method: string, path: string): Destination {
  const methods = EXACT.get(path) ?? matchPattern(path);
  if (!methods) throw unknownUrl(path);
  const found = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (found) return found;
  const allow = Object.keys(methods).join(", ");
  throw new ApiError("method_not_allowed", `${method} is not allowed for this path. Allowed: ${allow}.`, {
    headers: { allow },
  });
}

const REQUEST_PATH = /^\/v1\/requests\/([\w-]+)$/;
const RESPONSE_PATH = /^\/v1\/responses\/([^/]+)(\/cancel|\/input_items)?$/;

function matchPattern(path: string): Methods | null {
  // A model's id may hold slashes, so it is the whole rest of the path.
  if (path.startsWith("/v1/models/")) {
    const id = decode(path.slice("/v1/models/".length));
    return id === null || id === "" ? null : { GET: { kind: "model", id } };
  }
  const requestId = REQUEST_PATH.exec(path)?.[1];
  if (requestId !== undefined) return { GET: { kind: "request", id: requestId } };
  const match = RESPONSE_PATH.exec(path);
  const responseId = match?.[1] === undefined ? null : decode(match[1]);
  if (responseId === null) return null;
  const call = { kind: "stored_response", responseId } as const;
  switch (match?.[2]) {
    case "/cancel":
      return { POST: { ...call, action: "/cancel" } };
    case "/input_items":
      return { GET: { ...call, action: "/input_items" } };
    default:
      return { GET: { ...call, action: "" }, DELETE: { ...call, action: "" } };
  }
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Says what the address should have been, when that can be told. */
function unknownUrl(path: string): ApiError {
  const mended = mend(path);
  const hint =
    mended === null
      ? "The API is under /v1; GET /v1/models is a good first call."
      : `Did you mean ${mended}? Give hosts {base_url} and SDKs {base_url}/v1, so that the path holds /v1 exactly once.`;
  return new ApiError("unknown_url", `There is nothing at ${path.slice(0, 200)}. ${hint}`);
}

function mend(path: string): string | null {
  const once = path.replace(/\/{2,}/g, "/").replace(/^(?:\/v1)+(?=\/|$)/, "");
  const bare = once.length > 1 ? once.replace(/\/$/, "") : once;
  const mended = `/v1${bare}`;
  if (mended === path) return null;
  return EXACT.has(mended) || matchPattern(mended) !== null ? mended : null;
}

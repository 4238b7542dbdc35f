/** The HTTP endpoints that tools call to sign in: OAuth 2.0 with device codes, without a client id. */

import type { Deadlines } from "../../base/deadlines.ts";
import { partBytes } from "../../base/parts.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, errorResponse } from "../../errors.ts";
import { readBody } from "../../gateway/bodies/body.ts";
import { bodyError } from "../../gateway/bodies/body-error.ts";
import { resolveCountedAddress } from "../../net/http-server/proxy.ts";
import { logFault } from "../../observe/log.ts";
import type { ConsoleContext } from "../context.ts";
import type { ApiCall } from "../handler.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { beginDeviceFlow, pollDeviceFlow } from "./device-flow.ts";
import { OAuthError } from "./oauth-error.ts";
import { requireToolSignIn } from "./tool-context.ts";
import { type IssuedTokens, refreshTokens, revokeByToken } from "./tool-tokens.ts";

const TOOL_PATHS = {
  metadata: "/.well-known/oauth-authorization-server",
  device: "/oauth/device_authorization",
  token: "/oauth/token",
  revoke: "/oauth/revoke",
} as const;
export type ToolAction = keyof typeof TOOL_PATHS;

export type ToolEndpoints = (call: ApiCall, action: ToolAction) => Promise<Response>;

const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";
const OWNER = { id: "tool sign-in", userId: null };

export function openToolEndpoints(context: ConsoleContext, deadlines: Deadlines): ToolEndpoints {
  async function respond(call: ApiCall, action: ToolAction): Promise<Response> {
    requireToolSignIn(context);
    const { headers } = call.request;
    const address = resolveCountedAddress(headers, call.peerAddress(), context.publicUrl);
    const waitSeconds = context.identity.tools.requests.take(addressBlock(address));
    if (waitSeconds !== null)
      throw new OAuthError("slow_down", "Too many requests from this address.", waitSeconds);
    switch (action) {
      case "metadata":
        return Response.json(describeServer(context.publicUrl));
      case "device":
        return startFlow(context, address);
      case "token":
        return exchange(context, await readForm(context, call, deadlines));
      case "revoke": {
        const token = requireField(await readForm(context, call, deadlines), "token");
        await revokeByToken(context, token);
        return new Response(null, { status: 200 });
      }
    }
  }

  return async (call, action) => {
    const response = await respond(call, action).catch((thrown: unknown) => describe(thrown, call));
    response.headers.set("x-request-id", call.requestId);
    response.headers.set("cache-control", "no-store");
    return response;
  };

  function describe(thrown: unknown, { requestId }: ApiCall): Response {
    if (thrown instanceof OAuthError) return thrown.toResponse();
    if (thrown instanceof ApiError) return errorResponse(thrown, requestId);
    logFault(context.gateway.log, { request_id: requestId }, thrown);
    // A tool that could not refresh continues with the token that it has.
    return new OAuthError("temporarily_unavailable", "Try again shortly.", 2).toResponse();
  }
}

/** RFC 8414. Its addresses have the origin of `server.public_url`: tools reject another one. */
function describeServer(publicUrl: string) {
  return {
    issuer: publicUrl,
    device_authorization_endpoint: publicUrl + TOOL_PATHS.device,
    token_endpoint: publicUrl + TOOL_PATHS.token,
    revocation_endpoint: publicUrl + TOOL_PATHS.revoke,
    grant_types_supported: [DEVICE_GRANT, "refresh_token"],
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
  };
}

async function startFlow(context: ConsoleContext, address: string): Promise<Response> {
  const started = await beginDeviceFlow(context, address);
  const page = `${context.publicUrl}/device`;
  return Response.json({
    device_code: started.deviceCode,
    user_code: started.userCode,
    verification_uri: page,
    verification_uri_complete: `${page}?user_code=${started.userCode}`,
    expires_in: started.expiresInSeconds,
    interval: started.intervalSeconds,
  });
}

async function exchange(context: ConsoleContext, form: URLSearchParams): Promise<Response> {
  switch (requireField(form, "grant_type")) {
    case DEVICE_GRANT:
      return tokenResponse(await pollDeviceFlow(context, requireField(form, "device_code")));
    case "refresh_token":
      return tokenResponse(await refreshTokens(context, requireField(form, "refresh_token")));
    default:
      throw new OAuthError("unsupported_grant_type", "Use a device code or a refresh token.");
  }
}

function tokenResponse({ accessToken, refreshToken, expiresInSeconds }: IssuedTokens): Response {
  return Response.json({
    access_token: accessToken,
    token_type: "Bearer",
    expires_in: expiresInSeconds,
    refresh_token: refreshToken,
  });
}

async function readForm(
  { gateway }: ConsoleContext,
  { request }: ApiCall,
  deadlines: Deadlines,
): Promise<URLSearchParams> {
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/x-www-form-urlencoded")
    throw new OAuthError("invalid_request", "The content type must be application/x-www-form-urlencoded.");
  const { formBytesMax } = limits.toolSignIn;
  const reading = { ...limits.bodyReading, idleTimeoutMs: limits.bodyIdleTimeoutMs, deadlines };
  const received = await readBody(request, { ...reading, bytesMax: formBytesMax }, gateway.bodyBudget, OWNER);
  if (!("ok" in received)) return parseForm(partBytes(received));
  if (!received.ok) throw bodyError(received);
  try {
    return parseForm(received.bytes);
  } finally {
    received.reservation.release();
  }
}

function parseForm(bytes: Uint8Array): URLSearchParams {
  return new URLSearchParams(new TextDecoder().decode(bytes));
}

/** A repeated field could mean different things to a proxy and to the gateway. */
function requireField(form: URLSearchParams, name: string): string {
  const values = form.getAll(name);
  const [value] = values;
  if (values.length === 1 && value !== undefined && value !== "") return value;
  throw new OAuthError("invalid_request", `The field ${name} must be there once.`);
}

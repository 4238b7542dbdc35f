/** Endpoints for signed-in tools that read memory only: their settings, and telemetry, which is discarded. */

import type { ToolEndpoints } from "../console-api/tools/oauth-endpoints.ts";
import { ApiError } from "../errors.ts";
import { authenticate } from "../gateway/admission/authenticate.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { HttpBody } from "../net/wire/http-message.ts";
import type { Destination } from "./routes.ts";
import type { ServerCall } from "./server-call.ts";
import { UnknownUrl } from "./unknown-url.ts";

type ToolDestination = Extract<Destination, { kind: "tool_sign_in" | "managed_settings" | "tool_telemetry" }>;

interface ToolEndpointOptions {
  readonly gateway: Gateway;
  readonly tools: ToolEndpoints;
  readonly toolTelemetry: TelemetryBounds;
  readonly shutdownSignal: AbortSignal;
}

export interface TelemetryBounds {
  readonly telemetryBytesMax: number;
  readonly telemetryTimeoutMs: number;
}

/** Without `tool_sign_in`, none of these paths exists. */
export async function respondToTool(
  { gateway, tools, toolTelemetry, shutdownSignal }: ToolEndpointOptions,
  call: ServerCall,
  destination: ToolDestination,
): Promise<Response> {
  const { request, requestId, path, query } = call;
  if (gateway.policy.snapshot().toolSignIn === null) throw new UnknownUrl(path, null);
  switch (destination.kind) {
    case "tool_sign_in":
      return tools(
        {
          request,
          requestId,
          path,
          query,
          peerAddress: () => call.clientAddress(),
          authenticated: () => call.authenticated(),
          shutdownSignal,
        },
        destination.action,
      );
    case "managed_settings":
      return sendSettings(gateway, call);
    case "tool_telemetry":
      return discardTelemetry(gateway, call, toolTelemetry);
  }
}

function sendSettings({ policy, auth, reads }: Gateway, call: ServerCall): Response {
  const snapshot = policy.snapshot();
  const { key, group } = authenticate(call.request.headers, snapshot, auth, call);
  reads.take(key.id);
  const settings = snapshot.toolSignIn?.managedSettings.get(group.id);
  if (settings === undefined)
    throw new ApiError("not_found", "There are no settings for tools of this group.");
  const headers = { etag: settings.etag, "cache-control": "no-cache", "x-request-id": call.requestId };
  const known = call.request.headers.get("if-none-match")?.split(",") ?? [];
  if (known.some((etag) => etag.trim().replace(/^W\//, "") === settings.etag))
    return new Response(null, { status: 304, headers });
  return new Response(settings.bytes.slice(), {
    headers: { ...headers, "content-type": "application/json" },
  });
}

/** An exporter that gets an error would repeat its data. */
async function discardTelemetry(
  { policy, auth, reads }: Gateway,
  call: ServerCall,
  bounds: TelemetryBounds,
): Promise<Response> {
  const { key } = authenticate(call.request.headers, policy.snapshot(), auth, call);
  reads.take(key.id);
  const { body, headers } = call.request;
  if (body !== null) await discardBody(body, bounds);
  // An empty message in both encodings of OTLP.
  const isJson = headers.get("content-type")?.startsWith("application/json") === true;
  return new Response(isJson ? "{}" : "", {
    headers: {
      "content-type": isJson ? "application/json" : "application/x-protobuf",
      "x-request-id": call.requestId,
    },
  });
}

async function discardBody(
  body: HttpBody,
  { telemetryBytesMax: bytesMax, telemetryTimeoutMs }: TelemetryBounds,
): Promise<void> {
  const endsMs = performance.now() + telemetryTimeoutMs;
  let bytes = body.length ?? 0;
  let received = 0;
  while (bytes <= bytesMax) {
    const piece = await nextPiece(body, endsMs - performance.now());
    if (piece === null) return;
    received += piece.length;
    bytes = Math.max(bytes, received);
  }
  throw new ApiError("request_too_large", `Telemetry may have ${bytesMax} bytes at most.`);
}

async function nextPiece(body: HttpBody, withinMs: number): Promise<Uint8Array | null> {
  const { promise: timedOut, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new ApiError("request_timeout", "The body did not arrive in time.")),
    Math.max(0, withinMs),
  );
  try {
    const piece = await Promise.race([body.next(), timedOut]);
    if (piece === null || piece instanceof Uint8Array) return piece;
    throw new ApiError(
      piece.kind === "gone" ? "client_closed_request" : "invalid_request",
      "The body could not be read to its end.",
    );
  } finally {
    clearTimeout(timer);
  }
}

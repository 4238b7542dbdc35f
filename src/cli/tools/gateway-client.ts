/** Calls the endpoints of a gateway at which tools sign in. */

import { z } from "zod";
import { isHttpUrl } from "../../config/schema/basic-values.ts";
import { fail, misuse } from "../command.ts";
import type { StoredTokens } from "./credentials.ts";

const TIMEOUT_MS = 30_000;

const metadataSchema = z.object({
  device_authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  revocation_endpoint: z.string(),
});
export type Metadata = z.output<typeof metadataSchema>;

const startSchema = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.number(),
  interval: z.number(),
});
const tokensSchema = z.object({
  access_token: z.string(),
  refresh_token: z.string(),
  expires_in: z.number(),
});
const errorSchema = z.object({ error: z.string(), error_description: z.string().default("") });

/** A response to a request for tokens. `unavailable`: no response, or one that says nothing about the sign-in. */
type TokenReply =
  | { readonly kind: "tokens"; readonly tokens: StoredTokens }
  | { readonly kind: "rejected"; readonly code: string; readonly message: string }
  | { readonly kind: "unavailable"; readonly message: string };

export function checkGatewayUrl(typed: string): string {
  const example = "For example: https://llm.example.com";
  if (!isHttpUrl(typed)) misuse("URL must be the https:// address of the gateway.", example);
  const { protocol, hostname } = new URL(typed);
  if (protocol !== "https:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname))
    misuse("URL must be an https:// address, or http:// on this machine: tokens are secrets.", example);
  return typed.replace(/\/+$/, "").replace(/\/v1$/, "");
}

export async function discover(url: string): Promise<Metadata> {
  const response = await send(`${url}/.well-known/oauth-authorization-server`, { method: "GET" });
  if (response.status === 404)
    fail(
      `${url} does not let tools sign in.`,
      "An administrator sets tool_sign_in in gateway.yaml. Until then, use an API key.",
    );
  const metadata = metadataSchema.safeParse(await response.json().catch(() => null));
  if (!response.ok || !metadata.success) return failForeign(url, response);
  const { origin } = new URL(url);
  if (Object.values(metadata.data).some((endpoint) => new URL(endpoint).origin !== origin))
    fail(
      `${url} names endpoints at ${new URL(metadata.data.token_endpoint).origin}.`,
      "Use that address. An administrator sets it as server.public_url.",
    );
  return metadata.data;
}

export async function startSignIn(url: string, { device_authorization_endpoint }: Metadata) {
  const response = await send(device_authorization_endpoint, { method: "POST" });
  const body: unknown = await response.json().catch(() => null);
  const started = startSchema.safeParse(body);
  if (started.success) return started.data;
  const error = errorSchema.safeParse(body);
  return error.success ? fail(error.data.error_description) : failForeign(url, response);
}

export async function requestTokens(
  endpoints: Pick<Metadata, "token_endpoint" | "revocation_endpoint">,
  fields: Readonly<Record<string, string>>,
): Promise<TokenReply> {
  let response: Response;
  try {
    response = await post(endpoints.token_endpoint, fields);
  } catch (error) {
    return { kind: "unavailable", message: error instanceof Error ? error.message : String(error) };
  }
  const body: unknown = await response.json().catch(() => null);
  const tokens = response.ok ? tokensSchema.safeParse(body) : null;
  if (tokens?.success) {
    const { access_token, refresh_token, expires_in } = tokens.data;
    const expiresAt = Date.now() + expires_in * 1000;
    const { token_endpoint, revocation_endpoint } = endpoints;
    const stored = {
      access_token,
      refresh_token,
      expires_at: expiresAt,
      token_endpoint,
      revocation_endpoint,
    };
    return { kind: "tokens", tokens: stored };
  }
  const error = errorSchema.safeParse(body);
  if (!error.success || response.status >= 500)
    return { kind: "unavailable", message: `the gateway returned ${response.status}` };
  return { kind: "rejected", code: error.data.error, message: error.data.error_description };
}

/** Whether the gateway ended the sign-in. */
export async function revokeTokens({ revocation_endpoint, refresh_token }: StoredTokens): Promise<boolean> {
  try {
    return (await post(revocation_endpoint, { token: refresh_token })).ok;
  } catch {
    return false;
  }
}

function post(url: string, fields: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    // A redirect could lead the token to another host.
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...init, redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail(`${url} cannot be reached: ${reason}`, "Check the address. It must not redirect.");
  }
}

function failForeign(url: string, { status }: Response): never {
  return fail(`${url} returned ${status} and no response of a gateway.`, "Check the address.");
}

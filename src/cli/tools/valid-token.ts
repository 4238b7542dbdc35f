/** Finds the tokens of this computer for a gateway, and refreshes them when they are about to end. */

import { fail } from "../command.ts";
import { PROGRAM } from "../program-name.ts";
import type { StoredTokens, ToolCredentials } from "./credentials.ts";
import { checkGatewayUrl, requestTokens } from "./gateway-client.ts";

/** A token with less time left is refreshed: a tool caches what it gets for a few minutes. */
const REFRESH_BEFORE_MS = 6 * 60_000;

/** The gateway that a command names, or the only one that is signed in. */
export function chooseGateway(credentials: ToolCredentials, named: string | undefined): string {
  const urls = [...credentials.read().keys()];
  if (named !== undefined) {
    const url = checkGatewayUrl(named);
    if (urls.includes(url)) return url;
    fail(`This computer is not signed in at ${url}.`, `Run: ${PROGRAM} login ${url}`);
  }
  const [only, ...others] = urls;
  if (only === undefined)
    fail("This computer is not signed in at a gateway.", `Run: ${PROGRAM} login https://llm.example.com`);
  if (others.length > 0)
    fail(`This computer is signed in at several gateways: ${urls.join(", ")}.`, "Name one with --url.");
  return only;
}

export async function getValidToken(
  credentials: ToolCredentials,
  url: string,
  note: (text: string) => void,
): Promise<string> {
  const present = credentials.read().get(url);
  if (present !== undefined && isFresh(present)) return present.access_token;
  // Two commands at once: the second one finds the tokens of the first.
  return credentials.exclusively(async () => {
    const tokens = credentials.read().get(url);
    if (tokens === undefined) return endedSignIn(url);
    return isFresh(tokens) ? tokens.access_token : refresh(credentials, url, tokens, note);
  });
}

function isFresh({ expires_at }: StoredTokens): boolean {
  return expires_at - Date.now() > REFRESH_BEFORE_MS;
}

async function refresh(
  credentials: ToolCredentials,
  url: string,
  tokens: StoredTokens,
  note: (text: string) => void,
): Promise<string> {
  const fields = { grant_type: "refresh_token", refresh_token: tokens.refresh_token };
  const reply = await requestTokens(tokens, fields);
  if (reply.kind === "tokens") {
    credentials.write(url, reply.tokens);
    return reply.tokens.access_token;
  }
  if (reply.kind === "rejected" && reply.code === "invalid_grant") {
    credentials.write(url, null);
    return endedSignIn(url);
  }
  if (tokens.expires_at > Date.now()) {
    note(`The token could not be refreshed: ${reply.message}. It works for a few more minutes.`);
    return tokens.access_token;
  }
  return fail(`The token could not be refreshed: ${reply.message}.`, "Try again, or check the address.");
}

function endedSignIn(url: string): never {
  return fail(`The sign-in at ${url} has ended.`, `Sign in again: ${PROGRAM} login ${url}`);
}

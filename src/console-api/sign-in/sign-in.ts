/** Routes that sign in at an OpenID Connect provider. The page of the redirect URI calls the second one. */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, type ErrorCode, isErrorCode, paramError } from "../../errors.ts";
import type { Person, PersonRejection } from "../../openid/claims.ts";
import { SignInFailure } from "../../openid/providers.ts";
import type { ProviderRecord } from "../../records/sign-in.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import { findIdentity } from "../../store/identity/external-identities.ts";
import { recordRejection, takeState } from "../../store/identity/sign-in-records.ts";
import { readSignIn } from "../../store/settings/sections.ts";
import { confirmSession } from "../auth/confirmation.ts";
import { personObject, personResponse } from "../auth/sessions.ts";
import { requirePassword } from "../auth/verify-credentials.ts";
import type { ConsoleContext, IdentityContext, PolicyContext, StoreContext } from "../context.ts";
import { codeField, passwordField } from "../forms/fields.ts";
import { endedPendingLinkCookie, endedSignInCookie } from "../http/cookies.ts";
import { isLoopback, rejectInsecure } from "../http/origin.ts";
import { type Actor, forAnyone } from "../http/route.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { AddressTaken, admitPerson } from "./admit-person.ts";
import { endPersonAccess } from "./end-access.ts";
import { beginFlow, flowCookie, readFlow, type SignInFlow, signInExpiredError } from "./flow.ts";
import { beginPendingLink, pendingCookie } from "./pending-link.ts";
import { readPushedGroups } from "./pushed-groups.ts";

const CALLBACK_PATH = "/console/sign-in/callback";

/** A page of the console, never another site: a second slash or a backslash would begin a host name. */
const nextField = z
  .string()
  .max(1_024)
  .regex(/^\/(?![/\\])[^\\\p{C}]*$/u);

export const providerSignInRoutes = {
  "sign_in.start": forAnyone({
    method: "POST",
    path: "/api/sign-in/start",
    summary:
      "Begin a sign-in at a provider. Open the returned URL in the browser that receives the cookie of this response",
    body: z.strictObject({
      /** The name of the provider. */
      provider: z.string().max(64),
      /** The page of the console that follows the sign-in. */
      next: nextField.default("/"),
      /**
       * `link`: links the signed-in user to a person of the provider, who signs in there from now on. `confirm`: the
       * signed-in person signs in again, to confirm an operation.
       */
      purpose: z.enum(["sign_in", "link", "confirm"]).default("sign_in"),
      /** The user's password or code, to link. */
      password: passwordField.optional(),
      code: codeField.optional(),
    }),
    tokenScope: "none",
    response: z.object({ url: z.string() }),
    async run(context, input) {
      const { installation, publicUrl, providers } = context;
      const { provider: name, next, purpose } = input.body;
      rejectInsecure(input.headers, publicUrl);
      limitAttempts(context, input.clientAddress);
      const provider = await requireProvider(context, name);
      requirePublicUrl(publicUrl);
      // Cookies belong to one host, and the provider returns the browser to `public_url`.
      const origin = input.headers.get("origin");
      if (origin !== null && origin !== new URL(publicUrl).origin)
        return { url: `${publicUrl}/console/sign-in?${new URLSearchParams({ provider: name, next })}` };
      const linkUserId = purpose === "link" ? await requireOwner(context, input.actor, input.body) : null;
      const confirmUserId = purpose === "confirm" ? requirePerson(input.actor).userId : null;
      const { issuer, clientId } = provider;
      const start = { provider: name, issuer, clientId, next, linkUserId, confirmUserId };
      const flow = beginFlow(installation, start);
      try {
        const url = await providers.buildAuthorizationUrl(
          provider,
          publicUrl + CALLBACK_PATH,
          withMaxAge(flow),
        );
        return Response.json({ url }, { headers: { "set-cookie": flowCookie(installation, flow) } });
      } catch (error) {
        throw await rejectSignIn(context, input, { provider: name, error, person: null });
      }
    },
  }),

  "sign_in.finish": forAnyone({
    method: "POST",
    path: "/api/sign-in/finish",
    summary: "Complete a sign-in with the query that the provider added to the redirect URI",
    body: z.strictObject({ query: z.string().max(limits.companySignIn.callbackCharsMax) }),
    tokenScope: "none",
    response: z.object({
      user: personResponse,
      /** The page of the console that follows. */
      next: z.string(),
    }),
    async run(context, input) {
      const { installation, publicUrl } = context;
      rejectInsecure(input.headers, publicUrl);
      limitAttempts(context, input.clientAddress);
      const flow = readFlow(installation, input.headers);
      const callback = new URL(publicUrl + CALLBACK_PATH);
      callback.search = input.body.query;
      const provider = await requireSameProvider(context, flow);
      if (callback.searchParams.get("state") !== flow.state) throw signInExpiredError();
      const userId = flow.linkUserId ?? flow.confirmUserId;
      if (userId !== null && userId !== input.actor?.userId) throw signInExpiredError();
      if (!(await takeState(installation.db, secretDigest(flow.state), flow.expiresAtMs)))
        throw signInExpiredError();
      const person = await readAdmitted(context, input, { provider, callback, flow });
      try {
        if (flow.confirmUserId !== null)
          return await confirmPerson(context, requirePerson(input.actor), { person, next: flow.next });
        const { linkUserId } = flow;
        const admitted = await admitPerson(installation, input, { provider, person, linkUserId });
        if (admitted.changedKeys) await context.gateway.policy.refresh();
        return await signedInResponse(context, admitted, flow.next);
      } catch (error) {
        const shown = error instanceof AddressTaken ? beginLink(context, error, { flow, person }) : error;
        throw await rejectSignIn(context, input, { provider: provider.name, error: shown, person });
      }
    },
  }),
};

/** The error carries the cookie of the page on which the person proves that the account is the own one. */
function beginLink(
  { installation }: StoreContext,
  { userId }: AddressTaken,
  { flow, person }: { flow: SignInFlow; person: Person },
): ApiError {
  const { provider, issuer, clientId, next } = flow;
  const start = { provider, issuer, clientId, person, userId, next };
  const cookie = pendingCookie(installation, beginPendingLink(installation, start));
  const taken = `The address ${person.email} already has an account.`;
  // The groups of some people do not fit into a cookie.
  if (cookie === null)
    return new ApiError(
      "conflict",
      `${taken} Sign in to it with its password or a sign-in link, then link it under Profile and security.`,
    );
  return new ApiError("account_exists", `${taken} Prove that it is yours to link it.`, {
    headers: { "set-cookie": cookie },
  });
}

export async function signedInResponse(
  { installation }: StoreContext,
  { userId, cookie }: { userId: string; cookie: string },
  next: string,
): Promise<Response> {
  const credentials = await findCredentials(installation.db, userId);
  if (credentials === null) throw new Error("The user was deleted during the sign-in.");
  const headers = new Headers([
    ["set-cookie", cookie],
    ["set-cookie", endedSignInCookie()],
    ["set-cookie", endedPendingLinkCookie()],
  ]);
  return Response.json({ user: personObject(credentials), next }, { headers });
}

function withMaxAge(flow: SignInFlow): SignInFlow & { maxAgeSeconds: number | null } {
  const maxAgeSeconds = flow.confirmUserId === null ? null : limits.companySignIn.confirmationMs / 1_000;
  return { ...flow, maxAgeSeconds };
}

/** Another person of the provider who uses the same browser confirms nothing. */
async function confirmPerson(
  { installation }: StoreContext,
  actor: Actor,
  { person, next }: { person: Person; next: string },
): Promise<Response> {
  const identity = await findIdentity(installation.db, person.issuer, person.subject);
  const credentials = await findCredentials(installation.db, actor.userId);
  if (credentials === null || identity?.userId !== actor.userId)
    throw new ApiError("identity_rejected", "You signed in as another person. Start again.");
  const headers = new Headers([
    ["set-cookie", confirmSession(installation, actor)],
    ["set-cookie", endedSignInCookie()],
  ]);
  return Response.json({ user: personObject(credentials), next }, { headers });
}

type Rejecting = PolicyContext;
type Browser = { readonly clientAddress: string; readonly requestId: string };

/** The person, if the claims admit the person. Otherwise the access that the person had may end. */
async function readAdmitted(
  context: Rejecting & Pick<ConsoleContext, "providers">,
  browser: Browser,
  { provider, callback, flow }: { provider: ProviderRecord; callback: URL; flow: SignInFlow },
): Promise<Person> {
  const { db } = context.installation;
  const callbackFlow = {
    ...withMaxAge(flow),
    readPushedGroups: (issuer: string, subject: string) => readPushedGroups(db, issuer, subject),
  };
  const read = await context.providers
    .readPerson(provider, callback, callbackFlow)
    .catch(async (error: unknown) => {
      throw await rejectSignIn(context, browser, { provider: provider.name, error, person: null });
    });
  if (read.ok) return read.person;
  const { rejection } = read;
  if (rejection.endsAccess && rejection.subject !== null) {
    const { issuer, subject } = rejection;
    const ended = await endPersonAccess(context.installation, { issuer, subject }, "required group lost");
    if (ended) await context.gateway.policy.refresh();
  }
  const error = new ApiError(rejection.code, rejection.message);
  throw await rejectSignIn(context, browser, { provider: provider.name, error, person: rejection });
}

interface FailedSignIn {
  provider: string;
  error: unknown;
  person: Pick<PersonRejection, "subject" | "email"> | null;
}

/** Logs and records why a sign-in was rejected, and returns the error for the person. */
export async function rejectSignIn(
  { installation, gateway }: Rejecting,
  { clientAddress, requestId }: Browser,
  { provider, error, person }: FailedSignIn,
): Promise<unknown> {
  const shown = error instanceof SignInFailure ? describeFailure(provider, error) : error;
  if (!(shown instanceof ApiError) || !isErrorCode(shown.code)) return shown;
  const reason = error instanceof Error ? error.message : "unknown";
  const { db, clock, newId } = installation;
  gateway.log.warn("sign_in_rejected", { request_id: requestId, provider, code: shown.code, reason });
  await recordRejection(
    db,
    {
      id: newId("rej"),
      atMs: clock.nowMs(),
      provider,
      code: shown.code,
      reason,
      subject: person?.subject ?? null,
      email: person?.email ?? null,
      address: clientAddress,
    },
    limits.companySignIn.rejectionsMax,
  );
  return shown;
}

function describeFailure(provider: string, { kind }: SignInFailure): ApiError {
  const codes: Readonly<Record<SignInFailure["kind"], ErrorCode>> = {
    unavailable: "sign_in_unavailable",
    rejected: "identity_rejected",
  };
  return new ApiError(
    codes[kind],
    kind === "unavailable"
      ? `${provider} does not respond. Try again shortly, or ask an administrator.`
      : `The sign-in at ${provider} was rejected. Start again, or ask an administrator, who can see the reason.`,
  );
}

async function requireProvider({ installation }: StoreContext, name: string): Promise<ProviderRecord> {
  const { providers } = await readSignIn(installation.db);
  const provider = providers.find((one) => one.name === name);
  if (provider !== undefined) return provider;
  throw paramError("provider", "not_found", "This provider is not configured.");
}

/** A code of one provider is never sent to another, also if the configuration has changed since the start. */
export async function requireSameProvider(
  { installation }: StoreContext,
  flow: Pick<SignInFlow, "provider" | "issuer" | "clientId">,
): Promise<ProviderRecord> {
  const { providers } = await readSignIn(installation.db);
  const provider = providers.find(
    ({ name, issuer, clientId }) =>
      name === flow.provider && issuer === flow.issuer && clientId === flow.clientId,
  );
  if (provider === undefined) throw signInExpiredError();
  return provider;
}

/** The user who links the own account, after the password. */
async function requireOwner(
  context: IdentityContext,
  actor: Actor | null,
  presented: { password?: string | undefined; code?: string | undefined },
): Promise<string> {
  const person = requirePerson(actor);
  await requirePassword(context, person, presented);
  return person.userId;
}

function requirePerson(actor: Actor | null): Actor {
  if (actor === null) throw new ApiError("sign_in_required", "Sign in first.");
  return actor;
}

function requirePublicUrl(publicUrl: string): void {
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol === "https:" || isLoopback(hostname)) return;
  throw new ApiError(
    "conflict",
    "Sign-in at a provider needs an https address. An administrator sets it as server.public_url (PUBLIC_URL).",
  );
}

export function limitAttempts({ identity }: Pick<ConsoleContext, "identity">, clientAddress: string): void {
  const wait = identity.providerSignIns.take(addressBlock(clientAddress));
  if (wait === null) return;
  throw new ApiError("rate_limit_exceeded", "Too many sign-ins from this address. Try again later.", {
    headers: { "retry-after": String(wait) },
  });
}

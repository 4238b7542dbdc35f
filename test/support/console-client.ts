/** A user who is signed in to the console of a running gateway, by a session in the store. */

import { randomBytes } from "node:crypto";
import type { z } from "zod";
import type { Installation } from "../../src/config/installation/installation.ts";
import { applyChanges, planDocument } from "../../src/config/plan/apply.ts";
import { issueServiceToken } from "../../src/config/plan/issue-service-token.ts";
import { ROUTES, type RouteName, type Routes } from "../../src/console-api/routes.ts";
import { NO_LIMITS } from "../../src/records/limits.ts";
import type { ServiceScope } from "../../src/records/service-account.ts";
import type { Role, UserRecord } from "../../src/records/user.ts";
import { mintAccessToken, mintSecret } from "../../src/secrets/random-secret.ts";
import { insertAccessToken, type TokenScope } from "../../src/store/identity/access-tokens.ts";
import { listServiceAccounts } from "../../src/store/identity/service-accounts.ts";
import { insertSession } from "../../src/store/identity/sessions.ts";
import { findUserByEmail, putUser } from "../../src/store/identity/users.ts";

export interface Rejection {
  status: number;
  code: string;
  message: string;
  param: string | null;
}

interface RouteRequest {
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | number | boolean>>;
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
}

export interface ConsoleClient {
  /** Sends a request to any path with the user's credentials. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  send(name: RouteName, sent?: RouteRequest): Promise<Response>;
  /** The response; a rejection fails the test. */
  call<Name extends RouteName>(name: Name, sent?: RouteRequest): Promise<z.output<Routes[Name]["response"]>>;
  /** The rejection; a response fails the test. */
  callRejected(name: RouteName, sent?: RouteRequest): Promise<Rejection>;
}

export interface SignedInClient extends ConsoleClient {
  user: UserRecord;
  /** As the browser sends it. */
  cookie: string;
}

interface Running {
  url: string;
  installation: Installation;
}

export function openConsoleClient(url: string, headers: Readonly<Record<string, string>>): ConsoleClient {
  const fetchAs: ConsoleClient["fetch"] = (path, init = {}) =>
    fetch(url + path, { redirect: "manual", ...init, headers: { ...headers, ...readHeaders(init) } });
  const send: ConsoleClient["send"] = (name, { params, query, body, headers: own = {} } = {}) => {
    const { method, path } = ROUTES[name];
    return fetchAs(buildPath(path, params, query), {
      method,
      ...(body === undefined
        ? { headers: own }
        : { body: JSON.stringify(body), headers: { "content-type": "application/json", ...own } }),
    });
  };
  return {
    fetch: fetchAs,
    send,
    async call(name, sent) {
      const response = await send(name, sent);
      const body: unknown = await response.json();
      if (!response.ok) throw new Error(`${name}: ${response.status} ${JSON.stringify(body)}`);
      return body as z.output<Routes[typeof name]["response"]>;
    },
    async callRejected(name, sent) {
      const response = await send(name, sent);
      if (response.ok) throw new Error(`${name} was not refused: ${response.status}`);
      const { error } = (await response.json()) as { error: Omit<Rejection, "status"> };
      return { status: response.status, code: error.code, message: error.message, param: error.param };
    },
  };
}

/** Creates the user if necessary. */
export async function signInAs(
  { url, installation }: Running,
  email: string,
  role: Role = "user",
): Promise<SignedInClient> {
  const { db, clock, newId } = installation;
  const user = await ensureUser(installation, email, role);
  const { secret, digest } = mintSecret(randomBytes);
  const nowMs = clock.nowMs();
  await insertSession(
    db,
    {
      id: newId("ses"),
      userId: user.id,
      createdAtMs: nowMs,
      seenAtMs: nowMs,
      address: "127.0.0.1",
      userAgent: "test",
    },
    digest,
  );
  const cookie = `__Host-session=${secret}`;
  return { ...openConsoleClient(url, { cookie, origin: url }), user, cookie };
}

export async function createTokenClient(
  { url, installation }: Running,
  email: string,
  scope: TokenScope,
  role: Role = "user",
): Promise<ConsoleClient & { user: UserRecord; secret: string }> {
  const { db, clock, newId } = installation;
  const user = await ensureUser(installation, email, role);
  const { secret, digest } = mintAccessToken(randomBytes);
  await insertAccessToken(
    db,
    {
      id: newId("pat"),
      userId: user.id,
      name: "test",
      last4: secret.slice(-4),
      scope,
      createdAtMs: clock.nowMs(),
      expiresAtMs: null,
      usedAtMs: null,
    },
    digest,
  );
  return { ...openConsoleClient(url, { authorization: `Bearer ${secret}` }), user, secret };
}

/** A service account with these scopes, which is created if necessary, and a new token of it. */
export async function createServiceClient(
  { url, installation }: Running,
  name: string,
  scopes: readonly ServiceScope[],
): Promise<ConsoleClient & { secret: string }> {
  const { db } = installation;
  const bounds = scopes.includes("wallet.top_up")
    ? { bounds: { usd_per_call: "500", usd_per_day: "1000" } }
    : {};
  const planned = await planDocument(installation, { service_accounts: [{ name, scopes, ...bounds }] });
  if (!planned.ok) throw new Error(JSON.stringify(planned.problems));
  await applyChanges(installation, planned.plan);
  const account = (await listServiceAccounts(db)).find((one) => one.name === name);
  if (account === undefined) throw new Error("The service account was not created.");
  const { secret } = await issueServiceToken(db, installation, { account, overlapMs: 3_600_000 });
  return { ...openConsoleClient(url, { authorization: `Bearer ${secret}` }), secret };
}

async function ensureUser(
  { db, clock, newId }: Installation,
  email: string,
  role: Role,
): Promise<UserRecord> {
  const present = await findUserByEmail(db, email);
  if (present !== null) return present;
  const user: UserRecord = {
    id: newId("user"),
    email,
    role,
    status: "active",
    passwordHash: null,
    limits: NO_LIMITS,
    groups: [],
    createdAtMs: clock.nowMs(),
  };
  await putUser(db, user);
  return user;
}

function readHeaders(init: RequestInit): Record<string, string> {
  return Object.fromEntries(new Headers(init.headers).entries());
}

export function buildPath(
  path: string,
  params: RouteRequest["params"] = {},
  query: RouteRequest["query"] = {},
): string {
  const filled = path.replace(/:(\w+)\*?/g, (_, name: string) => encodeURIComponent(params[name] ?? "x"));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) search.set(name, String(value));
  return search.size === 0 ? filled : `${filled}?${search}`;
}

/**
 * Defines an operation of the console API: path, access, input and output. The request handler, the OpenAPI
 * document, the types of the console and the access tests of every route all use the same table.
 */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, paramError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { SharedResponse } from "../../net/wire/http-message.ts";
import type { ServiceAccountRecord, ServiceScope } from "../../records/service-account.ts";
import type { Role } from "../../records/user.ts";
import { includesScope, type TokenScope } from "../../store/identity/access-tokens.ts";
import type { ConsoleContext } from "../context.ts";
import { parseInput } from "./parse-input.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Who may call a route: everyone, users, auditors and administrators, administrators, service accounts. */
export type Access = "anyone" | "user" | "auditor" | "admin" | "service";

/** An authenticated person. */
export interface Actor {
  readonly kind: "person";
  readonly userId: string;
  readonly email: string;
  readonly role: Role;
  /** Authenticated by a session cookie or a personal access token. */
  readonly via:
    | { readonly kind: "session"; readonly id: string }
    | { readonly kind: "token"; readonly id: string; readonly scope: TokenScope };
}

/** An authenticated program. It has no role: its scopes name all that it may do. */
export interface ServiceActor {
  readonly kind: "service";
  readonly account: ServiceAccountRecord;
  readonly tokenId: string;
}

export type ApiCaller = Actor | ServiceActor;

export interface RouteInput<Params, Query, Body, Who extends ApiCaller | null> {
  readonly actor: Who;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly requestId: string;
  readonly clientAddress: string;
  readonly userAgent: string;
  readonly headers: HeaderReader;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Aborted when the gateway shuts down, to end streams that would not end by themselves. */
  readonly shutdownSignal: AbortSignal;
}

/** The request as received. Nothing is validated yet. */
export type RawRouteInput = Omit<RouteInput<unknown, unknown, unknown, null>, "actor">;

/** The default of parameters and query, and the response of an operation that returns nothing. */
export const NO_FIELDS = z.strictObject({});
const NO_BODY = z.undefined();

interface Shape<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
> {
  readonly method: Method;
  /** `:id` matches one segment, `:id*` the rest of the path. */
  readonly path: `/api/${string}` | `/scim/v2/${string}` | "/metrics";
  /** One line for the documentation. */
  readonly summary: string;
  /** If parameters, query or body are omitted, the route has none, and a request that sends some is rejected. */
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  readonly response: ResponseBody;
  /** The media type of a successful response that is a `Response` instead of JSON. */
  readonly media?: string;
  /** Fields of the body that only administrators may send. Other callers get an error that names the field. */
  readonly adminFields?: readonly string[];
  /**
   * The scope that a personal access token needs. `none`: tokens are not accepted; the caller must be signed in
   * or, for a public route, anonymous. If omitted: `read` for GET, `admin` for changes by administrators,
   * `none` for all others.
   */
  readonly tokenScope?: TokenScope | "none";
  /** Accepts the header `Idempotency-Key`: repeating a key does nothing and returns the first response. */
  readonly takesIdempotencyKey?: boolean;
  /** A longer body is rejected. If omitted, the limit for forms applies. */
  readonly bodyBytesMax?: number;
  /**
   * `reports`: the database of the context is `Db.reports`, which cannot write. If omitted: `reports` for GET by
   * people who are signed in, `direct` for all others.
   */
  readonly reads?: "reports" | "direct";
}

export interface ConsoleRoute<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  ResponseBody extends z.ZodType = z.ZodType,
> extends Required<Shape<Params, Query, Body, ResponseBody>> {
  readonly access: Access;
  /** The scope that a service account needs. `none`: service accounts are rejected, also on public routes. */
  readonly serviceScope: ServiceScope | "none";
  /** Called before the body is read. Throws if the caller is not allowed; otherwise returns the operation. */
  allow(caller: ApiCaller | null): Handle<ResponseBody>;
}

/**
 * Validates the input, then executes the operation. Returns a `Response` for everything other than JSON (a
 * file, an event stream, a cookie), or a document that all clients share.
 */
type Handle<ResponseBody extends z.ZodType = z.ZodType> = (
  context: ConsoleContext,
  raw: RawRouteInput,
) => Promise<z.input<ResponseBody> | Response | SharedResponse>;

type Run<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
  Who extends ApiCaller | null,
> = (
  context: ConsoleContext,
  input: RouteInput<z.output<Params>, z.output<Query>, z.output<Body>, Who>,
) => Promise<z.input<ResponseBody> | Response | SharedResponse>;

/** Declares a route. `More` is what its shape has in addition. */
type RouteDeclaration<Who extends ApiCaller | null, More = unknown> = <
  Params extends z.ZodType = typeof NO_FIELDS,
  Query extends z.ZodType = typeof NO_FIELDS,
  Body extends z.ZodType = typeof NO_BODY,
  ResponseBody extends z.ZodType = z.ZodType,
>(
  shape: Shape<Params, Query, Body, ResponseBody> &
    More & { run: Run<Params, Query, Body, ResponseBody, Who> },
) => ConsoleRoute<Params, Query, Body, ResponseBody>;

export const forAnyone: RouteDeclaration<Actor | null> = (shape) =>
  makeRoute(
    peopleOnly("anyone", (actor) => actor),
    shape,
  );

export const forUsers: RouteDeclaration<Actor> = (shape) => makeRoute(peopleOnly("user", signedIn), shape);

/** For routes that only read. */
export const forAuditors: RouteDeclaration<Actor, { method: "GET" }> = (shape) =>
  makeRoute(peopleOnly("auditor", requireReader), shape);

export const forAdmins: RouteDeclaration<Actor> = (shape) =>
  makeRoute(peopleOnly("admin", requireAdmin), shape);

/** For administrators, and for service accounts with the scope. */
export const forAdminsAndServices: RouteDeclaration<ApiCaller, { serviceScope: ServiceScope }> = (shape) =>
  makeRoute(withServices("admin", requireAdmin, shape.serviceScope), shape);

/** For signed-in users, and for service accounts with the scope. */
export const forUsersAndServices: RouteDeclaration<ApiCaller, { serviceScope: ServiceScope }> = (shape) =>
  makeRoute(withServices("user", signedIn, shape.serviceScope), shape);

/** For service accounts with the scope, and no one else. */
export const forServices: RouteDeclaration<ServiceActor, { serviceScope: ServiceScope }> = (shape) => {
  const { serviceScope } = shape;
  return makeRoute(
    {
      access: "service",
      serviceScope,
      admitPerson: (actor) => rejectPerson(actor, serviceScope),
      admitService: (service) => requireServiceScope(service, serviceScope),
    },
    { ...shape, tokenScope: "none" },
  );
};

function requireReader(actor: Actor | null): Actor {
  const found = signedIn(actor);
  if (seesEverything(found)) return found;
  throw new ApiError("forbidden", "Only administrators and auditors may read this. Ask an administrator.");
}

/** Whether the caller may read usage, balances and ledgers of other users. */
export function seesEverything({ role }: Pick<Actor, "role">): boolean {
  return role === "admin" || role === "auditor";
}

function requireAdmin(actor: Actor | null): Actor {
  const found = signedIn(actor);
  if (found.role === "admin") return found;
  throw new ApiError("forbidden", "Only administrators may do this. Ask an administrator.");
}

function rejectPerson(actor: Actor | null, scope: ServiceScope): never {
  throw new ApiError(
    actor === null ? "sign_in_required" : "forbidden",
    `Send a token of a service account with the scope \`${scope}\` as bearer token.`,
    actor === null ? { headers: { "www-authenticate": "Bearer" } } : {},
  );
}

/** Who may call a route. The functions throw if the caller may not. */
interface Admission<Who extends ApiCaller | null> {
  readonly access: Access;
  readonly serviceScope: ServiceScope | "none";
  admitPerson(actor: Actor | null): Who;
  admitService(service: ServiceActor): Who;
}

function peopleOnly<Who extends Actor | null>(
  access: Access,
  admitPerson: (actor: Actor | null) => Who,
): Admission<Who> {
  return { access, serviceScope: "none", admitPerson, admitService: rejectService };
}

function withServices(
  access: Access,
  admitPerson: (actor: Actor | null) => Actor,
  serviceScope: ServiceScope,
): Admission<ApiCaller> {
  return {
    access,
    serviceScope,
    admitPerson,
    admitService: (service) => requireServiceScope(service, serviceScope),
  };
}

function requireServiceScope(service: ServiceActor, scope: ServiceScope): ServiceActor {
  return service.account.scopes.includes(scope) ? service : rejectService(service, scope);
}

function rejectService({ account: { name } }: ServiceActor, scope?: ServiceScope): never {
  throw new ApiError(
    "forbidden",
    scope === undefined
      ? "Service accounts may not do this. Sign in to the console, or send a personal access token."
      : `This requires the scope \`${scope}\`, which the service account "${name}" does not have. Ask an administrator.`,
  );
}

function makeRoute<
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  A extends z.ZodType,
  Who extends ApiCaller | null,
>(
  { access, serviceScope, admitPerson, admitService }: Admission<Who>,
  {
    // A schema that is not declared has the type of its default.
    params = NO_FIELDS as z.ZodType as P,
    query = NO_FIELDS as z.ZodType as Q,
    body = NO_BODY as z.ZodType as B,
    adminFields = [],
    takesIdempotencyKey = false,
    media = "application/json",
    bodyBytesMax = limits.apiBodyBytesMax,
    run,
    ...shape
  }: Shape<P, Q, B, A> & { run: Run<P, Q, B, A, Who> },
): ConsoleRoute<P, Q, B, A> {
  const tokenScope = shape.tokenScope ?? defaultScope(access, shape.method);
  // SCIM records what it rejects, also of a GET.
  const isRead = shape.method === "GET" && access !== "anyone" && access !== "service";
  const reads = shape.reads ?? (isRead ? "reports" : "direct");
  const admit = (caller: ApiCaller | null): Who => {
    if (caller?.kind === "service") return admitService(caller);
    const actor = admitPerson(withTokenRole(caller, tokenScope));
    rejectScope(caller, tokenScope);
    return actor;
  };
  return {
    ...shape,
    params,
    query,
    body,
    adminFields,
    tokenScope,
    takesIdempotencyKey,
    media,
    bodyBytesMax,
    reads,
    access,
    serviceScope,
    allow(caller) {
      const actor = admit(caller);
      return async (context, raw) => {
        if (actor?.kind !== "person" || actor.role !== "admin") rejectFields(raw.body, adminFields);
        return run(context, {
          ...raw,
          actor,
          params: parseInput("path", params, raw.params),
          query: parseInput("query", query, raw.query),
          body: parseInput("body", body, raw.body),
        });
      };
    },
  };
}

function signedIn(actor: Actor | null): Actor {
  if (actor !== null) return actor;
  throw new ApiError("sign_in_required", "Sign in first, or send a personal access token as bearer token.");
}

function defaultScope(access: Access, method: Method): TokenScope | "none" {
  if (method === "GET") return "read";
  return access === "admin" ? "admin" : "none";
}

/** With the scope `keys`, an administrator's token changes only the own keys, like any user's. */
function withTokenRole<Who extends Actor | null>(actor: Who, needed: TokenScope | "none"): Who {
  if (needed !== "keys" || actor?.via.kind !== "token" || actor.via.scope === "admin") return actor;
  return { ...actor, role: "user" };
}

function rejectScope(actor: Actor | null, needed: TokenScope | "none"): void {
  if (actor?.via.kind !== "token") return;
  if (needed === "none") {
    throw new ApiError("forbidden", "Personal access tokens may not do this. Sign in to the console.");
  }
  const { scope } = actor.via;
  if (includesScope(scope, needed)) return;
  throw new ApiError(
    "forbidden",
    `This requires a personal access token with the scope \`${needed}\`, but yours has \`${scope}\`. Create a token with this scope under Profile and security.`,
  );
}

function rejectFields(body: unknown, names: readonly string[]): void {
  if (typeof body !== "object" || body === null) return;
  const forbiddenField = names.find((name) => Object.hasOwn(body, name));
  if (forbiddenField === undefined) return;
  throw paramError(
    forbiddenField,
    "forbidden",
    `Only administrators may set \`${forbiddenField}\`. Remove the field.`,
  );
}

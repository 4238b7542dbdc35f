/**
 * One operation of the console's API: where it is, who may ask for it, what it takes and what it gives. The door, the
 * OpenAPI document, the console's types and the test of every role against every route all read the same table.
 */

import { z } from "zod";
import { limits } from "../../config/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { SharedAnswer } from "../../net/wire/http-message.ts";
import type { Role } from "../../records.ts";
import { includesScope, type TokenScope } from "../../store/identity/access-tokens.ts";
import type { ConsoleContext } from "../context.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Who may ask: anybody, whoever is signed in, or administrators. */
export type Access = "anyone" | "user" | "admin";

/** Whoever asks, as the door found out. */
export interface Actor {
  readonly userId: string;
  readonly email: string;
  readonly role: Role;
  /** By the cookie of a session, or by a personal access token. */
  readonly via:
    | { readonly kind: "session"; readonly id: string }
    | { readonly kind: "token"; readonly id: string; readonly scope: TokenScope };
}

export interface RouteInput<Params, Query, Body, Who extends Actor | null> {
  readonly actor: Who;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly requestId: string;
  readonly clientAddress: string;
  readonly userAgent: string;
  readonly headers: HeaderReader;
  /** Aborted when whoever asked has gone. */
  readonly signal: AbortSignal;
  /** Aborted when the gateway is about to stop: an answer without an end then ends. */
  readonly leaving: AbortSignal;
}

/** The request as it came in: nothing of it is checked yet. */
export type RawRouteInput = Omit<RouteInput<unknown, unknown, unknown, null>, "actor">;

export const NOTHING = z.strictObject({});

/** Spread first into a route: whatever it takes is then named after it. */
export const TAKES_NOTHING = { params: NOTHING, query: NOTHING, body: z.undefined() };

interface Shape<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Answer extends z.ZodType,
> {
  readonly method: Method;
  /** `:id` is one segment, `:id*` the rest of the path. */
  readonly path: `/api/${string}` | "/metrics";
  /** One line, for the documentation. */
  readonly summary: string;
  readonly params: Params;
  readonly query: Query;
  /** `z.undefined()` where there is none. */
  readonly body: Body;
  readonly answer: Answer;
  /** Of a successful answer that is a `Response` of its own and no JSON. */
  readonly media?: string;
  /** Fields of the body that only administrators may send; from anybody else they are refused by name. */
  readonly adminFields?: readonly string[];
  /**
   * The scope that a personal access token needs. `none`: no token is enough, the caller must be signed in or, where
   * anybody may ask, anonymous. Left out: `read` for GET, `admin` for changes by administrators, `none` for all others.
   */
  readonly tokenScope?: TokenScope | "none";
  /** Takes the header `Idempotency-Key`: the same key again does nothing and gives the first answer. */
  readonly takesIdempotencyKey?: boolean;
  /** A longer body is refused. Left out: what a form may come to. */
  readonly bodyBytesMax?: number;
}

export interface ConsoleRoute<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
> extends Required<Shape<Params, Query, Body, Answer>> {
  readonly access: Access;
  /** Called before the body is read. Throws for those who may not; returns the operation for those who may. */
  allow(actor: Actor | null): Handle<Answer>;
}

/** Checks what was sent, then does it. A `Response` is no JSON body: a file, a stream of events, a cookie; or a document that all clients share. */
export type Handle<Answer extends z.ZodType = z.ZodType> = (
  control: ConsoleContext,
  raw: RawRouteInput,
) => Promise<z.input<Answer> | Response | SharedAnswer>;

type Run<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Answer extends z.ZodType,
  Who extends Actor | null,
> = (
  control: ConsoleContext,
  asked: RouteInput<z.output<Params>, z.output<Query>, z.output<Body>, Who>,
) => Promise<z.input<Answer> | Response | SharedAnswer>;

export function forAnyone<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>(
  shape: Shape<P, Q, B, A> & { run: Run<P, Q, B, A, Actor | null> },
): ConsoleRoute<P, Q, B, A> {
  return makeRoute("anyone", shape, shape.run, (actor) => actor);
}

export function forUsers<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>(
  shape: Shape<P, Q, B, A> & { run: Run<P, Q, B, A, Actor> },
): ConsoleRoute<P, Q, B, A> {
  return makeRoute("user", shape, shape.run, signedIn);
}

export function forAdmins<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, A extends z.ZodType>(
  shape: Shape<P, Q, B, A> & { run: Run<P, Q, B, A, Actor> },
): ConsoleRoute<P, Q, B, A> {
  return makeRoute("admin", shape, shape.run, (actor) => {
    const found = signedIn(actor);
    if (found.role === "admin") return found;
    throw new ApiError("forbidden", "Only administrators may do this. Ask one of them.");
  });
}

function makeRoute<
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  A extends z.ZodType,
  Who extends Actor | null,
>(
  access: Access,
  {
    adminFields = [],
    takesIdempotencyKey = false,
    media = "application/json",
    bodyBytesMax = limits.apiBodyBytesMax,
    ...shape
  }: Shape<P, Q, B, A>,
  run: Run<P, Q, B, A, Who>,
  whoMay: (actor: Actor | null) => Who,
): ConsoleRoute<P, Q, B, A> {
  const tokenScope = shape.tokenScope ?? defaultScope(access, shape.method);
  return {
    ...shape,
    adminFields,
    tokenScope,
    takesIdempotencyKey,
    media,
    bodyBytesMax,
    access,
    allow(asking) {
      const actor = whoMay(withTokenRole(asking, tokenScope));
      refuseScope(actor, tokenScope);
      return async (control, raw) => {
        if (actor?.role !== "admin") refuseFields(raw.body, adminFields);
        return run(control, {
          ...raw,
          actor,
          params: read(shape.params, raw.params),
          query: read(shape.query, raw.query),
          body: read(shape.body, raw.body),
        });
      };
    },
  };
}

function signedIn(actor: Actor | null): Actor {
  if (actor !== null) return actor;
  throw new ApiError("sign_in_required", "Sign in first, or send a personal access token as bearer.");
}

function defaultScope(access: Access, method: Method): TokenScope | "none" {
  if (method === "GET") return "read";
  return access === "admin" ? "admin" : "none";
}

/** With the scope `keys` an administrator's token changes the administrator's own keys, as any user's token does. */
function withTokenRole<Who extends Actor | null>(actor: Who, needed: TokenScope | "none"): Who {
  if (needed !== "keys" || actor?.via.kind !== "token" || actor.via.scope === "admin") return actor;
  return { ...actor, role: "user" };
}

function refuseScope(actor: Actor | null, needed: TokenScope | "none"): void {
  if (actor?.via.kind !== "token") return;
  if (needed === "none") {
    throw new ApiError("forbidden", "A personal access token may not do this. Sign in to the console.");
  }
  const { scope } = actor.via;
  if (includesScope(scope, needed)) return;
  throw new ApiError(
    "forbidden",
    `This needs a personal access token with the scope \`${needed}\`, and yours has \`${scope}\`. Create one with the scope it needs under Profile and security.`,
  );
}

function refuseFields(body: unknown, names: readonly string[]): void {
  if (typeof body !== "object" || body === null) return;
  const sent = names.find((name) => Object.hasOwn(body, name));
  if (sent === undefined) return;
  throw new ApiError("forbidden", `Only administrators may set \`${sent}\`. Leave it out.`, { param: sent });
}

/** A body of thousands of wrong items must not become an answer many times its length. */
const ISSUES_LISTED_MAX = 20;

/** Everything that is wrong is told at once; the first field is named for clients that look at one. */
function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const { issues } = result.error;
  const told = issues
    .slice(0, ISSUES_LISTED_MAX)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`));
  throw new ApiError("invalid_value", told.join("\n"), { param: issues[0]?.path.join(".") || null });
}

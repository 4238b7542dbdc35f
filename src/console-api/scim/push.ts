/** Defines an operation of SCIM: a console route for service accounts, with SCIM's bodies, headers and records. */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { type Projection, project, type Resource, readProjection } from "../../scim/projection.ts";
import { SCIM_MEDIA } from "../../scim/scim-error.ts";
import type { ChangeEntry } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { recordRejectedPush, recordSync } from "../../store/identity/scim-records.ts";
import { readScimProvider, type ScimProvider } from "../../store/settings/sections.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleContext, PolicyContext } from "../context.ts";
import { fieldError } from "../http/field-error.ts";
import {
  type ConsoleRoute,
  forServices,
  type Method,
  type RouteInput,
  type ServiceActor,
} from "../http/route.ts";
import { asRejection } from "../rejections.ts";

type PushInput = RouteInput<Record<string, string>, Record<string, unknown>, unknown, ServiceActor>;

/** One request of a directory. */
export interface Push {
  readonly installation: Installation;
  readonly scim: ScimProvider;
  readonly input: PushInput;
  /** The parameters of a list: of the URL, or of the body of a search. */
  readonly query: Readonly<Record<string, unknown>>;
  /** The address of SCIM without a trailing slash. */
  readonly base: string;
  readonly projection: Projection;
  /** Keys were suspended or restored: this node reads them before it responds. */
  refresh(): Promise<void>;
}

const SEARCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";
const params = z.record(z.string(), z.string().max(limits.scim.valueCharsMax));
const anyObject = z.record(z.string(), z.unknown(), { error: "a JSON object" });

interface PushShape {
  readonly method: Method;
  readonly path: `/scim/v2/${string}`;
  readonly summary: string;
  run(push: Push): Promise<Response>;
}

export function scimRoute({ method, path, summary, run }: PushShape): ConsoleRoute {
  return forServices({
    method,
    path,
    summary,
    params,
    query: anyObject,
    body: method === "GET" || method === "DELETE" ? z.unknown() : anyObject,
    response: anyObject,
    media: SCIM_MEDIA,
    serviceScope: "scim",
    bodyBytesMax: limits.scim.bodyBytesMax,
    async run(context, input) {
      try {
        const push = await openPush(context, input);
        const response = await run(push);
        await recordSync(
          context.installation.db,
          push.scim.provider.issuer,
          { atMs: context.installation.clock.nowMs(), serviceAccount: input.actor.account.name },
          limits.scim.syncMs,
        );
        return response;
      } catch (thrown) {
        const error = asRejection(thrown);
        if (method !== "GET" && error.status < 500)
          await recordRejection(context, input, { method, path, error });
        throw thrown;
      }
    },
  });
}

async function openPush(
  { installation, gateway, publicUrl }: ConsoleContext,
  input: PushInput,
): Promise<Push> {
  const query = readQuery(input);
  const scim = await readScimProvider(installation.db);
  if (scim === null)
    throw new ApiError("forbidden", "SCIM is off. An administrator sets `scim` in gateway.yaml.");
  return {
    installation,
    scim,
    input,
    query,
    base: `${publicUrl}/scim/v2`,
    projection: readProjection(query),
    refresh: () => gateway.policy.refresh(),
  };
}

/** RFC 7644, section 3.4.3: a search has its parameters in the body, with lists as arrays. */
function readQuery({ query, body }: PushInput): Push["query"] {
  if (typeof body !== "object" || body === null || !readList(body, "schemas").includes(SEARCH_SCHEMA))
    return query;
  const { filter, startIndex, count } = body as Record<string, unknown>;
  const attributes = readList(body, "attributes").join(",");
  const excludedAttributes = readList(body, "excludedAttributes").join(",");
  const pages = { startIndex: toText(startIndex), count: toText(count) };
  return { filter, ...pages, attributes, excludedAttributes };
}

function readList(body: object, name: string): readonly unknown[] {
  const value = (body as Record<string, unknown>)[name];
  return Array.isArray(value) ? value : [];
}

function toText(value: unknown): unknown {
  return typeof value === "number" ? String(value) : value;
}

async function recordRejection(
  { installation, gateway }: PolicyContext,
  { actor, params, requestId }: PushInput,
  { method, path, error }: { method: string; path: string; error: ApiError },
): Promise<void> {
  const { db, clock, newId } = installation;
  const request = `${method} ${path.replace(":id", () => params.id ?? "")}`;
  gateway.log.warn("push_rejected", { request_id: requestId, request, reason: error.message });
  await recordRejectedPush(
    db,
    {
      id: newId("rej"),
      atMs: clock.nowMs(),
      serviceAccount: actor.account.name,
      request,
      status: error.status,
      reason: error.message,
    },
    limits.scim.rejectionsMax,
  );
}

/** A change in one transaction. It waits for other changes of users and keys, and fails if the token was revoked meanwhile. */
export function changeDirectory<Result>(
  { installation, input }: Push,
  work: (tx: Db) => Promise<Result>,
): Promise<Result> {
  return transaction(installation.db, async (tx) => {
    await bumpKeyRevision(tx);
    await requireLiveActor(tx, input.actor);
    return work(tx);
  });
}

/** Last in a transaction: it locks the end of the audit log. */
export function recordDirectoryChange(
  tx: Db,
  { installation, input }: Push,
  entry: Pick<ChangeEntry, "action" | "target" | "changes">,
): Promise<void> {
  return recordChange(tx, input, { ...entry, atMs: installation.clock.nowMs() });
}

interface Representation {
  readonly resource: Resource;
  readonly location: string;
  readonly version: number;
}

export function respondWith(
  { projection, input }: Push,
  { resource, location, version }: Representation,
  status = 200,
): Response {
  const etag = formatEtag(version);
  const headers = { etag, location };
  const isCurrent =
    input.headers
      .get("if-none-match")
      ?.split(",")
      .some((one) => one.trim() === etag) ?? false;
  if (status === 200 && isCurrent) return new Response(null, { status: 304, headers });
  return scimJson(project(resource, projection), { status, headers });
}

export function scimJson(
  body: unknown,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  return new Response(JSON.stringify(body), { status, headers: { ...headers, "content-type": SCIM_MEDIA } });
}

function formatEtag(version: number): string {
  return `W/"${version}"`;
}

/** Throws if the resource is no longer the one that the directory has read. */
export function requireVersion({ input }: Push, version: number): void {
  const expected = input.headers.get("if-match");
  if (expected === null || expected.trim() === "*") return;
  if (expected.split(",").some((one) => one.trim() === formatEtag(version))) return;
  throw new ApiError("precondition_failed", "The resource has changed since it was read. Read it again.");
}

const LIST_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

export function listResponse(
  resources: readonly Resource[],
  { total, startIndex }: { total: number; startIndex: number },
): Response {
  return scimJson({
    schemas: [LIST_SCHEMA],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  });
}

export interface ResourcePage {
  total: number;
  resources: readonly Resource[];
}

export type ListResources = (push: Push, page: { offset: number; limit: number }) => Promise<ResourcePage>;

/** The operation of a route that lists or searches one kind of resources. */
export function runList(list: ListResources): (push: Push) => Promise<Response> {
  return async (push) => {
    const { startIndex, count } = readPaging(push.query);
    const { total, resources } = await list(push, { offset: startIndex - 1, limit: count });
    return listResponse(resources, { total, startIndex });
  };
}

/** Values out of bounds are reduced, as RFC 7644 requires. */
export function readPaging(query: Push["query"]): { startIndex: number; count: number } {
  const { pageMax } = limits.scim;
  return {
    startIndex: Math.max(1, readWhole(query.startIndex, "startIndex") ?? 1),
    count: Math.min(pageMax, Math.max(0, readWhole(query.count, "count") ?? pageMax)),
  };
}

function readWhole(value: unknown, name: string): number | null {
  if (value === undefined) return null;
  if (typeof value === "string" && /^-?\d{1,9}$/.test(value)) return Number(value);
  throw fieldError(name, "invalid_value", "must be a whole number.");
}

export function formatMeta(
  resourceType: "User" | "Group",
  location: string,
  { createdAtMs, changedAtMs, version }: { createdAtMs: number; changedAtMs: number; version: number },
) {
  return {
    resourceType,
    created: new Date(createdAtMs).toISOString(),
    lastModified: new Date(changedAtMs).toISOString(),
    location,
    version: formatEtag(version),
  };
}

/**
 * Calls the console's API. Names, parameters and responses are the types of the route table itself (`src/console-api`);
 * the build inserts the method and path of each operation.
 */

import type { z } from "zod";
import type { RouteName, Routes } from "../src/console-api/routes.ts";

export type { RouteName };

/** Name → "METHOD /path". `build.ts` inserts it. */
declare const ROUTE_TABLE: Readonly<Record<RouteName, string>>;

type Given<Name extends RouteName, Part extends "params" | "query" | "body"> = z.input<Routes[Name][Part]>;

/** A part whose fields are all optional can be omitted. */
type Slot<Part extends string, Value> = [Value] extends [undefined]
  ? { readonly [name in Part]?: undefined }
  : Record<string, never> extends Value
    ? { readonly [name in Part]?: Value }
    : { readonly [name in Part]: Value };

export type Input<Name extends RouteName> = Slot<"params", Given<Name, "params">> &
  Slot<"query", Given<Name, "query">> &
  Slot<"body", Given<Name, "body">>;

/** The input can be omitted if all of its parts can. */
export type InputArgs<Name extends RouteName> =
  Record<string, never> extends Input<Name> ? [input?: Input<Name>] : [input: Input<Name>];

export type ResponseBody<Name extends RouteName> = z.output<Routes[Name]["response"]>;

/** Names of lists, whose responses are pages. */
export type ListName = {
  [Name in RouteName]: ResponseBody<Name> extends { data: readonly unknown[]; next: string | null }
    ? Name
    : never;
}[RouteName];

export type ListRow<Name extends ListName> =
  ResponseBody<Name> extends { data: readonly (infer Row)[] } ? Row : never;

/** The API rejected the request, or could not be reached. `param` is the field, as the form names it. */
export class ApiProblem extends Error {
  readonly code: string;
  readonly param: string | null;
  readonly status: number;
  readonly requestId: string | null;

  constructor(
    error: { code: string; message: string; param?: string | null; request_id?: string },
    status: number,
  ) {
    super(error.message);
    this.name = "ApiProblem";
    this.code = error.code;
    this.param = error.param ?? null;
    this.status = status;
    this.requestId = error.request_id ?? null;
  }
}

interface Loose {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

export async function api<Name extends RouteName>(
  name: Name,
  input: Input<Name>,
  signal?: AbortSignal,
): Promise<ResponseBody<Name>> {
  const { method, url } = locate(name, input);
  const { body }: Loose = input;
  const response = await fetch(url, {
    method,
    signal: signal ?? null,
    headers: {
      accept: "application/json",
      ...(method === "GET" ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiProblem({ code: "unreachable", message: "" }, 0);
  });
  if (!response.ok) throw await readProblem(response);
  if (response.status === 204) return undefined as ResponseBody<Name>;
  return response.json();
}

/** For links that the browser follows itself: downloads and event streams. */
export function buildAddress<Name extends RouteName>(name: Name, ...[input]: InputArgs<Name>): string {
  return locate(name, input ?? {}).url;
}

function locate(name: RouteName, { params, query }: Loose): { method: string; url: string } {
  const [method = "GET", pattern = ""] = ROUTE_TABLE[name].split(" ");
  const path = pattern.replace(/:(\w+)\*?/g, (_, param: string) =>
    encodeURIComponent(String(isRecord(params) ? params[param] : "")),
  );
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(isRecord(query) ? query : {})) {
    if (value !== undefined && value !== null && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return { method, url: text === "" ? path : `${path}?${text}` };
}

async function readProblem(response: Response): Promise<ApiProblem> {
  const body: unknown = await response.json().catch(() => null);
  const error = isRecord(body) ? body.error : null;
  if (!isRecord(error) || typeof error.code !== "string" || typeof error.message !== "string") {
    return new ApiProblem({ code: "unreachable", message: "" }, response.status);
  }
  return new ApiProblem(
    {
      code: error.code,
      message: error.message,
      param: typeof error.param === "string" ? error.param : null,
      ...(typeof error.request_id === "string" ? { request_id: error.request_id } : {}),
    },
    response.status,
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

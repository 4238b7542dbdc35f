import { expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { ERROR_CODES, type ErrorCode } from "../errors.ts";
import { listRoutes } from "../server/routes.ts";
import { isDescribed, openApiDocument } from "./openapi.ts";
import type { Content } from "./operation.ts";
import { OPERATIONS } from "./operations.ts";

const document = openApiDocument(listRoutes(), {
  version: "1.2.3",
  publicUrl: "https://gateway.example.com",
});

/** Not operations for clients: the document itself, and HEAD requests. */
const isLeftOut = ({ method, path }: { method: string; path: string }) =>
  path === "/openapi.json" || method === "HEAD";

test("the document is valid OpenAPI 3.1", async () => {
  const result = await new Validator().validate(structuredClone(document));
  expect(result.errors ?? []).toEqual([]);
  expect(result.valid).toBe(true);
});

test("every route is described, and nothing else", () => {
  const names = listRoutes()
    .filter((route) => !isLeftOut(route))
    .map(({ method, path }) => `${method} ${path}`);
  expect(names.filter((name) => !isDescribed(name))).toEqual([]);
  expect(Object.keys(OPERATIONS).toSorted()).toEqual(names.toSorted());
});

test("operation ids are unique", () => {
  const ids = Object.values(OPERATIONS).map(({ id }) => id);
  expect(new Set<string>(ids).size).toBe(ids.length);
});

test("every reference resolves", () => {
  const text = JSON.stringify(document);
  const names = [...text.matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)].map(([, kind, name]) => [
    kind,
    name,
  ]);
  expect(names.length).toBeGreaterThan(50);
  const parts: Record<string, Record<string, unknown>> = JSON.parse(text).components;
  expect(names.filter(([kind = "", name = ""]) => parts[kind]?.[name] === undefined)).toEqual([]);
});

const contents: [string, Content][] = Object.entries(OPERATIONS).flatMap(
  ([name, { body, response, stream }]) => [
    ...Object.entries(body ?? {}).map(([type, content]): [string, Content] => [`${name} ${type}`, content]),
    [`${name} response`, response],
    ...(stream === null ? [] : [[`${name} stream`, stream] satisfies [string, Content]]),
  ],
);

test.each(contents)("%s has examples, and each of them matches its schema", (_, { schema, examples }) => {
  expect(examples.length).toBeGreaterThan(0);
  for (const { value } of examples) {
    for (const one of typeof value === "string" ? parseEvents(value) : [value]) schema.parse(one);
  }
});

/** Parses the data of a written stream. */
function parseEvents(stream: string): unknown[] {
  return [...stream.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

/** Codes that belong to no operation: sent to a disconnected client, by every path, or by the console API. */
const OF_NO_OPERATION: readonly ErrorCode[] = [
  "sign_in_expired",
  "sign_in_required",
  "wrong_credentials",
  "identity_rejected",
  "confirmation_required",
  "second_factor_required",
  "forbidden",
  "not_in_scope",
  "address_not_verified",
  "not_assigned",
  "bound_exceeded",
  "foreign_origin",
  "registration_closed",
  "unknown_url",
  "method_not_allowed",
  "conflict",
  "account_exists",
  "link_used_up",
  "precondition_failed",
  "expectation_failed",
  "misdirected_request",
  "request_header_fields_too_large",
  "client_closed_request",
  "sign_in_unavailable",
  "http_version_not_supported",
];

test("every error code belongs to an operation, with an example", () => {
  const named = new Set<ErrorCode>(Object.values(OPERATIONS).flatMap(({ errors }) => errors));
  expect(ERROR_CODES.filter((code) => !named.has(code))).toEqual([...OF_NO_OPERATION]);
});

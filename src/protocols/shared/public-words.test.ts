import { expect, test } from "bun:test";
import { z } from "zod";
import { ERROR_CODES, UPSTREAM_CODES } from "../../errors.ts";
import * as chat from "../../public-api/schemas/chat.ts";
import * as embeddings from "../../public-api/schemas/embeddings.ts";
import * as gemini from "../../public-api/schemas/gemini.ts";
import * as images from "../../public-api/schemas/images.ts";
import * as messages from "../../public-api/schemas/messages.ts";
import * as responses from "../../public-api/schemas/responses.ts";
import { isPublicName } from "./public-words.ts";

/** The names of all members in a JSON schema. */
function memberNames(schema: unknown): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const own = "properties" in schema ? Object.keys(schema.properties as object) : [];
  return [...own, ...Object.values(schema).flatMap(memberNames)];
}

test("every error code and every member of the described API is a public name", () => {
  const schemas = [chat, embeddings, gemini, images, messages, responses]
    .flatMap((dialect) => Object.values<unknown>(dialect))
    .filter((schema) => schema instanceof z.ZodType);
  const members = schemas
    .flatMap((schema) => memberNames(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" })))
    .map((name) => name.replace("[]", ""));
  expect(members).toContain("max_completion_tokens");
  const names = new Set([...members, ...ERROR_CODES, ...UPSTREAM_CODES]);
  expect([...names].filter((name) => !isPublicName(name))).toEqual([]);
});

test.each(["acme", "acme_prod", "model_acme_error", "AcmeError", "AbCdEf", "prod1", "sk_live_abc"])(
  "%s is not a public name",
  (name) => {
    expect(isPublicName(name)).toBe(false);
  },
);

/** The API's operations as the explorer lists them. */

import { FAMILIES, type Family, type Operation } from "../../src/public-api/operation.ts";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { socketMessage } from "../../src/public-api/schemas/responses.ts";
import { bodySchema, type JsonSchema } from "./structure.ts";
import type { KeyModel } from "./use-models.ts";

export interface Listed extends Operation {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** A turn over the WebSocket is an operation with a body of its own. */
  readonly isSocket: boolean;
  readonly schema: JsonSchema;
}

const METHODS = ["GET", "POST", "DELETE"] as const;

const SOCKET_ID = "openResponsesSocket";

function listed(name: string, operation: Operation): Listed {
  const [word = "", path = ""] = name.split(" ");
  const isSocket = operation.id === SOCKET_ID;
  const json = operation.body?.["application/json"];
  return {
    ...operation,
    method: METHODS.find((method) => method === word) ?? "GET",
    path,
    isSocket,
    schema: bodySchema(isSocket ? { schema: socketMessage } : json),
  };
}

export const KNOWN_OPERATIONS: readonly Listed[] = Object.entries(OPERATIONS).map(([name, operation]) =>
  listed(name, operation),
);

export const BY_FAMILY: readonly { family: Family; operations: readonly Listed[] }[] = FAMILIES.map(
  (family) => ({
    family,
    operations: KNOWN_OPERATIONS.filter((operation) => operation.family === family),
  }),
);

/** What a newcomer should see first. */
const FIRST = "createResponse";

export function operationOf(id: string): Listed | null {
  return KNOWN_OPERATIONS.find((operation) => operation.id === id) ?? null;
}

export function firstOperation(): Listed {
  const [any] = KNOWN_OPERATIONS;
  const first = operationOf(FIRST) ?? any;
  if (first === undefined) throw new Error("The API has no operations.");
  return first;
}

/** By which of a model's interfaces a family is called. */
const INTERFACE_OF: Readonly<Partial<Record<Family, string>>> = {
  Responses: "responses",
  "Chat Completions": "chat",
  Embeddings: "embeddings",
  Images: "images",
};

/** Ids of the models that an operation can be asked of. */
export function modelsFor({ family }: Listed, models: readonly KeyModel[]): string[] {
  const wanted = INTERFACE_OF[family];
  return models.flatMap(({ id, interfaces }) =>
    wanted === undefined || interfaces.includes(wanted) ? [id] : [],
  );
}

const TURN = { type: "response.create", model: "fast-chat", input: "Say hello in one word." };

/** Bodies to begin with, as text, with a model that the key can call. */
export function examplesOf(operation: Listed, models: readonly string[]): { name: string; text: string }[] {
  const values = operation.isSocket
    ? [
        { name: "turn", value: TURN },
        { name: "warm-up", value: { ...TURN, generate: false } },
      ]
    : (operation.body?.["application/json"]?.examples ?? []);
  return values.map(({ name, value }) => ({ name, text: JSON.stringify(withModel(value, models), null, 2) }));
}

/** What this page knows to be there, by the names that paths have for it. */
export type Known = Readonly<Partial<Record<string, string>>>;

/** Values of the path to begin with: what is known to be there, for what is merely an example is not found. */
export function pathExamples({ parameters }: Listed, known: Known): Record<string, string> {
  return Object.fromEntries(
    parameters.filter((one) => one.in === "path").map(({ name, example }) => [name, known[name] ?? example]),
  );
}

/** The example's model if the key has it, else the first it has: what can be run beats what is written. */
function withModel(value: unknown, models: readonly string[]): unknown {
  if (typeof value !== "object" || value === null || !("model" in value)) return value;
  const [first] = models;
  const isKnown = models.some((model) => model === value.model);
  return first === undefined || isKnown ? value : { ...value, model: first };
}

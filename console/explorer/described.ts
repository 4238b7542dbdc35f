/** The API's operations as the explorer lists them. */

import { FAMILIES, type Family, type Operation } from "../../src/public-api/operation.ts";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { socketMessage } from "../../src/public-api/schemas/responses.ts";
import { DEMO_MODELS } from "./demo-models.ts";
import type { JsonSchema } from "./json-schema.ts";
import { bodySchema } from "./structure.ts";
import type { KeyModel } from "./use-models.ts";

export interface ExplorerOperation extends Operation {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** A turn over the WebSocket is an operation with its own body. */
  readonly isSocket: boolean;
  readonly schema: JsonSchema;
}

const METHODS = ["GET", "POST", "DELETE"] as const;

const SOCKET_ID = "openResponsesSocket";

function listed(name: string, operation: Operation): ExplorerOperation {
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

export const KNOWN_OPERATIONS: readonly ExplorerOperation[] = Object.entries(OPERATIONS).map(
  ([name, operation]) => listed(name, operation),
);

export const BY_FAMILY: readonly { family: Family; operations: readonly ExplorerOperation[] }[] =
  FAMILIES.map((family) => ({
    family,
    operations: KNOWN_OPERATIONS.filter((operation) => operation.family === family),
  }));

/** The operation that is shown first. */
const FIRST = "createResponse";

export function findOperation(id: string): ExplorerOperation | null {
  return KNOWN_OPERATIONS.find((operation) => operation.id === id) ?? null;
}

export function firstOperation(): ExplorerOperation {
  const [any] = KNOWN_OPERATIONS;
  const first = findOperation(FIRST) ?? any;
  if (first === undefined) throw new Error("The API has no operations.");
  return first;
}

/** The interface of a model that each family requires. */
const INTERFACE_OF: Readonly<Partial<Record<Family, string>>> = {
  Responses: "responses",
  "Chat Completions": "chat",
  Messages: "messages",
  Gemini: "gemini",
  Embeddings: "embeddings",
  Images: "images",
};

/** Ids of the models whose interfaces include that of the operation. */
export function modelsFor({ family }: ExplorerOperation, models: readonly KeyModel[]): string[] {
  const wanted = INTERFACE_OF[family];
  return models.flatMap(({ id, interfaces }) =>
    wanted === undefined || interfaces.includes(wanted) ? [id] : [],
  );
}

/** The demo's model for the operation: the model of an example until a key is entered. */
export function demoModel({ family }: ExplorerOperation): string {
  return DEMO_MODELS[INTERFACE_OF[family] ?? "responses"] ?? "";
}

export interface BodyExample {
  readonly name: string;
  readonly text: string;
}

const TURN = { type: "response.create", model: "fast-chat", input: "Say hello in one word." };

/** Example bodies. Their model is one of `models`, those that the key can call with this operation. */
export function buildExamples(operation: ExplorerOperation, models: readonly string[]): BodyExample[] {
  const values = operation.isSocket
    ? [
        { name: "turn", value: TURN },
        { name: "warm-up", value: { ...TURN, generate: false } },
      ]
    : (operation.body?.["application/json"]?.examples ?? []);
  return values.map(({ name, value }) => ({
    name,
    text: JSON.stringify(withModel(value, { models, demo: demoModel(operation) }), null, 2),
  }));
}

/** Ids of objects that this page has created, by the name of their path parameter. */
export type Known = Readonly<Partial<Record<string, string>>>;

/** Initial values of the path. Ids of existing objects come first, because an example id is not found. */
export function pathExamples({ parameters }: ExplorerOperation, known: Known): Record<string, string> {
  return Object.fromEntries(
    parameters.filter((one) => one.in === "path").map(({ name, example }) => [name, known[name] ?? example]),
  );
}

/** The model of the example if the key can call it, else one that the key can call, else one of the demo. */
function withModel(value: unknown, { models, demo }: { models: readonly string[]; demo: string }): unknown {
  if (typeof value !== "object" || value === null || !("model" in value)) return value;
  const model = [value.model, demo].find((id) => models.some((known) => known === id)) ?? models[0] ?? demo;
  return { ...value, model };
}

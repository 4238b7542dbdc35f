/** Reads the fields of a JSON body that decide how it is served, without decoding more than necessary. */

import { type ApiError, paramError } from "../../errors.ts";
import { openKnownStrings } from "../../json/known-strings.ts";
import {
  booleanValue,
  integerValue,
  type JsonField,
  scanObject,
  stringValue,
  type ValueKind,
  wantedFields,
} from "../../json/scan.ts";
import type { BodyFields, Endpoint } from "./endpoint.ts";
import { isPresent, type RoutingField, type RoutingScan } from "./json-body.ts";

const cachedModels = openKnownStrings();

export function readModel(bytes: Uint8Array, field: JsonField | undefined, charsMax: number): string {
  if (!field || field.kind === "null") throw missingFieldError("model", "an id from GET /v1/models");
  const cachedModel = cachedModels.find(bytes, field);
  if (cachedModel !== null) return cachedModel;
  // A longer name is not worth decoding.
  const isShort = field.end - field.start <= charsMax * ESCAPE_BYTES_MAX + 2;
  const model = isShort || field.kind !== "string" ? readString(bytes, field, "model") : "";
  if (model === "" || model.length > charsMax) {
    throw paramError("model", "invalid_value", `\`model\` must be 1 to ${charsMax} characters long.`);
  }
  cachedModels.add(bytes, field, model);
  return model;
}

/** OpenRouter and LiteLLM serve a request by one of these models if they choose to, at its price. */
const MODEL_CHOICES = ["models", "fallbacks"] as const;

/** The key's group names the models and their prices, so no upstream may choose among models that a client names. */
export function rejectModelChoice(fields: BodyFields): void {
  const name = MODEL_CHOICES.find((one) => isPresent(fields[one]));
  if (name === undefined) return;
  throw paramError(
    name,
    "unsupported_parameter",
    `\`${name}\` is not supported: the upstream could use a model that your key does not have. Send one \`model\`; an administrator sets the fallback to other models.`,
  );
}

export function readBoolean(field: JsonField | undefined, name: string): boolean {
  if (!field || field.kind === "null") return false;
  const value = booleanValue(field);
  if (value === null) throw wrongTypeError(name, "a boolean", field.kind);
  return value;
}

/** A background response is retrieved later by its id, so it has to be stored. */
export function readBackground({ background, store }: RoutingScan["fields"]): boolean {
  const isBackground = readBoolean(background, "background");
  if (isBackground && store?.kind === "false") {
    throw paramError(
      "background",
      "invalid_value",
      "`background: true` requires `store: true`: a background response is retrieved later by its id. Remove `store` or `background`.",
    );
  }
  return isBackground;
}

/** Rejected here: an upstream that does not stream such an endpoint is not at fault, so it is not tried. */
export function readStream(field: JsonField | undefined, { streaming, path }: Endpoint): boolean {
  const stream = readBoolean(field, "stream");
  if (stream && streaming === "never") {
    throw paramError(
      "stream",
      "unsupported_parameter",
      `POST /v1${path} does not support streaming. Remove \`stream\`.`,
    );
  }
  return stream;
}

export function readCount(bytes: Uint8Array, field: JsonField): number {
  if (field.kind === "null") return 1;
  const count = integerValue(bytes, field);
  if (count === null) throw wrongTypeError("n", "an integer", field.kind);
  if (count < 1 || count > 128) {
    throw paramError("n", "invalid_value", "`n` must be between 1 and 128.");
  }
  return count;
}

/** `\\u0000` is one character. */
const ESCAPE_BYTES_MAX = 6;
/** Longer than any id of an upstream. */
const RESPONSE_ID_BYTES_MAX = 4_096;

export function readPreviousResponse(bytes: Uint8Array, field: JsonField | undefined): string | null {
  if (!field || field.kind === "null") return null;
  if (field.kind === "string" && field.end - field.start > RESPONSE_ID_BYTES_MAX) {
    throw paramError(
      "previous_response_id",
      "invalid_value",
      "`previous_response_id` is too long to be an id.",
    );
  }
  return readString(bytes, field, "previous_response_id");
}

const THREAD = wantedFields(["type", "previous_message_id"]);
const THREAD_DEPTH_MAX = 4;

/** Messages: the conversation that the vendor holds. Null without one, and in a form that only the vendor can judge. */
export function readThread(bytes: Uint8Array, field: JsonField | undefined): MessageThread | null {
  if (field?.kind !== "object") return null;
  const scan = scanObject(bytes, field.start, field.end, THREAD, { depthMax: THREAD_DEPTH_MAX });
  if (!scan.ok) return null;
  const { type, previous_message_id: id } = scan.fields;
  if (type === undefined || stringValue(bytes, type) !== "continue") return { previousMessageId: null };
  const isId = id?.kind === "string" && id.end - id.start <= RESPONSE_ID_BYTES_MAX;
  return { previousMessageId: isId ? (stringValue(bytes, id) ?? "") : "" };
}

/** Without a previous message the thread begins. */
interface MessageThread {
  readonly previousMessageId: string | null;
}

function readString(bytes: Uint8Array, field: JsonField, name: RoutingField): string {
  if (field.kind !== "string") throw wrongTypeError(name, "a string", field.kind);
  const value = stringValue(bytes, field);
  if (value !== null) return value;
  throw paramError(name, "invalid_json", `The value of \`${name}\` is not a valid JSON string.`);
}

/** A thread may be continued without a further message. */
export function checkMessages(bytes: Uint8Array, { thread, messages }: BodyFields): void {
  if (thread?.kind === "object" && messages?.kind === "array") return;
  requireKind(messages, "messages", ["array"], "an array of messages");
  if (messages !== undefined && isEmptyArray(bytes, messages)) {
    throw paramError("messages", "invalid_value", "`messages` is empty. Send at least one message.");
  }
}

/** The response builds on something that the upstream stores. */
export function continuesConversation(fields: BodyFields): boolean {
  return isPresent(fields.previous_response_id) || isPresent(fields.conversation) || isPresent(fields.prompt);
}

export function requireKind(
  field: JsonField | undefined,
  name: RoutingField,
  kinds: readonly ValueKind[],
  description: string,
): void {
  if (!isPresent(field)) throw missingFieldError(name, description);
  if (!kinds.includes(field.kind)) throw wrongTypeError(name, description, field.kind);
}

function isEmptyArray(bytes: Uint8Array, field: JsonField): boolean {
  for (let at = field.start + 1; at < field.end - 1; at++) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false;
  }
  return true;
}

export function missingFieldError(name: string, description: string): ApiError {
  return paramError(
    name,
    "missing_required_parameter",
    `Missing required parameter: \`${name}\` (${description}).`,
  );
}

export function wrongTypeError(name: string, expected: string, kind: ValueKind): ApiError {
  return paramError(
    name,
    "invalid_type",
    `Invalid type for \`${name}\`: expected ${expected}, got ${KIND_NAMES[kind]}.`,
  );
}

const KIND_NAMES: Readonly<Record<ValueKind, string>> = {
  string: "a string",
  number: "a number",
  true: "a boolean",
  false: "a boolean",
  null: "null",
  object: "an object",
  array: "an array",
};

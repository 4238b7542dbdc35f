/**
 * Rejects a request that repeats something too often (`count-limits.ts`). The scan has counted the values within each
 * member, so an ordinary request costs a few comparisons. A member with more values than a list in it may have elements
 * is walked once more, and this walk checks all of its bounds.
 */

import { requestCounts } from "../../count-limits.ts";
import { ApiError, paramError } from "../../errors.ts";
import { type JsonField, type WantedFields, wantedFields, wantedString } from "../../json/scan.ts";
import {
  ARRAY_CLOSE,
  ARRAY_OPEN,
  COMMA,
  colonEnd,
  countWalkedValues,
  DEPTH_LIMIT,
  OBJECT_CLOSE,
  OBJECT_OPEN,
  skipSpace,
  stringEnd,
  valueEnd,
} from "../../json/walk.ts";
import type { InputText } from "./request.ts";

/** The bounds of a value. A value of another type has none of them. */
type Bounds =
  | { readonly kind: "list"; readonly max: number; readonly element: Bounds | null }
  | {
      readonly kind: "object";
      readonly wanted: WantedFields<string>;
      readonly members: ReadonlyMap<string, Bounds>;
    }
  | { readonly kind: "values"; readonly max: number };

type ListBounds = Extract<Bounds, { kind: "list" }>;
type ObjectBounds = Extract<Bounds, { kind: "object" }>;

function list(max: number, element: Bounds | null = null): Bounds {
  return { kind: "list", max, element };
}

function object(members: Readonly<Record<string, Bounds>>): Bounds {
  return {
    kind: "object",
    wanted: wantedFields(Object.keys(members)),
    members: new Map(Object.entries(members)),
  };
}

const { itemsMax, partsMax, toolsMax, allowedToolsMax, schemaNodesMax, embeddingInputsMax, parsedValuesMax } =
  requestCounts;

const PLAIN_PARTS = list(partsMax);
const PARTS = list(
  partsMax,
  object({ content: PLAIN_PARTS, output: PLAIN_PARTS, annotations: PLAIN_PARTS, citations: PLAIN_PARTS }),
);
const OF_MESSAGE = {
  content: PARTS,
  output: PARTS,
  tool_calls: PLAIN_PARTS,
  annotations: PLAIN_PARTS,
  summary: PLAIN_PARTS,
};
const CONTENTS = list(itemsMax, object({ parts: PLAIN_PARTS }));

const SCHEMA: Bounds = { kind: "values", max: schemaNodesMax };
const OF_FUNCTION = {
  function: SCHEMA,
  parameters: SCHEMA,
  input_schema: SCHEMA,
  parametersJsonSchema: SCHEMA,
  parameters_json_schema: SCHEMA,
};
const FUNCTIONS = list(toolsMax, object(OF_FUNCTION));
const TOOLS = list(
  toolsMax,
  object({
    ...OF_FUNCTION,
    tools: FUNCTIONS,
    functionDeclarations: FUNCTIONS,
    function_declarations: FUNCTIONS,
  }),
);

const ALLOWED = list(allowedToolsMax);
const CALLABLE = object({ allowedFunctionNames: ALLOWED, allowed_function_names: ALLOWED });
const TOOL_CONFIG = object({ functionCallingConfig: CALLABLE, function_calling_config: CALLABLE });
const INSTRUCTION = object({ parts: PLAIN_PARTS });
const COUNTED_REQUEST = object({ contents: CONTENTS });

/** By the member of the body. */
const BODY: Readonly<Record<string, Bounds>> = {
  input: list(itemsMax, object({ ...OF_MESSAGE, tools: FUNCTIONS })),
  messages: list(itemsMax, object(OF_MESSAGE)),
  contents: CONTENTS,
  requests: list(itemsMax),
  tools: TOOLS,
  functions: FUNCTIONS,
  system: PLAIN_PARTS,
  systemInstruction: INSTRUCTION,
  system_instruction: INSTRUCTION,
  // The settings of a response, of which only its schema can be long.
  response_format: SCHEMA,
  text: SCHEMA,
  output_config: SCHEMA,
  generationConfig: SCHEMA,
  generation_config: SCHEMA,
  tool_choice: object({ tools: ALLOWED, allowed_tools: object({ tools: ALLOWED }) }),
  toolConfig: TOOL_CONFIG,
  tool_config: TOOL_CONFIG,
  generateContentRequest: COUNTED_REQUEST,
  generate_content_request: COUNTED_REQUEST,
};
const EMBEDDED = list(embeddingInputsMax);

/** No list of fewer values exceeds a bound. */
const VALUES_MIN = Math.min(itemsMax, partsMax, toolsMax, allowedToolsMax);

interface CountedScan {
  readonly fields: { readonly [name: string]: JsonField | undefined };
  /** The values within all members. */
  readonly values: number;
}

/** Throws the error of a request with a list that is too long. `fields` are those of the scanned body. */
export function checkListBounds(bytes: Uint8Array, { fields, values }: CountedScan): void {
  if (values <= VALUES_MIN) return;
  for (const name in BODY) {
    const field = fields[name];
    const bounds = BODY[name];
    if (field === undefined || bounds === undefined || field.values <= VALUES_MIN) continue;
    new BoundsWalk(bytes, field.end, name).walk(field.start, bounds);
  }
}

/** The texts of an embeddings request, or the tokens of one text. */
export function checkEmbeddingInputs(bytes: Uint8Array, input: JsonField | undefined): void {
  if (input === undefined || input.values <= embeddingInputsMax) return;
  new BoundsWalk(bytes, input.end, "input").walk(input.start, EMBEDDED);
}

/**
 * Walks a member that the scan has found to be valid. Every byte is passed once: the walk descends into the values that
 * have bounds, which are a few levels, and skips the others. A member that appears twice is checked twice.
 */
class BoundsWalk {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  /** Where the walk is: the name of each member, and the number of each element. */
  readonly #path: (string | number)[];

  constructor(bytes: Uint8Array, end: number, name: string) {
    this.#bytes = bytes;
    this.#end = end;
    this.#path = [name];
  }

  /** Returns the offset after the value. */
  walk(start: number, bounds: Bounds): number {
    const first = this.#bytes[start];
    if (bounds.kind === "list" && first === ARRAY_OPEN) return this.#walkList(start, bounds);
    if (bounds.kind === "object" && first === OBJECT_OPEN) return this.#walkObject(start, bounds);
    const walked = countWalkedValues();
    const end = this.#skip(start);
    if (bounds.kind === "values" && countWalkedValues() - walked > bounds.max) throw this.#error(bounds);
    return end;
  }

  #walkWithin(step: string | number, start: number, bounds: Bounds): number {
    const first = this.#bytes[start];
    // Strings and numbers have no bounds, and are most of what a dense list has.
    if (first !== OBJECT_OPEN && first !== ARRAY_OPEN) return this.#skip(start);
    this.#path.push(step);
    const end = this.walk(start, bounds);
    this.#path.pop();
    return end;
  }

  #walkList(start: number, bounds: ListBounds): number {
    const { max, element } = bounds;
    let at = this.#space(start + 1);
    if (this.#bytes[at] === ARRAY_CLOSE) return at + 1;
    for (let count = 1; ; count++) {
      if (count > max) throw this.#error(bounds);
      at = element === null ? this.#skip(at) : this.#walkWithin(count - 1, at, element);
      at = this.#space(at);
      if (this.#bytes[at] !== COMMA) return at + 1;
      at = this.#space(at + 1);
    }
  }

  #walkObject(start: number, { wanted, members }: ObjectBounds): number {
    let at = this.#space(start + 1);
    if (this.#bytes[at] === OBJECT_CLOSE) return at + 1;
    for (;;) {
      const key = at;
      const keyEnd = stringEnd(this.#bytes, key + 1, this.#end, key);
      const name = wantedString(this.#bytes, key, keyEnd, wanted);
      const inner = name === undefined ? undefined : members.get(name);
      at = colonEnd(this.#bytes, keyEnd, this.#end);
      at = name === undefined || inner === undefined ? this.#skip(at) : this.#walkWithin(name, at, inner);
      at = this.#space(at);
      if (this.#bytes[at] !== COMMA) return at + 1;
      at = this.#space(at + 1);
    }
  }

  #skip(start: number): number {
    return valueEnd(this.#bytes, start, this.#end, DEPTH_LIMIT);
  }

  #space(at: number): number {
    return skipSpace(this.#bytes, at, this.#end);
  }

  #error({ kind, max }: Exclude<Bounds, ObjectBounds>): ApiError {
    const path = this.#path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
    const param = path.slice(1);
    const count = max.toLocaleString("en-US");
    const counted = kind === "list" ? "elements" : "values";
    const message = `\`${param}\` has more than ${count} ${counted}. Send at most ${count}.`;
    return paramError(param, "invalid_value", message);
  }
}

/** Throws the error of a body that has too many values to be parsed whole. */
export function checkParsedValues(input: Extract<InputText, { kind: "json" }>): void {
  if (input.values <= parsedValuesMax) return;
  throw new ApiError(
    "invalid_value",
    `The request has more than ${parsedValuesMax.toLocaleString("en-US")} JSON values. This model's upstream has another interface, so the request must be translated. Shorten the conversation or its tools.`,
  );
}

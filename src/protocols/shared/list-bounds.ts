/**
 * Rejects a request that repeats something too often (`count-limits.ts`). The scan has counted the values within each
 * member. Only a member with more values than a list in it may have elements is walked again, so an ordinary request
 * costs a few comparisons.
 */

import { requestCounts } from "../../count-limits.ts";
import { ApiError } from "../../errors.ts";
import { countElements, firstElements, type MeasuredRange } from "../../json/array.ts";
import { type JsonField, scanObject, type WantedFields, wantedFields } from "../../json/scan.ts";
import { ARRAY_OPEN, OBJECT_OPEN } from "../../json/walk.ts";
import type { InputText } from "./request.ts";

/** Every element of an array. */
const EACH = "each";

interface ListBound {
  /** From the member of the body down to the list. */
  readonly steps: readonly (WantedFields<string> | typeof EACH)[];
  readonly max: number;
  /** What is counted: the elements of the list, or all values within. */
  readonly of?: "elements" | "values";
}

const { itemsMax, partsMax, toolsMax, allowedToolsMax, schemaNodesMax, embeddingInputsMax, parsedValuesMax } =
  requestCounts;

const CONTENT = wantedFields(["content", "output"]);
/** The lists of a message or item, and those of a part. */
const OF_ITEM = wantedFields(["content", "output", "tool_calls", "annotations", "summary"]);
const OF_PART = wantedFields(["content", "output", "annotations", "citations"]);
const PARTS = wantedFields(["parts"]);
const CONTENTS = wantedFields(["contents"]);
const TOOLS = wantedFields(["tools"]);
const ALLOWED = wantedFields(["allowed_tools"]);
const SCHEMA = wantedFields([
  "function",
  "parameters",
  "input_schema",
  "parametersJsonSchema",
  "parameters_json_schema",
]);
const DECLARATIONS = wantedFields(["functionDeclarations", "function_declarations"]);
const CALLING = wantedFields(["functionCallingConfig", "function_calling_config"]);
const CALLABLE = wantedFields(["allowedFunctionNames", "allowed_function_names"]);

const ITEMS: ListBound = { steps: [], max: itemsMax };
const TOOL_CONFIG: readonly ListBound[] = [{ steps: [CALLING, CALLABLE], max: allowedToolsMax }];
const COUNTED_REQUEST: readonly ListBound[] = [
  { steps: [CONTENTS], max: itemsMax },
  { steps: [CONTENTS, EACH, PARTS], max: partsMax },
];

/** By the member of the body. A list is bounded before the lists within its elements. */
const BOUNDS: Readonly<Record<string, readonly ListBound[]>> = {
  input: [
    ITEMS,
    { steps: [EACH, OF_ITEM], max: partsMax },
    { steps: [EACH, CONTENT, EACH, OF_PART], max: partsMax },
    { steps: [EACH, TOOLS], max: toolsMax },
    { steps: [EACH, TOOLS, EACH, SCHEMA], max: schemaNodesMax, of: "values" },
  ],
  messages: [
    ITEMS,
    { steps: [EACH, OF_ITEM], max: partsMax },
    { steps: [EACH, CONTENT, EACH, OF_PART], max: partsMax },
  ],
  contents: [ITEMS, { steps: [EACH, PARTS], max: partsMax }],
  requests: [ITEMS],
  tools: [
    { steps: [], max: toolsMax },
    { steps: [EACH, TOOLS], max: toolsMax },
    { steps: [EACH, DECLARATIONS], max: toolsMax },
    { steps: [EACH, SCHEMA], max: schemaNodesMax, of: "values" },
    { steps: [EACH, TOOLS, EACH, SCHEMA], max: schemaNodesMax, of: "values" },
    { steps: [EACH, DECLARATIONS, EACH, SCHEMA], max: schemaNodesMax, of: "values" },
  ],
  functions: [
    { steps: [], max: toolsMax },
    { steps: [EACH, SCHEMA], max: schemaNodesMax, of: "values" },
  ],
  tool_choice: [
    { steps: [TOOLS], max: allowedToolsMax },
    { steps: [ALLOWED, TOOLS], max: allowedToolsMax },
  ],
  toolConfig: TOOL_CONFIG,
  tool_config: TOOL_CONFIG,
  generateContentRequest: COUNTED_REQUEST,
  generate_content_request: COUNTED_REQUEST,
};

/** No list of fewer values exceeds a bound. */
const VALUES_MIN = Math.min(itemsMax, partsMax, toolsMax, allowedToolsMax);

interface CountedScan {
  readonly fields: { readonly [name: string]: JsonField | undefined };
  /** The values within all members. */
  readonly values: number;
}

/** Throws the error of a request with a list that is too long. `fields` are those of the scanned body. */
export function checkListBounds(bytes: Uint8Array, { fields, values }: CountedScan, depthMax: number): void {
  if (values <= VALUES_MIN) return;
  for (const name in BOUNDS) {
    const field = fields[name];
    if (field === undefined || field.values <= VALUES_MIN) continue;
    for (const bound of BOUNDS[name] ?? []) new ListCheck(bytes, bound, depthMax).check(field, name, 0);
  }
}

/** The texts of an embeddings request, or the tokens of one text. */
export function checkEmbeddingInputs(bytes: Uint8Array, input: JsonField | undefined): void {
  if (input === undefined || input.values <= embeddingInputsMax) return;
  new ListCheck(bytes, { steps: [], max: embeddingInputsMax }, 1).check(input, "input", 0);
}

class ListCheck {
  readonly #bytes: Uint8Array;
  readonly #bound: ListBound;
  readonly #depthMax: number;

  constructor(bytes: Uint8Array, bound: ListBound, depthMax: number) {
    this.#bytes = bytes;
    this.#bound = bound;
    this.#depthMax = depthMax;
  }

  /** `path` names the value for the client; `at` is the number of steps taken. */
  check(value: MeasuredRange, path: string, at: number): void {
    const { steps, max, of = "elements" } = this.#bound;
    if (value.values <= max) return;
    const step = steps[at];
    if (step === undefined && of === "values") throw tooManyError(path, max, of);
    const first = this.#bytes[value.start];
    if (step === undefined) {
      // One more than allowed shows an excess.
      const isLong = first === ARRAY_OPEN && countElements(this.#bytes, value, max + 1) > max;
      if (isLong) throw tooManyError(path, max, of);
      return;
    }
    if (step === EACH) {
      if (first !== ARRAY_OPEN) return;
      // The list itself was bounded before the lists within its elements.
      const elements = firstElements(this.#bytes, value, Number.POSITIVE_INFINITY);
      for (const [i, one] of elements.entries()) this.check(one, `${path}[${i}]`, at + 1);
      return;
    }
    if (first !== OBJECT_OPEN) return;
    const scan = scanObject(this.#bytes, value.start, value.end, step, { depthMax: this.#depthMax });
    if (!scan.ok) throw repeatedError(path, scan.field ?? "");
    for (const [name, field] of Object.entries(scan.fields))
      if (field !== undefined) this.check(field, `${path}.${name}`, at + 1);
  }
}

function tooManyError(path: string, max: number, counted: "elements" | "values"): ApiError {
  const count = max.toLocaleString("en-US");
  const message = `\`${path}\` has more than ${count} ${counted}. Send at most ${count}.`;
  return new ApiError("invalid_value", message, { param: path });
}

/** Parsers differ in which of two members they use, so neither would be bounded. */
function repeatedError(path: string, name: string): ApiError {
  return new ApiError("duplicate_parameter", `\`${path}.${name}\` appears more than once. Send it once.`, {
    param: path,
  });
}

/** Throws the error of a body that has too many values to be parsed whole. */
export function checkParsedValues(input: Extract<InputText, { kind: "json" }>): void {
  if (input.values <= parsedValuesMax) return;
  throw new ApiError(
    "invalid_value",
    `The request has more than ${parsedValuesMax.toLocaleString("en-US")} JSON values. This model's upstream has another interface, so the request must be translated. Shorten the conversation or its tools.`,
  );
}

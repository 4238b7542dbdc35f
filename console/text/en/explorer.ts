/** English texts: the API explorer. */

import { plural } from "../plural.ts";

/** The API explorer. The texts about fields are in the description of the API itself. */
export const explorer = {
  title: "API explorer",
  skip: "Skip to the request",
  endpoints: "Endpoints",
  endpoint: "Endpoint",
  elsewhere: "Links",
  console: "Console",
  docs: "Documentation",
  key: "API key",
  keyHint:
    "Kept only in the memory of this page. It is not stored, and not part of the URL or the code samples.",
  models: (count: number) =>
    count === 0
      ? "This key cannot call any model."
      : `This key can call ${plural(count, "1 model", "# models")}.`,
  keyRejected: "Invalid API key.",
  parameters: "Parameters",
  body: "Body",
  views: { form: "Form", json: "JSON" },
  view: "Body view",
  examples: "Examples",
  fieldsHere: "Allowed fields and values",
  editorHint:
    "Ctrl+Space: allowed fields and values. F8: next problem. Ctrl+] and Ctrl+[: indent. Escape, then Tab: leave the editor.",
  notJson: (why: string) => `Not valid JSON: ${why}`,
  line: (position: number) => `Line ${position}:`,
  moreProblems: (count: number) => plural(count, "1 more problem.", "# more problems."),
  types: {
    string: "a string",
    number: "a number",
    integer: "an integer",
    boolean: "true or false",
    object: "an object",
    array: "an array",
    null: "null",
  },
  problems: {
    type: (types: readonly string[]) => `Must be ${orList(types)}.`,
    value: (values: readonly string[]) => `Must be ${orList(values)}.`,
    missing: "This field is required.",
    unknown: "This field is not allowed.",
    range: (minimum?: number, maximum?: number) => `Must be ${bounds(minimum, maximum)}.`,
    length: (minimum?: number, maximum?: number) => `The length must be ${bounds(minimum, maximum)}.`,
    pattern: (pattern: string) => `Must match the pattern ${pattern}.`,
  },
  noForm: "The body is not a JSON object, so the form is not available. Correct it in the JSON view.",
  notSet: "not set",
  asJson: (name: string) => `${name} (JSON)`,
  addField: "Add field",
  message: (position: number) => `Message ${position}`,
  role: "Role",
  content: "Content",
  addMessage: "Add message",
  removeMessage: (position: number) => `Remove message ${position}`,
  files: "Images",
  filesHint: "With files, the request is sent as multipart/form-data.",
  picture: "Images to edit",
  mask: "Mask: transparent areas are edited",
  structure: "Schema",
  required: "required",
  takes: "Request",
  responses: "Response",
  streamed: "Stream",
  rejections: "Errors",
  again: "Retry",
  retries: { no: "do not retry", yes: "retry", later: "retry later" },
  snippet: "Code",
  snippetHint: (variable: string) => `The key is read from the environment variable ${variable}.`,
  run: "Run",
  stop: "Stop",
  runHint: "Ctrl+Enter",
  /** Messages of the page itself. */
  ownProblem: (code: string): string => {
    if (code === "missing_api_key") return "Enter an API key first.";
    if (code === "unusable_api_key")
      return "The key contains invalid characters. It may be the shortened form from the key list: paste the complete key.";
    if (code === "unreachable")
      return "The gateway is not reachable. Check that it is running, and check your connection.";
    return "The connection was rejected or interrupted. Send the request again; if the problem persists, check the proxy in between.";
  },
  connect: "Send turn",
  goOn: "Continue from the last response",
  disconnect: "Close connection",
  result: "Result",
  notRun: "Run the request to see the response here.",
  resultViews: { text: "Text", json: "Raw", pictures: "Images", vectors: "Embeddings" },
  state: { running: "Running", done: "Completed", failed: "Failed", stopped: "Stopped" },
  status: "Status",
  waited: "Queued",
  first: "First token",
  total: "Total",
  tokens: "Tokens",
  tokenCounts: (input: string, output: string) => `${input} in, ${output} out`,
  cost: "Cost",
  requestId: "Request ID",
  inspect: "View in the console (new tab)",
  eventsCount: (count: number) => plural(count, "1 event", "# events"),
  eventAt: (ms: string) => `after ${ms}`,
  noText: "The response contains no text.",
  dimensions: (count: number) => `${count} dimensions`,
  pictureAlt: (position: number) => `Image ${position}`,
  unknownProblem: "The request failed without an error code.",
  why: "Cause",
  todo: "Solution",
  copyLink: "Copy link to this request",
};

function orList(choices: readonly string[]): string {
  return new Intl.ListFormat("en", { type: "disjunction" }).format(choices);
}

function bounds(minimum?: number, maximum?: number): string {
  if (minimum === undefined) return `at most ${maximum}`;
  return maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER
    ? `at least ${minimum}`
    : `from ${minimum} to ${maximum}`;
}

import { plural } from "../plural.ts";

/** The API explorer. What the API itself says of its fields stands in the API's description. */
export const explorer = {
  title: "API explorer",
  skip: "Skip to the request",
  endpoints: "Endpoints",
  endpoint: "Endpoint",
  elsewhere: "Elsewhere",
  console: "Console",
  docs: "Documentation",
  key: "API key",
  keyHint:
    "Stays in this page's memory: not stored, not in the address, not in any snippet. Gone when you close the page.",
  models: (count: number) =>
    count === 0
      ? "This key can call no model."
      : `This key can call ${plural(count, "1 model", "# models")}.`,
  keyRefused: "This key is refused.",
  parameters: "Parameters",
  body: "Body",
  views: { form: "Form", json: "JSON" },
  view: "View of the body",
  examples: "Examples",
  fieldsHere: "What may stand here",
  completeHint: "Ctrl+Space shows what may stand where the caret is; Tab takes the first.",
  notJson: (why: string) => `Not valid JSON: ${why}`,
  noForm: "The body is not a JSON object, so there is no form for it. Mend it in the JSON view.",
  notSet: "not set",
  asJson: (name: string) => `${name} (JSON)`,
  addField: "Add a field",
  message: (position: number) => `Message ${position}`,
  role: "Role",
  content: "Content",
  addMessage: "Add a message",
  removeMessage: (position: number) => `Remove message ${position}`,
  files: "Pictures",
  filesHint: "With a file, the request is sent as a form.",
  picture: "Pictures to change",
  mask: "Mask: transparent where the picture is to change",
  structure: "Structure",
  required: "required",
  takes: "What it takes",
  answers: "What it answers",
  streamed: "Streamed",
  refusals: "How it may be refused",
  again: "Again?",
  retries: { no: "not again as it is", yes: "can be sent again", later: "can be sent again later" },
  snippet: "As code",
  snippetHint: (variable: string) => `The key comes from the environment variable ${variable}.`,
  run: "Run",
  stop: "Stop",
  runHint: "Ctrl+Enter",
  /** What the page itself has to say. */
  ownProblem: (code: string): string => {
    if (code === "missing_api_key") return "Type an API key first, above.";
    if (code === "unusable_api_key")
      return "A key has no such characters. This may be the shortened form that lists show: paste the whole key.";
    if (code === "unreachable")
      return "The gateway was not reached. Check that it runs, and your connection.";
    return "The connection was refused or cut before the end. Send it again; if it stays so, look whether a proxy in between lets it pass.";
  },
  connect: "Send a turn",
  goOn: "Go on from the last response",
  disconnect: "Close the connection",
  result: "Result",
  notRun: "Run the request, and its answer appears here.",
  resultViews: { text: "Text", json: "Answer", pictures: "Pictures", vectors: "Vectors" },
  state: { running: "running", done: "done", failed: "failed", stopped: "stopped" },
  status: "Status",
  waited: "Waited",
  first: "First token",
  total: "Total",
  tokens: "Tokens",
  tokensOf: (input: string, output: string) => `${input} in, ${output} out`,
  cost: "Cost",
  requestId: "Request",
  inspect: "Inspect in the console (new tab)",
  eventsCount: (count: number) => plural(count, "1 event", "# events"),
  eventAt: (ms: string) => `after ${ms}`,
  nothingSaid: "Nothing was said as text.",
  dimensions: (count: number) => `${count} dimensions`,
  pictureAlt: (position: number) => `Picture ${position}`,
  unknownProblem: "The request failed without a code.",
  why: "Why",
  todo: "What to do",
  copyLink: "Copy a link to this request",
};

/** What a client of any dialect can do in the matrix, and what it sees, in one form for all of them. */

export interface Turn {
  text: string;
  /** Whether the client was shown any reasoning. */
  isReasoned: boolean;
  calls: readonly { name: string; input: unknown }[];
  stop: "end" | "tools" | "length" | "filtered";
  usage: TurnUsage;
}

/** The normal form: the input includes what was read from the cache, the output includes reasoning. */
export interface TurnUsage {
  input: number;
  cached: number;
  output: number;
}

export interface Question {
  text: string;
  media?: "image" | "pdf";
}

export interface ToolResult {
  text: string;
  isError: boolean;
}

export interface ConversationOptions {
  hasTools: boolean;
  thinks: boolean;
  streams: boolean;
  /** The response is JSON of the schema. */
  schema: object | null;
}

/** Keeps its history as the client's own code would. The model may change from turn to turn. */
export interface MatrixConversation {
  ask(model: string, question: Question): Promise<Turn>;
  /** Sends the results of all calls of the last turn, in their order. */
  sendResults(model: string, results: readonly ToolResult[]): Promise<Turn>;
}

export interface MatrixClient {
  open(options: ConversationOptions): MatrixConversation;
  /** The error of a request that fails. */
  fail(model: string): Promise<{ status: number; message: string }>;
  /** Begins a stream and leaves it after some texts. */
  cancel(model: string): Promise<void>;
  listModels(): Promise<string[]>;
  /** Null for a dialect without such an operation. */
  countTokens: ((model: string) => Promise<number>) | null;
}

export const WEATHER = {
  name: "get_weather",
  description: "Tells the weather",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
} as const;

export const TIME = {
  name: "get_time",
  description: "Tells the time",
  schema: { type: "object", properties: { zone: { type: "string" } }, required: ["zone"] },
} as const;

export const TOOLS = [WEATHER, TIME] as const;

export const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const PDF = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");

/** How much of a stream is read before the client disconnects. */
export const TEXTS_BEFORE_CANCEL = 20;

/** Reads until some events with text have arrived. */
export async function readSome<T>(stream: AsyncIterable<T>, hasText: (event: T) => boolean): Promise<void> {
  let texts = 0;
  for await (const event of stream) if (hasText(event) && ++texts === TEXTS_BEFORE_CANCEL) return;
  throw new Error("the stream has ended");
}

/** The promises of some SDKs are not promises to the test runner. */
export async function catchFailure(
  result: PromiseLike<unknown>,
): Promise<{ status: number; message: string }> {
  try {
    await result;
  } catch (error) {
    const { status, message } = error as { status?: number; message?: string };
    return { status: status ?? 0, message: message ?? "" };
  }
  throw new Error("expected a failure");
}

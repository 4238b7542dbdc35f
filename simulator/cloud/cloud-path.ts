/** The paths of Amazon Bedrock and Google Vertex AI. */

export interface CloudPath {
  readonly host: "bedrock" | "vertex";
  readonly api: "messages" | "gemini";
  readonly model: string;
  readonly method: string;
  readonly streams: boolean;
  readonly countsTokens: boolean;
}

const BEDROCK_PATH = /^\/model\/([^/]+)\/(invoke|invoke-with-response-stream|count-tokens)$/;
const VERTEX_PATH =
  /^\/v1\/projects\/[^/]+\/locations\/[^/]+\/publishers\/(google|anthropic)\/models\/([^/:]+):(\w+)$/;

/** Null for a path that is not a call of a model. */
export function parseCloudPath(path: string): CloudPath | null {
  const bedrock = BEDROCK_PATH.exec(path);
  if (bedrock !== null) {
    const [, model = "", method = ""] = bedrock;
    return {
      host: "bedrock",
      api: "messages",
      model: decodeURIComponent(model),
      method,
      streams: method === "invoke-with-response-stream",
      countsTokens: method === "count-tokens",
    };
  }
  const vertex = VERTEX_PATH.exec(path);
  if (vertex === null) return null;
  const [, publisher, model = "", method = ""] = vertex;
  return {
    host: "vertex",
    api: publisher === "google" ? "gemini" : "messages",
    model: decodeURIComponent(model),
    method,
    streams: method.startsWith("stream"),
    countsTokens: model === "count-tokens" || method === "countTokens",
  };
}

/** Whether the path belongs to Vertex AI, whose callers need an access token. */
export function needsAccessToken(path: string): boolean {
  return path.startsWith("/v1/projects/") || path.startsWith("/v1beta1/publishers/");
}

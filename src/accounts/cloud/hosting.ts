/**
 * Amazon Bedrock and Google Vertex AI host the APIs of other vendors: the paths, headers and bodies in which they
 * differ from the vendor's own API.
 */

import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { HostedForm } from "../../protocols/shared/request.ts";
import type { Interface } from "../../records/interfaces.ts";
import { isRegional, VERTEX_REGION_DEFAULT } from "../../vendors.ts";
import type { PolicyAccount } from "../account.ts";
import { readServiceAccount } from "./access-tokens.ts";
import { type BetaFlags, selectBetas } from "./betas.ts";

const BEDROCK_VERSION = "bedrock-2023-05-31";
const VERTEX_VERSION = "vertex-2023-10-16";
export const COUNT_TOKENS_PATH = "/messages/count_tokens";
const MESSAGES_PATH = "/messages";
const GEMINI_PATH = "/models/{model}:";

export interface HostedTarget {
  /** The path of the vendor's own API: `/messages`. */
  readonly path: string;
  readonly upstreamModel: string;
  readonly streams: boolean;
}

export function isHosted({ kind }: PolicyAccount): boolean {
  return isRegional(kind);
}

/** The path below the account's origin. */
export function hostedPath(account: PolicyAccount, target: HostedTarget): string {
  return account.kind === "bedrock" ? bedrockPath(account, target) : vertexPath(account, target);
}

/** Inference profiles may be ARNs, whose colons and slashes belong to the id. */
function bedrockPath({ basePath }: PolicyAccount, { path, upstreamModel, streams }: HostedTarget): string {
  if (path === COUNT_TOKENS_PATH)
    return `${basePath}/model/${encodeURIComponent(foundationModel(upstreamModel))}/count-tokens`;
  const method = streams ? "invoke-with-response-stream" : "invoke";
  return `${basePath}/model/${encodeURIComponent(upstreamModel)}/${method}`;
}

/** Tokens are counted for a model and not for the inference profile of a geography. */
function foundationModel(upstreamModel: string): string {
  return upstreamModel.replace(/^[a-z-]{2,8}\.(?=anthropic\.)/, "");
}

function vertexPath(account: PolicyAccount, { path, upstreamModel, streams }: HostedTarget): string {
  const model = encodeURIComponent(upstreamModel).replaceAll("%40", "@");
  if (path === COUNT_TOKENS_PATH) return publisherPath(account, "anthropic", "count-tokens:rawPredict");
  if (path.startsWith(GEMINI_PATH)) {
    const method = path.slice(GEMINI_PATH.length);
    const query = method === "streamGenerateContent" ? "?alt=sse" : "";
    return publisherPath(account, "google", `${model}:${method}${query}`);
  }
  return publisherPath(account, "anthropic", `${model}:${streams ? "streamRawPredict" : "rawPredict"}`);
}

function publisherPath(account: PolicyAccount, publisher: "anthropic" | "google", call: string): string {
  const project = encodeURIComponent(account.project ?? readServiceAccount(account).project ?? "-");
  const location = account.region ?? VERTEX_REGION_DEFAULT;
  const base = account.basePath.replace(/\/v1$/, "");
  return `${base}/v1/projects/${project}/locations/${location}/publishers/${publisher}/models/${call}`;
}

/** Lines of the request head that replace those of the vendor's own API. */
export function hostedHeaderLines(
  account: PolicyAccount,
  { path, clientHeaders }: { readonly path: string; readonly clientHeaders: HeaderReader },
): string {
  if (account.kind !== "vertex" || path !== MESSAGES_PATH) return "";
  const { accepted } = clientBetas(account, clientHeaders);
  return accepted.length === 0 ? "" : `anthropic-beta: ${accepted.join(",")}\r\n`;
}

export function clientBetas(account: PolicyAccount, clientHeaders: HeaderReader): BetaFlags {
  return selectBetas(account, clientHeaders.get("anthropic-beta"));
}

/** The form of a body; null for accounts of other kinds. `betas` are those that the account accepts. */
export function hostedForm(
  account: PolicyAccount,
  { iface, betas = [] }: { readonly iface: Interface; readonly betas?: readonly string[] },
): HostedForm | null {
  if (account.kind === "bedrock") return { api: "messages", version: BEDROCK_VERSION, betas, keeps: [] };
  if (account.kind !== "vertex") return null;
  // Vertex AI reads the flags from the header.
  return iface === "gemini"
    ? { api: "gemini" }
    : { api: "messages", version: VERTEX_VERSION, betas: [], keeps: ["stream"] };
}

/** The same for a request that the gateway writes itself. */
export function toHostedBody(
  form: HostedForm | null,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (form?.api !== "messages") return body;
  const { model: _model, stream, ...rest } = body;
  const kept = form.keeps.includes("stream") && stream !== undefined ? { stream } : {};
  return { anthropic_version: form.version, ...rest, ...kept };
}

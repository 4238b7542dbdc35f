/** Accounts of kind `vertex`: Gemini and Claude at Google Vertex AI, each by the API of its vendor. */

import type { HostedForm, UpstreamBody } from "../../protocols/shared/request.ts";
import type { Interface } from "../../records/interfaces.ts";
import { parseServiceAccount, type ServiceAccountProblem } from "../../secrets/service-account.ts";
import type { PolicyAccount } from "../account.ts";
import { readServiceAccount } from "../cloud/access-tokens.ts";
import { selectBetas } from "../cloud/betas.ts";
import { COUNT_TOKENS_PATH } from "../cloud/hosted-body.ts";
import { HOSTED_CLAUDE_PROFILE, VERTEX_GEMINI_PROFILE } from "../profiles.ts";
import { GEMINI_PATH, KIND_DEFAULTS } from "./kind-defaults.ts";
import type {
  ClientHeaders,
  CountedRequest,
  FieldFault,
  FileFields,
  KindDefinition,
  PathTarget,
} from "./kind-definition.ts";

/** Google routes each request. */
const REGION_DEFAULT = "global";

const BETAS: readonly string[] = [
  "compact-2026-01-12",
  "compact-2026-09-04",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "interleaved-thinking-2025-05-14",
  "per-turn-control-2026-07-01",
  "thinking-binding-controls-2026-08-01",
  "thinking-display-updates-2026-08-18",
  "tool-search-tool-2025-10-19",
  "web-search-2025-03-05",
];

export const vertex: KindDefinition = {
  ...KIND_DEFAULTS,
  interfaces: ["messages", "gemini"],
  address: {
    from: "region",
    regionDefault: REGION_DEFAULT,
    regionSuggested: REGION_DEFAULT,
    baseUrl: regionalBaseUrl,
  },
  fields: ["region", "project"],
  credential: "service_account",
  check: checkServiceAccount,
  apis: ["google"],
  modelInterface: (upstreamModel) => (/^claude/i.test(upstreamModel) ? "messages" : "gemini"),
  profile: (_account, dialect) => (dialect === "gemini" ? VERTEX_GEMINI_PROFILE : HOSTED_CLAUDE_PROFILE),
  provider: "gcp.vertex_ai",
  path: vertexPath,
  hasStablePaths: false,
  forwardedHeaders: betaHeader,
  hosting: { betas: BETAS, form: hostedForm },
  tokenCount: { ...KIND_DEFAULTS.tokenCount, body: buildCountBody },
  modelLists({ baseUrl, basePath }) {
    const base = `${unversionedBase(basePath)}/v1beta1/publishers`;
    return {
      baseUrl,
      paths: [`${base}/google/models?pageSize=300`, `${base}/anthropic/models?pageSize=300`],
    };
  },
  // A key that may call models need not be allowed to list them.
  listFailures: { 403: "list_denied" },
};

function regionalBaseUrl(region: string): string {
  if (region === REGION_DEFAULT) return "https://aiplatform.googleapis.com";
  // Multi-regions have endpoints of another form.
  if (region === "us" || region === "eu") return `https://aiplatform.${region}.rep.googleapis.com`;
  return `https://${region}-aiplatform.googleapis.com`;
}

const SERVICE_ACCOUNT_FAULTS: Readonly<Record<ServiceAccountProblem, string>> = {
  not_json: "must be the JSON key file of a service account, with its braces.",
  wrong_type: 'is not the key of a service account: its "type" is not "service_account".',
  missing_field:
    "lacks client_email, private_key_id or private_key. Use the key file as Google Cloud provides it.",
  bad_key:
    "has a private_key that is not an RSA key in PEM form. Use the key file as Google Cloud provides it.",
  foreign_token_url:
    "has a token_uri that is neither Google's nor at the address of the account. Use the key file as Google Cloud provides it.",
};

function checkServiceAccount({ credential, base_url: baseUrl }: FileFields): readonly FieldFault[] {
  if (typeof credential !== "string") return [];
  const parsed = parseServiceAccount(credential, typeof baseUrl === "string" ? baseUrl : "");
  return typeof parsed === "string" ? [{ field: "credential", message: SERVICE_ACCOUNT_FAULTS[parsed] }] : [];
}

function vertexPath(account: PolicyAccount, { path, upstreamModel, wantsEvents }: PathTarget): string {
  const model = encodeURIComponent(upstreamModel).replaceAll("%40", "@");
  if (path === COUNT_TOKENS_PATH) return publisherPath(account, "anthropic", "count-tokens:rawPredict");
  if (path.startsWith(GEMINI_PATH)) {
    const method = path.slice(GEMINI_PATH.length);
    const query = method === "streamGenerateContent" ? "?alt=sse" : "";
    return publisherPath(account, "google", `${model}:${method}${query}`);
  }
  return publisherPath(account, "anthropic", `${model}:${wantsEvents ? "streamRawPredict" : "rawPredict"}`);
}

function publisherPath(account: PolicyAccount, publisher: "anthropic" | "google", call: string): string {
  const project = encodeURIComponent(account.project ?? readServiceAccount(account).project ?? "-");
  const base = unversionedBase(account.basePath);
  return `${base}/v1/projects/${project}/locations/${account.region ?? REGION_DEFAULT}/publishers/${publisher}/models/${call}`;
}

function unversionedBase(basePath: string): string {
  return basePath.replace(/\/v1$/, "");
}

/** The version of Messages is in the body, the flags are in the header. */
function betaHeader(account: PolicyAccount, { path, clientHeaders }: ClientHeaders): string {
  if (path !== "/messages") return "";
  const { accepted } = selectBetas(account, BETAS, clientHeaders.get("anthropic-beta"));
  return accepted.length === 0 ? "" : `anthropic-beta: ${accepted.join(",")}\r\n`;
}

function hostedForm(iface: Interface): HostedForm {
  return iface === "gemini"
    ? { api: "gemini" }
    : { api: "messages", version: "vertex-2023-10-16", betas: [], keeps: ["stream"] };
}

function buildCountBody({ body, upstreamModel, iface }: CountedRequest): UpstreamBody {
  const form = hostedForm(iface);
  // The path of a count names no model.
  return body.forUpstream(upstreamModel, form.api === "messages" ? { ...form, keeps: ["model"] } : form);
}

/** A request policy as its form holds it, and as the API accepts it. */

import { type Effort, TOOL_KINDS } from "../../../../src/records/request-policy.ts";
import type { ResponseBody } from "../../../api.ts";

export type PolicyDocument = ResponseBody<"admin.request_policies.get">["document"];
type Over = "lower" | "reject";

export interface PolicyValues {
  name: string;
  selfService: boolean;
  /** One on each line, like the networks. */
  models: string;
  networks: string;
  inputTokens: number | null;
  outputTokens: number | null;
  outputOver: Over;
  /** Empty: unrestricted. */
  effort: Effort | "";
  effortOver: Over;
  /** Separated by commas. */
  tiers: string;
  tools: readonly string[];
  toolsOver: "drop" | "reject";
  images: number | null;
  files: number | null;
  urls: number | null;
  audio: number | null;
  store: boolean;
  background: boolean;
}

export function policyValues(document: PolicyDocument): PolicyValues {
  const { inputs = {}, force = {} } = document;
  return {
    name: document.name,
    selfService: document.self_service ?? false,
    models: (document.models ?? []).join("\n"),
    networks: (document.networks ?? []).join("\n"),
    inputTokens: document.input_tokens?.max ?? null,
    outputTokens: document.output_tokens?.max ?? null,
    outputOver: document.output_tokens?.over ?? "lower",
    effort: document.effort?.max ?? "",
    effortOver: document.effort?.over ?? "lower",
    tiers: (document.service_tiers ?? []).join(", "),
    tools: document.tools?.deny ?? [],
    toolsOver: document.tools?.over ?? "drop",
    images: readLimit(inputs.images),
    files: readLimit(inputs.files),
    urls: readLimit(inputs.urls),
    audio: readLimit(inputs.audio),
    store: force.store === false,
    background: force.background === false,
  };
}

function readLimit(limit: number | "deny" | undefined): number | null {
  return limit === undefined ? null : limit === "deny" ? 0 : limit;
}

export const NEW_POLICY = policyValues({ name: "" });

export function policyDocument(values: PolicyValues): PolicyDocument {
  const models = readList(values.models, /\n/);
  const networks = readList(values.networks, /\n/);
  const tiers = readList(values.tiers, /,/);
  const deny = TOOL_KINDS.filter((kind) => values.tools.includes(kind));
  const inputs = {
    ...writeLimit("images", values.images),
    ...writeLimit("files", values.files),
    ...writeLimit("urls", values.urls),
    ...writeLimit("audio", values.audio),
  };
  const force = {
    ...(values.store ? { store: false as const } : {}),
    ...(values.background ? { background: false as const } : {}),
  };
  return {
    name: values.name,
    ...(values.selfService ? { self_service: true } : {}),
    ...(models.length === 0 ? {} : { models }),
    ...(networks.length === 0 ? {} : { networks }),
    ...(values.inputTokens === null ? {} : { input_tokens: { max: values.inputTokens } }),
    ...(values.outputTokens === null
      ? {}
      : { output_tokens: { max: values.outputTokens, over: values.outputOver } }),
    ...(values.effort === "" ? {} : { effort: { max: values.effort, over: values.effortOver } }),
    ...(tiers.length === 0 ? {} : { service_tiers: tiers }),
    ...(deny.length === 0 ? {} : { tools: { deny, over: values.toolsOver } }),
    ...(Object.keys(inputs).length === 0 ? {} : { inputs }),
    ...(Object.keys(force).length === 0 ? {} : { force }),
  };
}

function readList(text: string, separator: RegExp): string[] {
  return text
    .split(separator)
    .map((one) => one.trim())
    .filter((one) => one !== "");
}

function writeLimit<Kind extends string>(
  kind: Kind,
  limit: number | null,
): { [name in Kind]?: number | "deny" } {
  const limits: { [name in Kind]?: number | "deny" } = {};
  if (limit !== null) limits[kind] = limit === 0 ? "deny" : limit;
  return limits;
}

/** An account as its form holds it, and as the API accepts it. */

import type { Answer } from "../../../api.ts";
import { type RatesValue, ratesBody, ratesValue } from "../../../forms/limits.tsx";
import { type OtherSwitch, readSwitches, type Switches } from "../../../forms/switches.tsx";

export type AccountDocument = Answer<"admin.accounts.get">["document"];
type Interface = NonNullable<AccountDocument["interfaces"]>[number];

export const INTERFACES: readonly Interface[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "embeddings",
  "images",
];

/** The initial values of a new account of each kind. */
const KIND_DEFAULTS: Readonly<
  Record<AccountDocument["kind"], { readonly baseUrl: string; readonly interfaces: readonly Interface[] }>
> = {
  openai: { baseUrl: "https://api.openai.com/v1", interfaces: ["chat", "responses", "embeddings", "images"] },
  azure: { baseUrl: "", interfaces: ["chat", "responses", "embeddings", "images"] },
  anthropic: { baseUrl: "https://api.anthropic.com", interfaces: ["messages"] },
  bedrock: { baseUrl: "", interfaces: ["messages"] },
  gemini: { baseUrl: "https://generativelanguage.googleapis.com", interfaces: ["gemini", "embeddings"] },
  vertex: { baseUrl: "", interfaces: ["messages", "gemini"] },
  simulator: { baseUrl: "", interfaces: INTERFACES },
};

/** Another kind has another address and other interfaces. An address that was typed in is kept. */
export function withKind(values: AccountValues, kind: AccountDocument["kind"]): AccountValues {
  const isTyped = values.baseUrl !== KIND_DEFAULTS[values.kind].baseUrl;
  const { baseUrl, interfaces } = KIND_DEFAULTS[kind];
  const region = REGION_DEFAULTS[kind] ?? "";
  return { ...values, kind, vendor: "", interfaces, region, baseUrl: isTyped ? values.baseUrl : baseUrl };
}

/** Where the models of a cloud vendor run, as long as nothing else is chosen. */
const REGION_DEFAULTS: Readonly<Partial<Record<AccountDocument["kind"], string>>> = {
  bedrock: "us-east-1",
  vertex: "global",
};

/** The address of these kinds follows from their region. */
export function isRegional(kind: AccountDocument["kind"]): boolean {
  return REGION_DEFAULTS[kind] !== undefined;
}

export type VendorPreset = Answer<"admin.vendors.list">["data"][number];

/** The address and the interfaces of the vendor replace those of the form. Without a preset they are kept. */
export function withVendor(values: AccountValues, preset: VendorPreset | null): AccountValues {
  if (preset === null) return { ...values, vendor: "" };
  const { vendor, base_url: baseUrl, interfaces } = preset;
  return { ...values, kind: "openai", vendor, baseUrl, interfaces };
}

/**
 * Adds the models that the upstream lists, under their own names. Existing lines stay: their public names are in use.
 * The wildcard of a new account is replaced by the names.
 */
export function withListedModels(lines: string, listed: readonly string[]): string {
  const kept = lines.split("\n").filter((line) => line.trim() !== "" && line.replace(/\s/g, "") !== "*=*");
  const mapped = new Set(kept.map((line) => line.slice(line.indexOf("=") + 1).trim()));
  const added = listed.filter((name) => !mapped.has(name)).map((name) => `${name} = ${name}`);
  return [...kept, ...added].join("\n");
}

/** Switches that depend on other fields, or are changed elsewhere. */
const OWN_SWITCHES = ["websocket", "private_network", "enabled"] as const;
type AccountSwitch = OtherSwitch<AccountDocument, (typeof OWN_SWITCHES)[number]>;

export interface AccountValues {
  name: string;
  kind: AccountDocument["kind"];
  /** Empty: no preset. */
  vendor: string;
  /** Edited in the configuration file only. */
  profile: AccountDocument["profile"];
  baseUrl: string;
  apiVersion: string;
  region: string;
  /** Empty: the project of the service account. */
  project: string;
  /** Sent to the API, which never returns it. */
  credential: string;
  interfaces: readonly string[];
  websocket: boolean;
  switches: Switches<AccountSwitch>;
  privateNetwork: boolean;
  priority: number | null;
  weight: number | null;
  limits: RatesValue;
  /** One a line: `public = upstream`. */
  models: string;
  enabled: boolean;
}

export function accountValues(document: AccountDocument): AccountValues {
  return {
    name: document.name,
    kind: document.kind,
    vendor: document.vendor ?? "",
    profile: document.profile,
    baseUrl: document.base_url ?? "",
    apiVersion: document.api_version ?? "",
    region: document.region ?? "",
    project: document.project ?? "",
    credential: "",
    interfaces: document.interfaces ?? KIND_DEFAULTS[document.kind].interfaces,
    websocket: document.websocket ?? false,
    switches: readSwitches(document, OWN_SWITCHES),
    privateNetwork: document.private_network ?? false,
    priority: document.priority ?? 1,
    weight: document.weight ?? 1,
    limits: ratesValue(document.limits),
    models: mapText(document.models ?? { "*": "*" }),
    enabled: document.enabled ?? true,
  };
}

export const NEW_ACCOUNT = accountValues({
  name: "",
  kind: "openai",
  base_url: "https://api.openai.com/v1",
});

export function accountDocument(values: AccountValues): AccountDocument {
  const isSimulator = values.kind === "simulator";
  const limits = ratesBody(values.limits);
  return {
    name: values.name.trim(),
    kind: values.kind,
    ...(values.kind === "openai" && values.vendor !== "" ? { vendor: values.vendor } : {}),
    ...(values.profile === undefined ? {} : { profile: values.profile }),
    ...(isSimulator || (isRegional(values.kind) && values.baseUrl.trim() === "")
      ? {}
      : { base_url: values.baseUrl.trim() }),
    interfaces: INTERFACES.filter((name) => values.interfaces.includes(name)),
    ...(values.kind === "azure" && values.apiVersion.trim() !== ""
      ? { api_version: values.apiVersion.trim() }
      : {}),
    ...(isRegional(values.kind) && values.region.trim() !== "" ? { region: values.region.trim() } : {}),
    ...(values.kind === "vertex" && values.project.trim() !== "" ? { project: values.project.trim() } : {}),
    ...(values.websocket ? { websocket: true } : {}),
    ...values.switches,
    ...(values.privateNetwork && !isSimulator ? { private_network: true } : {}),
    ...(values.priority === null ? {} : { priority: values.priority }),
    ...(values.weight === null ? {} : { weight: values.weight }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    models: parseModelNames(values.models),
    ...(values.enabled ? {} : { enabled: false }),
  };
}

/** Sent beside the document. An empty credential is not sent, and the stored one stays. */
export function buildCredentialField({ kind, credential }: AccountValues): { credential?: string } {
  return kind === "simulator" || credential === "" ? {} : { credential };
}

function mapText(models: Readonly<Record<string, string>>): string {
  return Object.entries(models)
    .map(([name, upstream]) => `${name} = ${upstream}`)
    .join("\n");
}

/** A line without `=` is the name on both sides. */
export function parseModelNames(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "")
      .map((line) => {
        const at = line.indexOf("=");
        return at === -1 ? [line, line] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );
}

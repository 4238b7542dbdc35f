/** An account as its form holds it, and as the API accepts it. */

import type { ResponseBody } from "../../../api.ts";
import { type RatesValue, ratesBody, ratesValue } from "../../../forms/limits.tsx";
import { type OtherSwitch, readSwitches, type Switches } from "../../../forms/switches.tsx";

export type AccountDocument = ResponseBody<"admin.accounts.get">["document"];
type Interface = NonNullable<AccountDocument["interfaces"]>[number];

export const INTERFACES: readonly Interface[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "embeddings",
  "images",
];

/** A kind of account as the API describes it: its fields and its initial values. */
export type KindFacts = ResponseBody<"admin.vendors.list">["kinds"][number];
type KindField = KindFacts["fields"][number];

export function findKind(kinds: readonly KindFacts[], name: string): KindFacts {
  const kind = kinds.find((one) => one.name === name);
  if (kind === undefined) throw new Error(`The API does not list the kind ${name}.`);
  return kind;
}

/** Another kind has another address and other interfaces. An address that was typed in is kept. */
export function withKind(values: AccountValues, kind: KindFacts): AccountValues {
  const { interfaces, region } = kind;
  const baseUrl = values.baseUrl === values.kind.base_url ? kind.base_url : values.baseUrl;
  return { ...values, kind, vendor: "", interfaces, region, baseUrl };
}

export type VendorPreset = ResponseBody<"admin.vendors.list">["data"][number];

/** The address and the interfaces of the vendor replace those of the form. Without a preset they are kept. */
export function withVendor(values: AccountValues, preset: VendorPreset | null): AccountValues {
  if (preset === null) return { ...values, vendor: "" };
  const { vendor, base_url: baseUrl, interfaces } = preset;
  return { ...values, vendor, baseUrl, interfaces };
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
  kind: KindFacts;
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

export function accountValues(document: AccountDocument, kinds: readonly KindFacts[]): AccountValues {
  const kind = findKind(kinds, document.kind);
  return {
    name: document.name,
    kind,
    vendor: document.vendor ?? "",
    profile: document.profile,
    baseUrl: document.base_url ?? "",
    apiVersion: document.api_version ?? "",
    region: document.region ?? "",
    project: document.project ?? "",
    credential: "",
    interfaces: document.interfaces ?? kind.interfaces,
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

/** A new account has the kind that the API lists first. */
export function newAccount(kinds: readonly KindFacts[]): AccountValues {
  const [first] = kinds;
  if (first === undefined) throw new Error("The API lists no kinds of accounts.");
  return accountValues({ name: "", kind: first.name, base_url: first.base_url }, kinds);
}

export function accountDocument(values: AccountValues): AccountDocument {
  const { address, name: kind } = values.kind;
  const limits = ratesBody(values.limits);
  const baseUrl = values.baseUrl.trim();
  const hasBaseUrl = address !== "process" && !(address === "region" && baseUrl === "");
  return {
    name: values.name.trim(),
    kind,
    ...(values.profile === undefined ? {} : { profile: values.profile }),
    ...(hasBaseUrl ? { base_url: baseUrl } : {}),
    ...kindFields(values),
    interfaces: INTERFACES.filter((name) => values.interfaces.includes(name)),
    ...(values.websocket ? { websocket: true } : {}),
    ...values.switches,
    ...(values.privateNetwork && address !== "process" ? { private_network: true } : {}),
    ...(values.priority === null ? {} : { priority: values.priority }),
    ...(values.weight === null ? {} : { weight: values.weight }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    models: parseModelNames(values.models),
    ...(values.enabled ? {} : { enabled: false }),
  };
}

/** The fields that only some kinds have. An empty one is left out. */
function kindFields({ kind, vendor, apiVersion, region, project }: AccountValues) {
  const entered: Record<KindField, string> = { vendor, api_version: apiVersion, region, project };
  const fields: Partial<Record<KindField, string>> = {};
  for (const field of kind.fields) {
    const text = entered[field].trim();
    if (text !== "") fields[field] = text;
  }
  return fields;
}

/** Sent beside the document. An empty credential is not sent, and the stored one stays. */
export function buildCredentialField({ kind, credential }: AccountValues): { credential?: string } {
  return kind.credential === "none" || credential === "" ? {} : { credential };
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

/** LiteLLM's models, as models and accounts. Deployments of one address and credential are one account. */

import { isRecord } from "../../config/parse/items.ts";
import { cleanName, cleanText, type Imported, type ImportedAccount, type ImportOptions } from "./imported.ts";
import { decryptStored } from "./litellm-cipher.ts";
import type { SourceTable } from "./source-table.ts";
import type { TableReader } from "./table-reader.ts";
import {
  AZURE,
  buildAddress,
  guessProvider,
  isLocal,
  LITELLM_PROVIDERS,
  type SourceUpstream,
} from "./upstreams.ts";

const MODELS: SourceTable = {
  name: "LiteLLM_ProxyModelTable",
  key: "model_id",
  required: ["model_name", "litellm_params"],
  optional: ["model_info", "blocked"],
  ignored: ["created_at", "created_by", "updated_at", "updated_by"],
};

type Params = Readonly<Record<string, unknown>>;

interface Deployment {
  readonly subject: string;
  readonly name: string;
  readonly params: Params;
  readonly info: Params;
}

/** Names of access groups, and the models in them. */
export type AccessGroups = ReadonlyMap<string, ReadonlySet<string>>;

export async function readDeployments(
  reader: TableReader,
  imported: Imported,
  options: ImportOptions,
): Promise<AccessGroups> {
  const deployments = readConfigured(imported, options);
  await reader.eachIfPresent(MODELS, (row) => {
    const subject = `model ${cleanText(row.requireText("model_name"))} (${row.shownId})`;
    if (row.flag("blocked")) return imported.findings.push({ subject, message: "is blocked: not imported." });
    const params = decryptParams(row.object("litellm_params"), options.litellm.saltKey);
    if (params === null)
      return imported.findings.push({
        subject,
        message:
          "its settings are encrypted. Run the import with --salt-key-file, or create the account here.",
      });
    const info = row.object("model_info");
    return deployments.push({ subject, name: row.requireText("model_name"), params, info });
  });
  const accounts = new AccountCollector(imported);
  const accessGroups = new Map<string, Set<string>>();
  for (const deployment of deployments) {
    const { name, info } = deployment;
    if (!accounts.add(deployment)) continue;
    if (!imported.models.some(({ id }) => id === name)) imported.models.push({ id: name });
    for (const group of Array.isArray(info.access_groups) ? info.access_groups : [])
      accessGroups.set(String(group), (accessGroups.get(String(group)) ?? new Set()).add(name));
  }
  accounts.finish();
  return accessGroups;
}

/** `model_list` of config.yaml. A credential may name a variable of the environment. */
function readConfigured({ findings }: Imported, { litellm, environment }: ImportOptions): Deployment[] {
  const list = readMember(litellm.config, "model_list");
  return (Array.isArray(list) ? list : []).flatMap((entry: unknown, i): Deployment[] => {
    const name = readMember(entry, "model_name");
    const params = readMember(entry, "litellm_params");
    if (typeof name !== "string" || !isRecord(params)) {
      findings.push({
        subject: `model_list[${i}]`,
        message: "skipped: it has no model_name or litellm_params.",
      });
      return [];
    }
    const resolved = Object.fromEntries(
      Object.entries(params).map(([field, value]) => {
        const [, variable] = typeof value === "string" ? (/^os\.environ\/(.+)$/.exec(value) ?? []) : [];
        return [field, variable === undefined ? value : environment[variable]];
      }),
    );
    const info = readMember(entry, "model_info");
    return [
      { subject: `model ${cleanText(name)}`, name, params: resolved, info: isRecord(info) ? info : {} },
    ];
  });
}

/** Null if a text is encrypted and the key is missing or wrong. Older versions stored plain texts. */
function decryptParams(params: Params, saltKey: string | null): Params | null {
  const isPlain = typeof params.model === "string" && /^[\w.-]+(?:\/\S*)?$/.test(params.model);
  if (isPlain && (params.model as string).length < 60 && !/^v[23]:gcm:/.test(params.model as string))
    return params;
  if (saltKey === null) return null;
  const plain = Object.entries(params).map(([field, value]) => {
    return [field, typeof value === "string" ? decryptStored(value, saltKey) : value] as const;
  });
  return plain.some(([, value]) => value === null) ? null : Object.fromEntries(plain);
}

class AccountCollector {
  readonly #imported: Imported;
  readonly #accounts: { account: ImportedAccount; identity: string; models: Record<string, string> }[] = [];

  constructor(imported: Imported) {
    this.#imported = imported;
  }

  /** Returns false if the deployment has no counterpart here. */
  add({ subject, name, params, info }: Deployment): boolean {
    const reason = findUnsupported(name, params, info);
    if (reason !== null) {
      this.#imported.findings.push({ subject, message: `${reason}: not imported.` });
      return false;
    }
    const { provider, upstreamModel } = splitModel(params);
    const upstream = LITELLM_PROVIDERS[provider];
    if (upstream === undefined) return false;
    const fields = buildAccount(upstream, params);
    const identity = JSON.stringify([fields, params.api_key ?? null]);
    const fitting = this.#accounts.find(
      (one) => one.identity === identity && [undefined, upstreamModel].includes(one.models[name]),
    );
    if (fitting !== undefined) fitting.models[name] = upstreamModel;
    else this.#open({ subject, identity, fields, provider, params }, { [name]: upstreamModel });
    return true;
  }

  finish(): void {
    this.#imported.accounts.push(...this.#accounts.map(({ account, models }) => ({ ...account, models })));
  }

  #open(
    { subject, identity, fields, provider, params }: OpenedAccount,
    models: Record<string, string>,
  ): void {
    const credential = typeof params.api_key === "string" && params.api_key !== "" ? params.api_key : null;
    const name = cleanName(`${provider}-${this.#accounts.length + 1}`, "account");
    const needsCredential = !isLocal(fields.vendor);
    if (credential === null && needsCredential)
      this.#imported.findings.push({
        subject: `account ${name} (${subject})`,
        message: "has no credential in the source: created disabled. Set its credential and enable it.",
      });
    const account: ImportedAccount = {
      name,
      ...fields,
      ...(credential === null ? {} : { credential }),
      enabled: credential !== null || !needsCredential,
      models,
    };
    this.#accounts.push({ account, identity, models });
  }
}

type AccountFields = Pick<ImportedAccount, "kind" | "vendor" | "base_url" | "api_version">;

interface OpenedAccount {
  readonly subject: string;
  readonly identity: string;
  readonly fields: AccountFields;
  readonly provider: string;
  readonly params: Params;
}

function buildAccount(upstream: SourceUpstream, params: Params): AccountFields {
  const address = typeof params.api_base === "string" ? params.api_base : null;
  const isDated = upstream === AZURE && typeof params.api_version === "string";
  return {
    ...buildAddress(upstream, address),
    ...(isDated ? { api_version: String(params.api_version) } : {}),
  };
}

function splitModel(params: Params): { provider: string; upstreamModel: string } {
  const model = String(params.model);
  const slash = model.indexOf("/");
  const prefix = model.slice(0, Math.max(slash, 0));
  if (typeof params.custom_llm_provider === "string")
    return {
      provider: params.custom_llm_provider,
      upstreamModel: prefix === params.custom_llm_provider ? model.slice(slash + 1) : model,
    };
  if (prefix !== "") return { provider: prefix, upstreamModel: model.slice(slash + 1) };
  return { provider: guessProvider(model), upstreamModel: model };
}

function findUnsupported(name: string, params: Params, info: Params): string | null {
  if (typeof params.model !== "string" || params.model === "") return "it names no upstream model";
  if (name.includes("*") || params.model.includes("*")) return "a name with * has no counterpart";
  if (info.team_id !== undefined && info.team_id !== null) return "a model of one team has no counterpart";
  const { provider } = splitModel(params);
  if (LITELLM_PROVIDERS[provider] === undefined)
    return `the provider "${cleanText(provider)}" has no counterpart`;
  if (params.litellm_credential_name !== undefined && params.litellm_credential_name !== null)
    return "it uses a named credential, which has no counterpart";
  return null;
}

export function readMember(value: unknown, name: string): unknown {
  return isRecord(value) ? value[name] : undefined;
}

/** Keys with a model list or a list of networks get a request policy with these lists. Keys with the same lists share it. */

import { isDeepStrictEqual } from "node:util";
import { parseNetwork } from "../../net/http-server/networks.ts";
import type { RequestPolicyRecord } from "../../records/request-policy.ts";
import { cleanName, type ImportedGroup, type ImportedKey } from "./imported.ts";

/** A request policy in file shape. */
export interface ImportedPolicy {
  readonly name: string;
  readonly models?: readonly string[];
  readonly networks?: readonly string[];
}

const NAME_CHARS_MAX = 64;

/** Null if the key may do everything that its group may; the reason if the key cannot be created. */
export function buildKeyPolicy(
  key: Pick<ImportedKey, "models" | "networks">,
  group: ImportedGroup,
  prefix: string,
): ImportedPolicy | string | null {
  const allowed = new Set(key.models ?? group.models);
  const models = group.models.filter((model) => allowed.has(model));
  if (models.length === 0) return "none of its models was imported";
  if (key.networks?.some((network) => parseNetwork(network) === null))
    return "its list of IP addresses has an entry that is no network";
  const rules = {
    ...(key.models === null ? {} : { models }),
    ...(key.networks === null ? {} : { networks: [...new Set(key.networks)].sort() }),
  };
  return Object.keys(rules).length === 0 ? null : { name: namePolicy(rules, prefix), ...rules };
}

/** Whether the policy of this gateway with the name of the wanted one is the same. */
export function isSamePolicy(present: RequestPolicyRecord, { name: _, ...rules }: ImportedPolicy): boolean {
  return isDeepStrictEqual(present.rules, rules);
}

/** The name follows from the lists, so that a second import finds the policy. */
function namePolicy({ models, networks }: Omit<ImportedPolicy, "name">, prefix: string): string {
  const describe = (listModels: string, listNetworks: string) =>
    `${prefix}only ${[models && listModels, networks && `from ${listNetworks}`].filter(Boolean).join(" ")}`;
  const whole = describe(String(models?.join(", ")), String(networks?.join(", ")));
  if (whole.length <= NAME_CHARS_MAX) return cleanName(whole, whole);
  const hash = new Bun.CryptoHasher("sha256").update(whole).digest("hex").slice(0, 8);
  const short = describe(`${models?.length} models`, `${networks?.length} networks`);
  return cleanName(`${short.slice(0, NAME_CHARS_MAX - hash.length - 2)}, ${hash}`, hash);
}

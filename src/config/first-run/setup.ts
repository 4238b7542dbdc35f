/**
 * The first configuration of an installation: a vendor account, the models that it serves, and a group that publishes
 * them. The checklist of the console and `init` propose the same.
 */

import type { KindSetup } from "../../accounts/kinds/kind-definition.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { VENDOR_PRESETS, VENDORS, type Vendor } from "../../accounts/vendors.ts";
import { findListed } from "../../money/price-list.ts";
import { canServe } from "../../policy/translation.ts";
import { ACCOUNT_KINDS, type AccountKind } from "../../records/account.ts";
import { DIALECTS, type Interface } from "../../records/interfaces.ts";
import type { Price, PriceList } from "../../records/price.ts";
import type { GatewayDocument } from "../schema/schema.ts";

/** A vendor whose accounts need nothing but a credential. */
export interface SetupVendor extends KindSetup {
  readonly id: string;
  readonly kind: AccountKind;
  readonly vendor: Vendor | null;
  readonly interfaces: readonly Interface[];
}

/**
 * The vendors with APIs of their own stand after OpenAI. Those on the operator's own machines are left out: their
 * addresses are private, which only a file can allow.
 */
export const SETUP_VENDORS: readonly SetupVendor[] = [
  presetVendor("openai"),
  ...ACCOUNT_KINDS.flatMap((kind) => kindVendor(kind) ?? []),
  ...VENDORS.filter((vendor) => vendor !== "openai" && !VENDOR_PRESETS[vendor].isLocal).map(presetVendor),
];

function kindVendor(kind: AccountKind): SetupVendor | null {
  const { setup, interfaces } = KINDS[kind];
  return setup === null ? null : { ...setup, id: kind, kind, vendor: null, interfaces };
}

function presetVendor(vendor: Vendor): SetupVendor {
  const { label, interfaces } = VENDOR_PRESETS[vendor];
  const variable = `${vendor.toUpperCase()}_API_KEY`;
  return { id: vendor, label, kind: "openai", vendor, interfaces, variable };
}

export interface ProposedModel {
  /** The upstream's own name, which is the public name as well. */
  readonly id: string;
  readonly interfaces: readonly Interface[];
  /** From the price list; null if it has none. */
  readonly price: Price | null;
}

/** The listed models that the account can serve, by name. Those with a price come first. */
export function proposeModels(
  listed: readonly string[],
  { interfaces }: Pick<SetupVendor, "interfaces">,
  priceList: PriceList | null,
): ProposedModel[] {
  return [...new Set(listed)]
    .sort()
    .map((id) => {
      const price = findListed(id, priceList)?.model.price ?? null;
      const wanted = guessInterfaces(id, price);
      return { id, price, interfaces: wanted.filter((name) => canServe(interfaces, name)) };
    })
    .filter((model) => model.interfaces.length > 0)
    .sort((a, b) => Number(a.price === null) - Number(b.price === null));
}

/** A list of models has names only. The units of the price show what a model produces; without a price, its name. */
function guessInterfaces(id: string, price: Price | null): readonly Interface[] {
  if (price?.image !== undefined || price?.images !== undefined) return ["images"];
  if (price !== null) return price.output === undefined ? ["embeddings"] : DIALECTS;
  if (/embed/i.test(id)) return ["embeddings"];
  return /(?:^|[-/])(?:image|imagen|dall-e|flux)/i.test(id) ? ["images"] : DIALECTS;
}

interface SetupChoice {
  readonly vendor: SetupVendor;
  readonly accountName: string;
  readonly models: readonly Pick<ProposedModel, "id" | "interfaces">[];
  readonly groupName: string;
}

/** The account, its models and a group that is open to everyone. The credential is added by the caller. */
export function buildSetupDocument({ vendor, accountName, models, groupName }: SetupChoice) {
  const ids = models.map(({ id }) => id);
  return {
    models: models.map(({ id, interfaces }) => ({ id, interfaces: [...interfaces] })),
    accounts: [
      {
        ...accountFields(vendor, accountName),
        models: Object.fromEntries(ids.map((id) => [id, id])),
      },
    ],
    groups: [{ name: groupName, models: ids, accounts: [accountName] }],
  } satisfies GatewayDocument;
}

export function accountFields({ kind, vendor }: SetupVendor, name: string) {
  return { name, kind, ...(vendor === null ? {} : { vendor }) };
}

/** The first of `base`, `base-2`, `base-3` … that is not taken. */
export function chooseName(base: string, taken: readonly string[]): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base}-${number}`;
    if (!taken.includes(name)) return name;
  }
}

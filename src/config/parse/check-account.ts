/** Which fields of an account its kind requires or does not allow. */

import { type FieldFault, type FileFields, KIND_FIELDS } from "../../accounts/kinds/kind-definition.ts";
import { isBuiltIn, KINDS } from "../../accounts/kinds/table.ts";
import { VENDOR_PRESETS, VENDORS } from "../../accounts/vendors.ts";
import { findLocalAddress } from "../../net/http-client/ip-addresses.ts";
import { ACCOUNT_KINDS, type AccountKind } from "../../records/account.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { Item } from "./items.ts";

export function accountFields({ path, value }: Item): FieldProblem[] {
  const kind = ACCOUNT_KINDS.find((name) => name === value.kind);
  const faults = [...checkWebsocket(value), ...(kind === undefined ? [] : checkKind(value, kind))];
  return faults.map(({ field, message }) => ({ path: [...path, field], message }));
}

function checkWebsocket({ websocket, interfaces }: FileFields): FieldFault[] {
  if (websocket !== true || !Array.isArray(interfaces) || interfaces.includes("responses")) return [];
  const message =
    "requires responses, which is not in the account's interfaces. Add it, or set websocket to false.";
  return [{ field: "websocket", message }];
}

function checkKind(account: FileFields, kind: AccountKind): readonly FieldFault[] {
  const { check, fields } = KINDS[kind];
  if (isBuiltIn(kind)) return check(account);
  const foreign = KIND_FIELDS.filter((field) => Object.hasOwn(account, field) && !fields.includes(field));
  return [
    ...check(account),
    ...foreign.map((field) => {
      const kinds = ACCOUNT_KINDS.filter((name) => KINDS[name].fields.includes(field)).join(" and ");
      return { field, message: `is allowed only for kind ${kinds}. Remove the field.` };
    }),
    ...checkLocalVendor(account),
  ];
}

/** The preset of a server of the operator works only if its address is allowed, so the field is required at once. */
function checkLocalVendor(account: FileFields): FieldFault[] {
  const vendor = VENDORS.find((name) => name === account.vendor);
  if (vendor === undefined || !VENDOR_PRESETS[vendor].isLocal) return [];
  const baseUrl = typeof account.base_url === "string" ? account.base_url : VENDOR_PRESETS[vendor].baseUrl;
  const address = findLocalAddress(baseUrl);
  if (address === null || account.private_network === true) return [];
  return [{ field: "private_network", message: localAddressText(baseUrl, address) }];
}

/** What an operator has to change for an account on this machine or in its network. */
export function localAddressText(baseUrl: string, kind: "private" | "loopback"): string {
  return `must be true, because ${baseUrl} is a ${kind} address. Add \`private_network: true\` to the account in the configuration file, and apply the file.`;
}

/** Which fields of an account its kind requires or does not allow. */

import { findLocalAddress } from "../../net/http-client/ip-addresses.ts";
import { parseServiceAccount, type ServiceAccountProblem } from "../../secrets/service-account.ts";
import { VENDOR_PRESETS, VENDORS } from "../../vendors.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type Item, readText } from "./items.ts";

/** The kind of an account determines which fields are required and which are not allowed. */
export function accountFields(account: Item): FieldProblem[] {
  const kind = readText(account, "kind");
  const has = (field: string) => Object.hasOwn(account.value, field);
  const at = (field: string, message: string): FieldProblem => ({ path: [...account.path, field], message });
  const problems: FieldProblem[] = [];
  const { websocket, interfaces } = account.value;
  if (websocket === true && Array.isArray(interfaces) && !interfaces.includes("responses")) {
    problems.push(
      at(
        "websocket",
        "requires responses, which is not in the account's interfaces. Add it, or set websocket to false.",
      ),
    );
  }
  if (kind === "simulator") {
    for (const field of ["base_url", "credential", "private_network"].filter(has)) {
      problems.push(at(field, "is not allowed for kind simulator. Remove the field."));
    }
    return problems;
  }
  if (has("vendor") && kind !== "openai") {
    problems.push(at("vendor", "is allowed only for kind openai. Remove the field."));
  }
  if ((kind === "openai" || kind === "azure") && !has("base_url") && !has("vendor")) {
    problems.push(
      at("base_url", "is missing. Set the base URL of the upstream, like https://api.openai.com/v1."),
    );
  }
  if (kind !== "azure" && has("api_version")) {
    problems.push(at("api_version", "is allowed only for kind azure. Remove the field."));
  }
  return [...problems, ...localVendor(account), ...cloudFields(account, kind)];
}

/** The preset of a server of the operator works only if its address is allowed, so the field is required at once. */
function localVendor(account: Item): FieldProblem[] {
  const preset = VENDORS.find((vendor) => vendor === readText(account, "vendor"));
  if (preset === undefined || !VENDOR_PRESETS[preset].isLocal) return [];
  const baseUrl = readText(account, "base_url") ?? VENDOR_PRESETS[preset].baseUrl;
  const kind = findLocalAddress(baseUrl);
  if (kind === null || account.value.private_network === true) return [];
  return [{ path: [...account.path, "private_network"], message: localAddressText(baseUrl, kind) }];
}

/** What an operator has to change for an account on this machine or in its network. */
export function localAddressText(baseUrl: string, kind: "private" | "loopback"): string {
  return `must be true, because ${baseUrl} is a ${kind} address. Add \`private_network: true\` to the account in the configuration file, and apply the file.`;
}

/** The fields of Amazon Bedrock and Google Vertex AI. */
function cloudFields(account: Item, kind: string | undefined): FieldProblem[] {
  const has = (field: string) => Object.hasOwn(account.value, field);
  const at = (field: string, message: string): FieldProblem => ({ path: [...account.path, field], message });
  const isCloud = kind === "bedrock" || kind === "vertex";
  const problems: FieldProblem[] = [];
  if (has("region") && !isCloud)
    problems.push(at("region", "is allowed only for kind bedrock and vertex. Remove the field."));
  if (has("project") && kind !== "vertex")
    problems.push(at("project", "is allowed only for kind vertex. Remove the field."));
  if (kind === "bedrock" && !has("region") && !has("base_url"))
    problems.push(at("region", "is missing. Set the region of the Bedrock endpoint, like us-east-1."));
  const credential = readText(account, "credential");
  if (credential === undefined) return problems;
  const fault = kind === "vertex" ? serviceAccountFault(account, credential) : headerFault(credential);
  return fault === null ? problems : [...problems, at("credential", fault)];
}

/** A credential is sent in a header; only a service account may have spaces and line breaks. */
function headerFault(credential: string): string | null {
  return /^[\x21-\x7e]*$/.test(credential)
    ? null
    : "must be a string of visible characters. Only kind vertex has the JSON of a service account.";
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

function serviceAccountFault(account: Item, credential: string): string | null {
  const parsed = parseServiceAccount(credential, readText(account, "base_url") ?? "");
  return typeof parsed === "string" ? SERVICE_ACCOUNT_FAULTS[parsed] : null;
}

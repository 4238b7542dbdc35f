/** Plans how people sign in. Omitted secrets of providers are kept. */

import type { FieldChange } from "../../records/policy.ts";
import { providerSecretBinding } from "../../secrets/seal.ts";
import {
  DEFAULT_SIGN_IN,
  type ProviderRecord,
  type SignInRecord,
  writeSignIn,
} from "../../store/settings/sign-in-settings.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { durationText } from "../schema/usage-limits.ts";
import { changedFields, type FormattedFields, formatList } from "../state/difference.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep, type Secrets } from "../state/step.ts";
import { scimProblems } from "./plan-scim.ts";
import { FILE_ONLY, REENTER_SECRET, sealIfChanged, secretDifference } from "./stored-secrets.ts";

type FileProvider = NonNullable<GatewayFile["sign_in"]>["providers"][number];
type Providers = readonly ProviderRecord[];

export function planSignIn(
  before: SignInRecord,
  wanted: GatewayFile["sign_in"],
  secrets: Secrets,
): PlanStep[] {
  if (wanted === undefined) return [];
  const providers = wanted.providers.map((one) => buildProvider(before.providers, one, secrets));
  const after: SignInRecord = { password: wanted.password, providers };
  const fields = [
    ...changedFields(formatSignIn(before), formatSignIn(after)),
    ...diffSecrets(before.providers, providers),
  ];
  return changeStep("sign_in", fields, (tx) => writeSignIn(tx, after));
}

function buildProvider(before: Providers, wanted: FileProvider, secrets: Secrets): ProviderRecord {
  const { name, issuer, client_id: clientId, client_secret } = wanted;
  const binding = providerSecretBinding(name);
  return {
    name,
    issuer,
    clientId,
    sealedSecret: sealIfChanged(binding, storedSecret(before, wanted), client_secret, secrets),
    privateNetwork: wanted.private_network,
    subjectClaim: wanted.subject_claim,
    groupsClaim: wanted.groups_claim,
    address: wanted.address,
    createUsers: wanted.create_users,
    domains: wanted.domains,
    requireGroup: wanted.require_group,
    roles: wanted.roles,
    groups: wanted.groups,
    signInEveryMs: wanted.sign_in_every,
  };
}

/** A stored secret belongs to one client at one issuer and is never sent to another. */
function storedSecret(before: Providers, { name, issuer, client_id }: FileProvider): string | null {
  const present = findProvider(before, name);
  return present?.issuer === issuer && present.clientId === client_id ? present.sealedSecret : null;
}

function findProvider(providers: Providers, name: string): ProviderRecord | undefined {
  return providers.find((one) => one.name === name);
}

function diffSecrets(before: Providers, after: Providers): FieldChange[] {
  const names = new Set([...before, ...after].map(({ name }) => name));
  return [...names].flatMap((name) =>
    secretDifference(
      `providers.${name}.client_secret`,
      findProvider(before, name)?.sealedSecret ?? null,
      findProvider(after, name)?.sealedSecret ?? null,
    ),
  );
}

function formatSignIn({ password, providers }: SignInRecord): FormattedFields {
  const shown: Record<string, string | null> = { password };
  for (const provider of providers) {
    const file = providerToFile(provider);
    for (const [field, value] of Object.entries(file))
      shown[`providers.${provider.name}.${field}`] = formatValue(value);
  }
  return shown;
}

function formatValue(value: unknown): string {
  if (Array.isArray(value)) return formatList(value.map(String));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Without the secret. */
function providerToFile(provider: ProviderRecord) {
  const { signInEveryMs, roles } = provider;
  return {
    name: provider.name,
    issuer: provider.issuer,
    client_id: provider.clientId,
    ...(provider.privateNetwork ? { private_network: true } : {}),
    subject_claim: provider.subjectClaim,
    groups_claim: provider.groupsClaim,
    address: provider.address,
    create_users: provider.createUsers,
    domains: provider.domains,
    require_group: provider.requireGroup,
    roles: { admin: roles.admin, auditor: roles.auditor },
    groups: provider.groups,
    sign_in_every: signInEveryMs === null ? "off" : durationText(signInEveryMs),
  };
}

/** Empty if sign-in was never configured. */
export function signInSection({ signIn }: Pick<ConfigState, "signIn">) {
  if (signIn === DEFAULT_SIGN_IN) return {};
  return { sign_in: { password: signIn.password, providers: signIn.providers.map(providerToFile) } };
}

/** A provider whose stored secret no longer applies must not become a client without a secret by mistake. */
export function signInProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const { signIn } = state;
  const lost = (file.sign_in?.providers ?? []).flatMap((wanted, i) => {
    const present = findProvider(signIn.providers, wanted.name);
    const isLost =
      wanted.client_secret === undefined &&
      present !== undefined &&
      present.sealedSecret !== null &&
      storedSecret(signIn.providers, wanted) === null;
    return isLost ? [{ path: ["sign_in", "providers", i, "client_secret"], message: REENTER_SECRET }] : [];
  });
  return [...lost, ...scimProblems(file, state)];
}

/** Limits what a browser may change: only the file can allow private networks, for one issuer each. */
export function signInReachProblems({ sign_in }: GatewayFile, { signIn }: ConfigState): FieldProblem[] {
  return (sign_in?.providers ?? []).flatMap(({ name, issuer, private_network }, i) => {
    const present = findProvider(signIn.providers, name);
    const isKept = present?.privateNetwork === true && present.issuer === issuer;
    return private_network && !isKept
      ? [{ path: ["sign_in", "providers", i, "private_network"], message: FILE_ONLY }]
      : [];
  });
}

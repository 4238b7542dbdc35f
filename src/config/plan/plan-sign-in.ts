/** Plans how people sign in. Omitted secrets of providers are kept. */

import { DEFAULT_SIGN_IN, type ProviderRecord, type SignInRecord } from "../../records/sign-in.ts";
import { providerSecretBinding } from "../../secrets/seal.ts";
import { writeSignIn } from "../../store/settings/sections.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields } from "../state/difference.ts";
import { PROVIDER_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep, type Secrets } from "../state/step.ts";
import { scimProblems } from "./plan-scim.ts";
import { diffByName, FILE_ONLY, findByName, REENTER_SECRET, sealIfChanged } from "./stored-secrets.ts";

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
    ...changedFields({ password: before.password }, { password: after.password }),
    ...diffByName(
      { list: "providers", secret: "client_secret", shape: PROVIDER_SHAPE },
      before.providers,
      providers,
    ),
  ];
  return changeStep("sign_in", fields, (tx) => writeSignIn(tx, after));
}

function buildProvider(before: Providers, wanted: FileProvider, secrets: Secrets): ProviderRecord {
  const { name, client_secret } = wanted;
  const present = storedSecret(before, wanted);
  const sealedSecret = sealIfChanged(providerSecretBinding(name), present, client_secret, secrets);
  return { ...PROVIDER_SHAPE.parse(wanted), sealedSecret };
}

/** A stored secret belongs to one client at one issuer and is never sent to another. */
function storedSecret(before: Providers, { name, issuer, client_id }: FileProvider): string | null {
  const present = findByName(before, name);
  return present?.issuer === issuer && present.clientId === client_id ? present.sealedSecret : null;
}

/** Empty if sign-in was never configured. */
export function signInSection({ signIn }: Pick<ConfigState, "signIn">) {
  if (signIn === DEFAULT_SIGN_IN) return {};
  return {
    sign_in: {
      password: signIn.password,
      providers: signIn.providers.map((one) => PROVIDER_SHAPE.write(one)),
    },
  };
}

/** A provider whose stored secret no longer applies must not become a client without a secret by mistake. */
export function signInProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const { signIn } = state;
  const lost = (file.sign_in?.providers ?? []).flatMap((wanted, i) => {
    const present = findByName(signIn.providers, wanted.name);
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
export function signInFileOnlyProblems({ sign_in }: GatewayFile, { signIn }: ConfigState): FieldProblem[] {
  return (sign_in?.providers ?? []).flatMap(({ name, issuer, private_network }, i) => {
    const present = findByName(signIn.providers, name);
    const isKept = present?.privateNetwork === true && present.issuer === issuer;
    return private_network && !isKept
      ? [{ path: ["sign_in", "providers", i, "private_network"], message: FILE_ONLY }]
      : [];
  });
}

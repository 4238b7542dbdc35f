/** Plans the directory that pushes by SCIM. */

import type { ScimRecord } from "../../records/settings.ts";
import { writeScim } from "../../store/settings/sections.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields, type FormattedFields } from "../state/difference.ts";
import { SCIM_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep } from "../state/step.ts";

export function planScim(before: ScimRecord | null, wanted: GatewayFile["scim"]): PlanStep[] {
  if (wanted === undefined) return [];
  const after = buildScim(wanted);
  const fields = changedFields(formatScim(before), formatScim(after));
  return changeStep("scim", fields, (tx) => writeScim(tx, after));
}

function buildScim(wanted: NonNullable<GatewayFile["scim"]>): ScimRecord | null {
  const { enabled, provider } = wanted;
  return enabled && provider !== undefined ? SCIM_SHAPE.parse({ ...wanted, provider }) : null;
}

function formatScim(scim: ScimRecord | null): FormattedFields {
  return scim === null ? { enabled: "false" } : { enabled: "true", ...SCIM_SHAPE.format(scim) };
}

/** Empty if SCIM is off. */
export function scimSection({ scim }: Pick<ConfigState, "scim">) {
  return scim === null ? {} : { scim: SCIM_SHAPE.write(scim) };
}

/** The provider exists after the plan is applied, also if the file changes only one of the two sections. */
export function scimProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const scim = file.scim === undefined ? state.scim : buildScim(file.scim);
  const providers = file.sign_in?.providers ?? state.signIn.providers;
  const byScim = providers.findIndex((one) => creation(one) === "scim" && one.name !== scim?.provider);
  const isKnown = scim === null || providers.some(({ name }) => name === scim.provider);
  return [
    ...(isKnown
      ? []
      : [
          file.scim === undefined
            ? {
                path: ["sign_in", "providers"],
                message: `lacks the provider "${scim.provider}", whose directory pushes by SCIM. Keep it, or set scim.enabled to false.`,
              }
            : { path: ["scim", "provider"], message: `"${scim.provider}" is no provider of sign_in.` },
        ]),
    ...(byScim === -1 || file.sign_in === undefined
      ? []
      : [
          {
            path: ["sign_in", "providers", byScim, "create_users"],
            message: "is scim, but scim.provider does not name this provider.",
          },
        ]),
  ];
}

type AnyProvider =
  | NonNullable<GatewayFile["sign_in"]>["providers"][number]
  | ConfigState["signIn"]["providers"][number];

function creation(provider: AnyProvider): string {
  return "create_users" in provider ? provider.create_users : provider.createUsers;
}

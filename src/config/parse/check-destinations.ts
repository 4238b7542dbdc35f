/**
 * Limits what the console may change about the destination of requests. Only the file on the machine can allow
 * private networks, and a stored credential is sent only to the address that it was entered for.
 */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { AccountRecord } from "../../records/account.ts";
import { defaultBaseUrl } from "../account-defaults.ts";
import type { FileAccount, GatewayFile } from "../schema/schema.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";

/** Returns the changes that are rejected if they come from a browser, even from an administrator. */
export function destinationProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const accounts = new Map(state.accounts.map((account) => [account.name, account]));
  return file.accounts.flatMap((wanted, i): FieldProblem[] => {
    const present = accounts.get(wanted.name);
    const isUnchanged = present !== undefined && hasSameDestination(present, wanted);
    if (wanted.private_network && !(isUnchanged && present.privateNetwork)) {
      return [
        {
          path: ["accounts", i, "private_network"],
          message:
            "cannot be enabled here. Set it in the configuration file and run `npx model-gateway apply`.",
        },
      ];
    }
    const hasSecret = present !== undefined && present.sealedCredential !== null;
    if (
      !hasSecret ||
      isUnchanged ||
      KINDS[wanted.kind].credential === "none" ||
      wanted.credential !== undefined
    )
      return [];
    return [
      {
        path: ["accounts", i, "credential"],
        message: "must be entered again: the stored value belongs to the old address.",
      },
    ];
  });
}

function hasSameDestination(present: AccountRecord, wanted: FileAccount): boolean {
  const baseUrl = wanted.base_url ?? defaultBaseUrl(wanted);
  return present.baseUrl === baseUrl && present.kind === wanted.kind;
}

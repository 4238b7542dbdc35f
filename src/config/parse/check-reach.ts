import type { AccountRecord } from "../../records.ts";
import type { FileAccount, GatewayFile } from "../schema/schema.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";

/**
 * What a browser may not change about where requests go, whoever sits before it: only the file on the machine opens
 * private networks, and a stored credential goes to no other address than the one it was given for.
 */
export function reachProblems(file: GatewayFile, state: ConfigState): FieldProblem[] {
  const accounts = new Map(state.accounts.map((account) => [account.name, account]));
  return file.accounts.flatMap((wanted, i): FieldProblem[] => {
    const present = accounts.get(wanted.name);
    const stays = present !== undefined && isReachedAlike(present, wanted);
    if (wanted.private_network && !(stays && present.privateNetwork)) {
      return [
        {
          path: ["accounts", i, "private_network"],
          message:
            "cannot be switched on here. Write it into the configuration file and run `npx model-gateway apply`.",
        },
      ];
    }
    const hasSecret = present !== undefined && present.sealedCredential !== null;
    if (!hasSecret || stays || wanted.kind === "simulator" || wanted.credential !== undefined) return [];
    return [
      {
        path: ["accounts", i, "credential"],
        message: "must be given again: the stored one is for the old address.",
      },
    ];
  });
}

function isReachedAlike(present: AccountRecord, wanted: FileAccount): boolean {
  return present.baseUrl === (wanted.base_url ?? "") && present.kind === wanted.kind;
}

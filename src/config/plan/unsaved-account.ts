/** Compiles an account that is described but not saved, so that it can be tested under the rules of a saved one. */

import type { PolicyAccount } from "../../accounts/account.ts";
import { isBuiltIn } from "../../accounts/kinds/table.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import { accountCredentialBinding, unseal } from "../../secrets/seal.ts";
import type { Installation } from "../installation/installation.ts";
import type { Problem } from "../state/problem.ts";
import { previewDocument } from "./apply.ts";

type UnsavedAccount =
  /** Null for the built-in simulator, which has no address. */
  | { readonly ok: true; readonly account: PolicyAccount | null }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** `document` is an account in file shape, with or without a credential. An omitted one is that of the saved account. */
export async function compileUnsavedAccount(
  installation: Installation,
  document: { name: string },
): Promise<UnsavedAccount> {
  const { after, problems } = await previewDocument(installation, { accounts: [document] });
  const record = after?.accounts.find(({ name }) => name === document.name);
  if (record === undefined || problems.length > 0) return { ok: false, problems };
  if (isBuiltIn(record.kind)) return { ok: true, account: null };
  const { accounts } = compileSnapshot(
    { models: [], groups: [], accounts: [{ ...record, enabled: true }] },
    {
      simulatorUrl: null,
      unseal: ({ id, sealedCredential }) =>
        sealedCredential === null
          ? null
          : unseal(installation.keyring, accountCredentialBinding(id), sealedCredential),
    },
  );
  const account = accounts.get(record.id);
  if (account === undefined) throw new Error("The enabled account is not in the compiled policy.");
  return { ok: true, account };
}

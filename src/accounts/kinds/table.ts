/** The kinds of accounts. Nothing outside this folder compares the name of a kind. */

import type { AccountKind } from "../../records/account.ts";
import type { PolicyAccount } from "../account.ts";
import { anthropic } from "./anthropic.ts";
import { azure } from "./azure.ts";
import { bedrock } from "./bedrock.ts";
import { gemini } from "./gemini.ts";
import type { KindDefinition } from "./kind-definition.ts";
import { openai } from "./openai.ts";
import { simulator } from "./simulator.ts";
import { vertex } from "./vertex.ts";

export const KINDS: Readonly<Record<AccountKind, KindDefinition>> = {
  openai,
  azure,
  anthropic,
  bedrock,
  gemini,
  vertex,
  simulator,
};

/** Whether the upstream is part of this process. */
export function isBuiltIn(kind: AccountKind): boolean {
  return KINDS[kind].address.from === "process";
}

/** Null if the account sends no credential, or an access token in its place. */
export function credentialHeader({
  kind,
  credential,
}: PolicyAccount): readonly [name: string, value: string] | null {
  const definition = KINDS[kind];
  return credential === null || definition.credential === "service_account"
    ? null
    : definition.credentialHeader(credential);
}

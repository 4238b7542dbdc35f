/** The sign-in of tools as requests read it: from memory, also while the database is away. */

import { createHash } from "node:crypto";
import type { PolicyRecords } from "../records/policy.ts";

/** The response with the settings of a tool. */
interface SettingsDocument {
  readonly etag: string;
  readonly bytes: Uint8Array;
}

export interface ToolSignInPolicy {
  readonly accessTokenMs: number;
  readonly idleEndMs: number;
  /** Ids of the groups that people may choose, in the order of the page; null: all that they may use. */
  readonly groupIds: readonly string[] | null;
  /** By the id of a group. */
  readonly managedSettings: ReadonlyMap<string, SettingsDocument>;
}

export function compileToolSignIn({
  toolSignIn,
  groups,
}: Pick<PolicyRecords, "toolSignIn" | "groups">): ToolSignInPolicy | null {
  if (!toolSignIn?.enabled) return null;
  const idsByName = new Map(groups.map(({ name, id }) => [name, id]));
  const findId = (name: string) => idsByName.get(name) ?? [];
  const { accessTokenMs, idleEndMs, managedSettings } = toolSignIn;
  return {
    accessTokenMs,
    idleEndMs,
    groupIds: toolSignIn.groups.length === 0 ? null : toolSignIn.groups.flatMap(findId),
    managedSettings: new Map(
      Object.entries(managedSettings).flatMap(([name, { text }]) => {
        const id = idsByName.get(name);
        return id === undefined ? [] : [[id, buildDocument(text)] as const];
      }),
    ),
  };
}

/** Every node computes the same document from the same settings. */
function buildDocument(text: string): SettingsDocument {
  const hex = createHash("sha256").update(text).digest("hex");
  const checksum = `sha256:${hex}`;
  const uuid = hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
  const body = `{"uuid":"${uuid}","checksum":"${checksum}","settings":${text}}`;
  return { etag: `"${checksum}"`, bytes: Buffer.from(body) };
}

/** Sign-in of tools as it is stored: lives of tokens, groups, and settings for Claude Code. */

import type { Field, RecordOf } from "./fields.ts";
import * as field from "./fields.ts";

/** Settings of Claude Code on the computers of a group. They can run commands there. */
export interface ManagedSettings {
  /** As the configuration file names it. */
  readonly path: string;
  /** The settings as JSON, without spaces. */
  readonly text: string;
}

const managedSettings: Field<Readonly<Record<string, ManagedSettings>>, "managedSettings"> = {
  kind: "managedSettings",
};

export const TOOL_SIGN_IN_FIELDS = {
  enabled: field.boolean,
  accessTokenMs: field.named("access_token", field.duration),
  /** A sign-in ends after this time without a refresh. */
  idleEndMs: field.named("idle_end", field.duration),
  /** Names of the groups that people may choose, in the order of the page; empty: all that they may use. */
  groups: field.textList,
  /** By the name of a group. The file names the files that have them. */
  managedSettings: field.internal(managedSettings),
};
export interface ToolSignInRecord extends RecordOf<typeof TOOL_SIGN_IN_FIELDS> {}

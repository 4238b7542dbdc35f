/** Sign-in of tools as it is stored: lives of tokens, groups, and settings for Claude Code. */

/** Settings of Claude Code on the computers of a group. They can run commands there. */
export interface ManagedSettings {
  /** As the configuration file names it. */
  readonly path: string;
  /** The settings as JSON, without spaces. */
  readonly text: string;
}

export interface ToolSignInRecord {
  readonly enabled: boolean;
  readonly accessTokenMs: number;
  /** A sign-in ends after this time without a refresh. */
  readonly idleEndMs: number;
  /** Names of the groups that people may choose, in the order of the page; empty: all that they may use. */
  readonly groups: readonly string[];
  /** By the name of a group. */
  readonly managedSettings: Readonly<Record<string, ManagedSettings>>;
}

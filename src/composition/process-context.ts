/** What every step of the start uses: the installation, the settings, the limits and the log of this process. */

import type { Settings } from "../config/installation/environment.ts";
import type { Installation } from "../config/installation/installation.ts";
import type { limits } from "../config/limits/product-limits.ts";
import type { Log } from "../observe/log.ts";
import type { CloseStack } from "./close-stack.ts";

export type ServerSettings = Pick<
  Settings,
  | "host"
  | "port"
  | "publicUrl"
  | "allowedOrigins"
  | "allowedHosts"
  | "largeBodiesBytes"
  | "process"
  | "nodeDir"
  | "controlSocketFile"
  | "databaseUrl"
  | "telemetry"
  | "databaseListenUrl"
  | "redisUrl"
  | "onCoordinatorLoss"
  | "accessLog"
  | "capture"
  | "durability"
  | "drainDelayMs"
> & {
  /** Id of the data folder, if this process has locked it (`store/engine/folder-lock.ts`). */
  readonly folderId?: string;
};

/** Widens literal numbers, so that tests can change them. */
type WidenNumbers<T> = {
  readonly [name in keyof T]: T[name] extends number
    ? number
    : T[name] extends object
      ? WidenNumbers<T[name]>
      : T[name];
};

export type ProcessLimits = WidenNumbers<typeof limits>;

export interface ProcessContext {
  readonly installation: Installation;
  readonly settings: ServerSettings;
  readonly limits: ProcessLimits;
  readonly log: Log;
  /** Writes lines of the access log and calls back when they have been passed on. */
  readonly writeAccess: (text: string, onWritten: () => void) => void;
  /** Each step adds the services that it opens. */
  readonly closers: CloseStack;
}

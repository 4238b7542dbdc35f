/** Use that is stored after the process that reserved it has ended: no reservation reports it. */

export interface LateUse {
  readonly keyId: string;
  readonly userId: string | null;
  readonly groupId: string;
  readonly tokens: number;
  readonly nano: number;
}

/** Counts it in the windows of the key, its user, its group, and the key in the group. Call it when the row is stored. */
export type CountLateUse = (use: LateUse) => Promise<void>;

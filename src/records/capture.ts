/** Which requests are captured. */

/** Which requests are captured: none, those that fail, or all. */
export const CAPTURE_MODES = ["off", "errors", "all"] as const;
export type CaptureMode = (typeof CAPTURE_MODES)[number];

/** What can be removed from captures by pattern. Keys, credentials and inline media are always removed. */
export const CAPTURE_REDACTIONS = ["email", "card", "phone", "ip"] as const;
export type CaptureRedaction = (typeof CAPTURE_REDACTIONS)[number];

/** How a process stores captures: the `capture` section of the configuration. */
export interface CaptureStorage {
  readonly bodyBytesMax: number;
  readonly budgetBytes: number;
  readonly keptMs: number;
  readonly redactions: readonly CaptureRedaction[];
}

/** What an administrator ordered to be captured of one key. */
export interface KeyCapture {
  /** Null: the mode of the group applies. */
  mode: CaptureMode | null;
  /** How many of the next requests are captured, whatever the mode; 0 if none was ordered. */
  remaining: number;
  /** The order ends at this time. */
  untilMs: number;
}

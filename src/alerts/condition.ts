/** The condition of an alert rule: how it is found, and when it is over. */

import type { AlertRecord } from "../store/alerts/alerts.ts";
import type { AlertCondition, AlertView } from "./alert-view.ts";

export type FoundCondition = Omit<AlertCondition, "rule" | "seenBy">;

/** Only evaluated while its rule is enabled. */
export interface Condition<Settings> extends Pick<AlertCondition, "seenBy"> {
  find(view: AlertView, settings: Settings): FoundCondition[];
  /** Whether an alert whose condition no longer holds is over. The alerts of a disabled rule are. */
  isOver(alert: AlertRecord, view: AlertView, settings: Settings): boolean;
}

/**
 * Whether this process opened the alert. For an alert from before it started, it is not known at once that the
 * condition has ended: health state starts empty with each process, so an account must be tried first.
 */
export function isOwnAlert(alert: AlertRecord, view: AlertView): boolean {
  return alert.startedAtMs >= view.startedAtMs;
}

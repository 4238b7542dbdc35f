/** A room of this size for tests, with little patience. */

import { systemClock } from "../../net/wire/clock.ts";
import { openAlarms } from "../../net/wire/deadlines.ts";
import { type BodyRoom, openBodyRoom } from "./body-budget.ts";

const alarms = openAlarms(10, systemClock);

export function openTestRoom(bytesMax: number): BodyRoom {
  return openBodyRoom({
    bytesMax,
    ownerBytesMax: bytesMax / 2,
    waitingMax: 10,
    ownerWaitingMax: 5,
    patienceMs: 60,
    alarms,
    monotonicMs: systemClock.monotonicMs,
  });
}

/** A room of this size for tests, with little patience. */

import { openAlarms } from "../alarms.ts";
import { systemClock } from "../clock.ts";
import { type BodyRoom, openBodyRoom } from "./body-room.ts";

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

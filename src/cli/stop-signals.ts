/** The signals that end a server: the first lets requests in flight finish, a second one ends it at once. */

import { existsSync, readFileSync } from "node:fs";

/** `onFirst` may be called several times. */
export function onStopSignals(onFirst: () => void, onSecond: () => void): void {
  let isStopping = false;
  const stop = () => {
    if (isStopping) onSecond();
    else onFirst();
    isStopping = true;
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  // A closed terminal sends SIGHUP more than once, which must not force an immediate exit.
  if (!isHangupIgnored()) process.on("SIGHUP", onFirst);
}

/** A process started with `nohup` should continue; a listener for the signal would undo that. */
function isHangupIgnored(): boolean {
  const status = "/proc/self/status";
  if (!existsSync(status)) return false;
  const lastDigit = /^SigIgn:.*([\da-f])$/m.exec(readFileSync(status, "utf8"))?.[1] ?? "0";
  return Number.parseInt(lastDigit, 16) % 2 === 1;
}

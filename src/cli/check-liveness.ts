/** Whether the server of a data folder responds. */

import { localUrl, type Settings } from "../config/installation/environment.ts";
import { type Finding, failed, passed } from "./finding.ts";
import { sendToServer } from "./running-server.ts";

const TIMEOUT_MS = 2_000;

/**
 * By the operator socket, which is found whatever port a configuration file sets. Some mounted volumes cannot hold a
 * socket, so the address in the settings is tried next.
 */
export async function checkLiveness(settings: Settings): Promise<Finding> {
  const what = "server";
  if ((await sendToServer(settings, "/health", {})).length > 0 || (await respondsToHttp(settings)))
    return passed(what, "answers");
  return failed(
    what,
    `No server answers for ${settings.dataDir}.`,
    "Start it, or set the data folder of the server with --data.",
  );
}

async function respondsToHttp({ host, port }: Settings): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    return (await fetch(`${localUrl(host, port)}/healthz`, { signal })).ok;
  } catch {
    return false;
  }
}

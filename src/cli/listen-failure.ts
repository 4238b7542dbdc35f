/** Describes to an operator why a server cannot listen or use its files. */

import type { Settings } from "../config/installation/environment.ts";
import { Failure } from "./command.ts";

/** Returns other errors unchanged. */
export function describeListenFailure(
  error: unknown,
  { host, port, dataDir }: Pick<Settings, "host" | "port" | "dataDir">,
): unknown {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "EADDRINUSE") {
    return new Failure(
      `Port ${port} on ${host} is already in use.`,
      `Stop the other process, or choose another port: --port ${port + 1}`,
      1,
    );
  }
  if (isForbiddenFile(error)) {
    return new Failure(
      `No permission to read and write ${error.path} (${error.code}).`,
      `All files in ${dataDir} must belong to the user who runs the server. Check whether root has run it.`,
      1,
    );
  }
  if (error instanceof Error && error.message.startsWith("Failed to listen")) {
    return new Failure(
      `Cannot listen on port ${port} of ${host}${typeof code === "string" ? ` (${code})` : ""}.`,
      "Choose an address of this machine with --host. Ports below 1024 require root or CAP_NET_BIND_SERVICE.",
      1,
    );
  }
  return error;
}

function isForbiddenFile(error: unknown): error is Error & { code: string; path: string } {
  if (!(error instanceof Error && "code" in error && "path" in error)) return false;
  return (error.code === "EACCES" || error.code === "EPERM") && typeof error.path === "string";
}

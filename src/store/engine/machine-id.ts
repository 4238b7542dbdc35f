/** Identifies the machine, so that a copied disk on a second machine is not taken for the same folder. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Without a machine id, a container has the boot id of its host, which all containers there share. */
const SOURCES = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"];
const ID_FORM = /^[0-9a-f-]{32,36}$/;

/** Empty if the system has none of the sources. Hashed: systemd asks programs to keep the id confidential. */
export function readMachineId(sources: readonly string[] = SOURCES): string {
  const id = sources.map(readLine).find((line) => ID_FORM.test(line));
  return id === undefined
    ? ""
    : createHash("sha256").update(`model-gateway ${id}`).digest("hex").slice(0, 16);
}

function readLine(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}

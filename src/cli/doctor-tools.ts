/** Checks of `doctor` for the sign-in of tools: whether Claude Code accepts the address of the gateway. */

import { lookup } from "node:dns/promises";
import type { Settings } from "../config/installation/environment.ts";
import { isLoopback } from "../console-api/http/origin.ts";
import { findLocalAddress } from "../net/http-client/ip-addresses.ts";
import type { Db } from "../store/engine/db.ts";
import { readToolSignIn } from "../store/settings/sections.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";

const WHAT = "tool sign-in";

export async function checkToolSignIn(
  db: Db,
  { publicUrl }: Pick<Settings, "publicUrl">,
): Promise<Finding[]> {
  if ((await readToolSignIn(db))?.enabled !== true) return [];
  const { protocol, hostname } = new URL(publicUrl);
  if (isLoopback(hostname)) return [passed(WHAT, `${publicUrl}: tools on this machine can sign in`)];
  if (protocol !== "https:")
    return [
      failed(
        WHAT,
        `server.public_url is ${publicUrl}, so no tool can sign in`,
        "Set server.public_url (PUBLIC_URL) to the https address of the gateway.",
      ),
    ];
  const addresses = await resolveAll(hostname);
  if (addresses.length === 0)
    return [
      warned(
        WHAT,
        `${hostname} has no address here, so it is unknown whether Claude Code accepts it for /login`,
        "Check the name on a computer of the people who sign in.",
      ),
    ];
  const open = addresses.filter((address) => findLocalAddress(toUrl(address)) === null);
  if (open.length === 0)
    return [passed(WHAT, `${publicUrl}: Claude Code accepts it for /login, other tools as well`)];
  return [
    warned(
      WHAT,
      `${hostname} is at ${open.join(", ")}. Claude Code rejects public addresses for /login; other tools, and Claude Code with \`setup claude\`, can sign in`,
      "Use a private address for /login, or connect Claude Code with `login` and `setup claude`.",
    ),
  ];
}

function toUrl(address: string): string {
  return `https://${address.includes(":") ? `[${address}]` : address}`;
}

async function resolveAll(hostname: string): Promise<string[]> {
  try {
    const found = await lookup(hostname.replace(/^\[|\]$/g, ""), { all: true });
    return found.map(({ address }) => address);
  } catch {
    return [];
  }
}

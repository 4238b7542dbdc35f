/**
 * Resolves the settings of the process. A flag overrides an environment variable, which overrides the file and
 * the default.
 */

import { resolve } from "node:path";
import { isHttpUrl, PUBLIC_URL_RULE } from "../schema/schema.ts";

/** Where the process listens and where it stores its data. */
export interface Settings {
  readonly host: string;
  readonly port: number;
  /** The public URL for links, without a trailing slash. */
  readonly publicUrl: string;
  /** Origins of web pages that may open a WebSocket. */
  readonly allowedOrigins: readonly string[];
  /** Host names, besides that of `publicUrl`, under which pages and the console API are served. */
  readonly allowedHosts: readonly string[];
  /** Memory budget for large bodies of all clients together; null for the default of `config/product-limits.ts`. */
  readonly largeBodiesBytes: number | null;
  /** An absolute path. */
  readonly dataDir: string;
  readonly databaseUrl: string;
  readonly masterKeyFile: string;
  /** Holds the one-time administrator token until it is claimed. */
  readonly adminTokenFile: string;
  /** The socket over which the command line reaches the process that runs on this data directory. */
  readonly controlSocketFile: string;
  /** What a settled request survives: the crash of the process, or a power failure as well. SQLite only. */
  readonly durability: DurabilitySetting;
}

const DURABILITIES = ["process", "disk"] as const;
export type DurabilitySetting = (typeof DURABILITIES)[number];

export interface SettingSources {
  flags: { host?: string | undefined; port?: string | undefined; data?: string | undefined };
  environment: Readonly<Record<string, string | undefined>>;
  /** The validated `server` section of the file. */
  file?: {
    host?: string | undefined;
    port?: number | undefined;
    public_url?: string | undefined;
    allowed_origins?: readonly string[] | undefined;
    allowed_hosts?: readonly string[] | undefined;
    large_bodies_mib?: number | undefined;
  };
}

export type SettingsResult = { ok: true; settings: Settings } | { ok: false; problems: string[] };

export const DEFAULT_DATA_DIR = "data";
const DEFAULTS = { host: "127.0.0.1", port: "8787" };

interface SettingValue {
  value: string;
  from: string;
}

/** The sources from which one setting can come. */
interface SettingPlaces {
  flag?: keyof SettingSources["flags"];
  variable: string;
  inFile?: string | number | undefined;
}

export function readSettings({ flags, environment, file = {} }: SettingSources): SettingsResult {
  const pick = ({ flag, variable, inFile }: SettingPlaces): SettingValue | null => {
    const fromFlag = flag === undefined ? undefined : flags[flag];
    if (fromFlag !== undefined) return { value: fromFlag, from: `--${flag}` };
    const fromEnvironment = environment[variable];
    // Compose files pass an empty variable for "not set".
    if (fromEnvironment !== undefined && fromEnvironment !== "")
      return { value: fromEnvironment, from: variable };
    return inFile === undefined ? null : { value: String(inFile), from: "the file's server section" };
  };
  const problems: string[] = [];
  const check = (setting: SettingValue, isValid: boolean, rule: string) => {
    // The value is not repeated: DATABASE_URL contains a password, and one rule for all settings is simpler.
    if (!isValid) problems.push(`${setting.from} must be ${rule}.`);
  };

  const host = pick({ flag: "host", variable: "HOST", inFile: file.host }) ?? byDefault(DEFAULTS.host);
  check(
    host,
    /^[A-Za-z0-9.:_-]{1,253}$/.test(host.value),
    "an address or host name to listen on, like 127.0.0.1",
  );

  const port = pick({ flag: "port", variable: "PORT", inFile: file.port }) ?? byDefault(DEFAULTS.port);
  const portNumber = /^\d{1,5}$/.test(port.value) ? Number(port.value) : -1;
  check(port, portNumber >= 0 && portNumber <= 65_535, "a port number from 0 to 65535");

  const data = pick({ flag: "data", variable: "MODEL_GATEWAY_DATA" }) ?? byDefault(DEFAULT_DATA_DIR);
  check(data, data.value !== "" && !data.value.includes("\0"), "the path of a folder");
  const dataDir = resolve(data.value);

  const publicUrl = pick({ variable: "PUBLIC_URL", inFile: file.public_url });
  if (publicUrl !== null) check(publicUrl, isHttpUrl(publicUrl.value), PUBLIC_URL_RULE);

  const database = pick({ variable: "DATABASE_URL" });
  if (database !== null) {
    check(
      database,
      /^(sqlite:.|postgres(ql)?:\/\/.)/.test(database.value),
      "postgres://user:password@host/database, or sqlite:path/to/file",
    );
  }

  const durabilitySetting = pick({ variable: "DURABILITY" }) ?? byDefault("process");
  const durability = DURABILITIES.find((known) => known === durabilitySetting.value) ?? null;
  check(durabilitySetting, durability !== null, "process or disk");

  if (problems.length > 0) return { ok: false, problems };
  return {
    ok: true,
    settings: Object.freeze({
      host: host.value,
      port: portNumber,
      publicUrl: publicUrl?.value.replace(/\/+$/, "") ?? localUrl(host.value, portNumber),
      allowedOrigins: file.allowed_origins ?? [],
      allowedHosts: file.allowed_hosts ?? [],
      largeBodiesBytes: file.large_bodies_mib === undefined ? null : file.large_bodies_mib * 2 ** 20,
      dataDir,
      databaseUrl: database?.value ?? `sqlite:${resolve(dataDir, "gateway.db")}`,
      masterKeyFile: resolve(dataDir, "master.key"),
      adminTokenFile: resolve(dataDir, "admin-token"),
      controlSocketFile: resolve(dataDir, "control.sock"),
      durability: durability ?? "process",
    }),
  };
}

function byDefault(value: string): SettingValue {
  return { value, from: "default" };
}

/** Replaces a wildcard listen address, which a browser cannot open. */
export function localUrl(host: string, port: number): string {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

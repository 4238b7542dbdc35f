/**
 * Resolves the settings of the process. A flag overrides an environment variable, which overrides the file and
 * the default.
 */

import { resolve } from "node:path";
import type { CaptureStorage } from "../../records/capture.ts";
import { limits } from "../limits/product-limits.ts";
import { isHttpUrl, PUBLIC_URL_RULE } from "../schema/basic-values.ts";
import type { FileCapture } from "../schema/capture.ts";
import {
  COORDINATOR_LOSS,
  type CoordinatorLossSetting,
  DRAIN_DELAY_RULE,
  type FileServer,
  PROCESSES_RULE,
  type ProcessesSetting,
  parseDrainDelay,
  parseProcesses,
} from "../schema/settings.ts";
import type { FileLog, FileTelemetry } from "../schema/telemetry.ts";
import { readCaptureSettings } from "./capture-settings.ts";
import {
  type AccessLogSettings,
  readAccessLogSettings,
  readTelemetrySettings,
  type TelemetrySettings,
} from "./telemetry-settings.ts";

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
  /** Memory budget for large bodies of all clients together; null for the default of `config/limits/product-limits.ts`. */
  readonly largeBodiesBytes: number | null;
  /** An absolute path. */
  readonly dataDir: string;
  /** How many processes serve the port. */
  readonly processes: ProcessesSetting;
  /** The place of this process among them; null if it is the only one. */
  readonly process: ProcessPlace | null;
  /** Holds what belongs to this process alone: its lock, its journal, its spool, its operator socket. */
  readonly nodeDir: string;
  readonly databaseUrl: string;
  /** A direct connection to PostgreSQL for notifications, if `databaseUrl` is that of a connection pooler. */
  readonly databaseListenUrl: string;
  /** Redis or Valkey, where nodes borrow limits; null: in the database. */
  readonly redisUrl: string | null;
  /** What happens to requests with limits while that server or the database does not respond. */
  readonly onCoordinatorLoss: CoordinatorLossSetting;
  readonly masterKeyFile: string;
  /** Holds the one-time administrator token until it is claimed. */
  readonly adminTokenFile: string;
  /** The socket over which the command line reaches the process that runs on this data directory. */
  readonly controlSocketFile: string;
  /** The export of traces; null if none is configured. */
  readonly telemetry: TelemetrySettings | null;
  readonly accessLog: AccessLogSettings;
  /** How captured requests are stored. */
  readonly capture: CaptureStorage;
  /** What a settled request survives: the crash of the process, a power failure, or the loss of the machine. */
  readonly durability: DurabilitySetting;
  /** At shutdown, how long requests are served after the node reports that it is not ready. */
  readonly drainDelayMs: number;
}

/** One of several processes that a supervisor runs on one port. */
interface ProcessPlace {
  /** From 1; one more than `count` while a process is replaced. */
  readonly number: number;
  readonly count: number;
}

/** Set by the supervisor for the processes that it starts, as `number/count`. */
export const PROCESS_VARIABLE = "MODEL_GATEWAY_PROCESS";
/** The folder below the data folder with one folder for each process. */
export const PROCESSES_FOLDER = "processes";

const COORDINATOR_LOSS_RULE = `one of ${COORDINATOR_LOSS.join(", ")}`;
const REDIS_URL_FORM = /^(redis|rediss|valkey|valkeys|redis\+unix):\/\/./;
const REDIS_URL_RULE = "redis://host:6379, or rediss:// for TLS";

const DURABILITIES = ["process", "disk", "store"] as const;
type DurabilitySetting = (typeof DURABILITIES)[number];

export interface SettingSources {
  flags: {
    host?: string | undefined;
    port?: string | undefined;
    data?: string | undefined;
    processes?: string | undefined;
  };
  environment: Readonly<Record<string, string | undefined>>;
  /** The validated `server` section of the file. */
  file?: FileServer;
  /** The validated `telemetry` section of the file. */
  fileTelemetry?: FileTelemetry | undefined;
  /** The validated `log` section of the file. */
  fileLog?: FileLog | undefined;
  /** The validated `capture` section of the file. */
  fileCapture?: FileCapture | undefined;
}

type SettingsResult = { ok: true; settings: Settings } | { ok: false; problems: string[] };

/**
 * The Debian package has one installation for the whole machine, so that its commands find the folder of the service
 * from everywhere.
 */
export function defaultDataDir(program: string = process.execPath): string {
  return program === "/usr/bin/model-gateway" ? "/var/lib/model-gateway" : "data";
}

const DEFAULTS = { host: "127.0.0.1", port: "8787" };

interface SettingValue {
  value: string;
  from: string;
}

/** The sources from which one setting can come. */
interface SettingNames {
  flag?: keyof SettingSources["flags"];
  variable: string;
  inFile?: string | number | undefined;
}

const DATABASE_URL_FORM = /^(sqlite:.|postgres(ql)?:\/\/.)/;
const DATABASE_URL_RULE = "postgres://user:password@host/database, or sqlite:path/to/file";
const LISTEN_URL_FORM = /^postgres(ql)?:\/\/./;
const LISTEN_URL_RULE = "postgres://user:password@host/database";

export function readSettings(sources: SettingSources): SettingsResult {
  const { flags, environment, file = {} } = sources;
  const pick = (names: SettingNames) => pickSetting(names, flags, environment);
  const problems: string[] = [];
  const check = (setting: SettingValue, isValid: boolean, rule: string) => {
    // The value is not repeated: DATABASE_URL contains a password, and one rule for all settings is simpler.
    if (!isValid) problems.push(`${setting.from} must be ${rule}.`);
  };

  const host = pick({ flag: "host", variable: "HOST", inFile: file.host }) ?? defaultSetting(DEFAULTS.host);
  check(
    host,
    /^[A-Za-z0-9.:_-]{1,253}$/.test(host.value),
    "an address or host name to listen on, like 127.0.0.1",
  );

  const port = pick({ flag: "port", variable: "PORT", inFile: file.port }) ?? defaultSetting(DEFAULTS.port);
  const portNumber = /^\d{1,5}$/.test(port.value) ? Number(port.value) : -1;
  check(port, portNumber >= 0 && portNumber <= 65_535, "a port number from 0 to 65535");

  const data = pick({ flag: "data", variable: "MODEL_GATEWAY_DATA" }) ?? defaultSetting(defaultDataDir());
  check(data, data.value !== "" && !data.value.includes("\0"), "the path of a folder");
  const dataDir = resolve(data.value);

  const publicUrl = pick({ variable: "PUBLIC_URL", inFile: file.public_url });
  if (publicUrl !== null) check(publicUrl, isHttpUrl(publicUrl.value), PUBLIC_URL_RULE);

  const database = pick({ variable: "DATABASE_URL" });
  if (database !== null) check(database, DATABASE_URL_FORM.test(database.value), DATABASE_URL_RULE);
  const listen = pick({ variable: "DATABASE_LISTEN_URL" });
  if (listen !== null) check(listen, LISTEN_URL_FORM.test(listen.value), LISTEN_URL_RULE);

  const coordination = readCoordinationSettings(pick, check, file);
  const processes = readProcessSettings(pick, check, { environment, dataDir, inFile: file.processes });
  const durabilitySetting = pick({ variable: "DURABILITY" }) ?? defaultSetting("process");
  const durability = DURABILITIES.find((known) => known === durabilitySetting.value) ?? null;
  check(durabilitySetting, durability !== null, "process, disk or store");

  const drainDelay = pick({ variable: "DRAIN_DELAY", inFile: file.drain_delay });
  const drainDelayMs = readDrainDelay(drainDelay, database);
  if (drainDelay !== null) check(drainDelay, drainDelayMs !== null, DRAIN_DELAY_RULE);
  const telemetry = readTelemetrySettings(environment, sources.fileTelemetry, problems);
  const accessLog = readAccessLogSettings(environment, sources.fileLog, problems);
  if (problems.length > 0) return { ok: false, problems };
  return {
    ok: true,
    settings: Object.freeze({
      host: host.value,
      port: portNumber,
      publicUrl: publicUrl?.value.replace(/\/+$/, "") ?? localUrl(host.value, portNumber),
      allowedOrigins: file.allowed_origins ?? [],
      allowedHosts: file.allowed_hosts ?? [],
      largeBodiesBytes: readLargeBodies(file.large_bodies_mib, processes.process),
      dataDir,
      ...processes,
      databaseUrl: database?.value ?? `sqlite:${resolve(dataDir, "gateway.db")}`,
      databaseListenUrl: listen?.value ?? database?.value ?? "",
      ...coordination,
      masterKeyFile: resolve(dataDir, "master.key"),
      adminTokenFile: resolve(dataDir, "admin-token"),
      controlSocketFile: resolve(processes.nodeDir, "control.sock"),
      telemetry,
      accessLog,
      capture: readCaptureSettings(sources.fileCapture),
      durability: durability ?? "process",
      drainDelayMs: drainDelayMs ?? 0,
    }),
  };
}

/** How nodes borrow limits. */
function readCoordinationSettings(
  pick: (names: SettingNames) => SettingValue | null,
  check: (setting: SettingValue, isValid: boolean, rule: string) => void,
  file: NonNullable<SettingSources["file"]>,
): Pick<Settings, "redisUrl" | "onCoordinatorLoss"> {
  const redis = pick({ variable: "REDIS_URL" });
  if (redis !== null) check(redis, REDIS_URL_FORM.test(redis.value), REDIS_URL_RULE);
  const loss =
    pick({ variable: "ON_COORDINATOR_LOSS", inFile: file.on_coordinator_loss }) ?? defaultSetting("share");
  const onCoordinatorLoss = COORDINATOR_LOSS.find((known) => known === loss.value) ?? null;
  check(loss, onCoordinatorLoss !== null, COORDINATOR_LOSS_RULE);
  return { redisUrl: redis?.value ?? null, onCoordinatorLoss: onCoordinatorLoss ?? "share" };
}

/** How many processes serve the port, and which of them this one is. */
function readProcessSettings(
  pick: (names: SettingNames) => SettingValue | null,
  check: (setting: SettingValue, isValid: boolean, rule: string) => void,
  {
    environment,
    dataDir,
    inFile,
  }: Pick<SettingSources, "environment"> & { dataDir: string; inFile: ProcessesSetting | undefined },
): Pick<Settings, "processes" | "process" | "nodeDir"> {
  const setting = pick({ flag: "processes", variable: "PROCESSES", inFile }) ?? defaultSetting("1");
  const processes = parseProcesses(setting.value);
  check(setting, processes !== null, PROCESSES_RULE);
  const place = readProcessPlace(environment);
  const nodeDir = place === null ? dataDir : resolve(dataDir, PROCESSES_FOLDER, String(place.number));
  return { processes: processes ?? 1, process: place, nodeDir };
}

/** Several processes divide the budget of the machine. */
function readLargeBodies(mib: number | undefined, place: ProcessPlace | null): number | null {
  if (mib === undefined) return null;
  const bytes = mib * 2 ** 20;
  return place === null ? bytes : Math.max(limits.largeBodies.bytesMin, bytes / place.count);
}

function readProcessPlace(environment: SettingSources["environment"]): ProcessPlace | null {
  const [, number, count] = /^(\d+)\/(\d+)$/.exec(environment[PROCESS_VARIABLE] ?? "") ?? [];
  return number === undefined ? null : { number: Number(number), count: Number(count) };
}

function pickSetting(
  { flag, variable, inFile }: SettingNames,
  flags: SettingSources["flags"],
  environment: SettingSources["environment"],
): SettingValue | null {
  const fromFlag = flag === undefined ? undefined : flags[flag];
  if (fromFlag !== undefined) return { value: fromFlag, from: `--${flag}` };
  const fromEnvironment = environment[variable];
  // Compose files pass an empty variable for "not set".
  if (fromEnvironment !== undefined && fromEnvironment !== "")
    return { value: fromEnvironment, from: variable };
  return inFile === undefined ? null : { value: String(inFile), from: "the file's server section" };
}

function defaultSetting(value: string): SettingValue {
  return { value, from: "default" };
}

/** A database file has one node, so there is no other one to send requests to. Null if the value breaks the rule. */
function readDrainDelay(setting: SettingValue | null, database: SettingValue | null): number | null {
  if (setting !== null) return parseDrainDelay(setting.value);
  const isFile = database === null || database.value.startsWith("sqlite:");
  return isFile ? 0 : limits.drainDelayMs;
}

/** Replaces a wildcard listen address, which a browser cannot open. */
export function localUrl(host: string, port: number): string {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

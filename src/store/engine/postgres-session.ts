/**
 * Connections to PostgreSQL, direct or through a connection pooler. A pooler in transaction mode gives each transaction
 * another connection of the server: settings, named statements and notifications of a session are lost between two.
 */

import { SQL } from "bun";

const CONNECT_TIMEOUT_S = 5;

/** Only a session has it: poolers reject the parameter or drop it. */
const SESSION_MARK = "model_gateway.session";

/** `transactions`: the address is that of a pooler, so settings last for one transaction. */
export type SettingScope = "session" | "transactions";

interface DriverOptions {
  readonly applicationName: string;
  readonly connectionsMax: number;
  readonly scope: SettingScope;
  /** Parameters of the server; set at the start of each session, and not at all with the scope `transactions`. */
  readonly settings: Readonly<Record<string, string>>;
}

/** Connects when the first statement runs. */
export function openDriver(url: string, options: DriverOptions): SQL {
  const { applicationName, connectionsMax, scope, settings } = options;
  const database = decodeURIComponent(new URL(url).pathname.slice(1));
  return new SQL({
    adapter: "postgres",
    url,
    // Set explicitly: otherwise PGDATABASE in the environment would override the URL.
    ...(database === "" ? {} : { database }),
    max: connectionsMax,
    connectionTimeout: CONNECT_TIMEOUT_S,
    // Named statements halve the round trips, but another connection of the server does not know them.
    prepare: scope === "session",
    connection: {
      application_name: applicationName,
      ...(scope === "session" ? { [SESSION_MARK]: "on", ...settings } : {}),
    },
  });
}

/** Whether a driver with the scope `session` has reached the server itself. Throws if it has reached nothing. */
export async function hasSession(driver: SQL): Promise<boolean> {
  try {
    const [row] = await driver.unsafe(`SELECT current_setting('${SESSION_MARK}', true) AS mark`);
    return row?.mark === "on";
  } catch (error) {
    if (isParameterRejected(error)) return false;
    throw error;
  }
}

/** PgBouncer reports a protocol violation, PostgreSQL an unknown object. */
function isParameterRejected(error: unknown): boolean {
  return error instanceof SQL.PostgresError && (error.errno === "08P01" || error.errno === "42704");
}

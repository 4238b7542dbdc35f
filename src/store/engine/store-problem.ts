/** Errors of PostgreSQL that an operator can resolve: the words of the server, and what to do. */

import { SQL } from "bun";

/** The message has the words of the server and what to do. It never has the address, which contains the password. */
export class StoreProblem extends Error {
  override readonly name = "StoreProblem";
  readonly problem: string;
  readonly todo: string;

  constructor(words: string, code: string, todo: string) {
    const problem = `The database cannot be used: ${words} (${code}).`;
    super(`${problem} ${todo}`);
    this.problem = problem;
    this.todo = todo;
  }
}

const UNREACHABLE =
  "Check that the database server is running, and check the host and the port of the address.";

/** By SQLSTATE, or by the code of the driver if the server has sent none. */
const ADVICE: Readonly<Record<string, string>> = {
  "08P01": "A connection pooler rejected the connection. Check its databases and users, and its log.",
  "25006": "The server is a standby, or was set to read-only. Use the address of the primary.",
  28000:
    'Allow this user, database and host in pg_hba.conf of the server. "no encryption" means that the server requires TLS: append ?sslmode=require to the address.',
  "28P01": "Check the user and the password of the address.",
  "3D000": "Create the database, or correct its name in the address.",
  42501: "Grant the right to the role of the address: `doctor` lists what it lacks.",
  42704: "Use PostgreSQL itself, or a connection pooler that is documented.",
  53100: "Free space on the disk of the database server.",
  53300: "Raise max_connections of the server, end other clients, or put a connection pooler in front of it.",
  "57P03": "The server is starting or stopping. Try again in a moment.",
  ERR_INVALID_URL:
    "The address is not a URL. In a password, write @ as %40, : as %3A, / as %2F, # as %23 and % as %25.",
  ERR_POSTGRES_CONNECTION_FAILED: UNREACHABLE,
  ERR_POSTGRES_CONNECTION_REFUSED: UNREACHABLE,
  ERR_POSTGRES_CONNECTION_TIMEOUT: UNREACHABLE,
  ERR_POSTGRES_TLS_NOT_AVAILABLE: "Enable TLS on the server, or remove sslmode from the address.",
};

/** Codes of the TLS library. */
const CERTIFICATE_CODE = /CERT|SELF_SIGNED|UNABLE_TO_/;
const CERTIFICATE_ADVICE =
  "Set NODE_EXTRA_CA_CERTS to the CA of the server, or correct its certificate. sslmode=require encrypts without checking it.";

/** Returns other errors unchanged. */
export function explainStoreError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = findCode(error);
  const todo = ADVICE[code] ?? (CERTIFICATE_CODE.test(code) ? CERTIFICATE_ADVICE : null);
  return todo === null ? error : new StoreProblem(error.message, code, todo);
}

function findCode(error: Error): string {
  const isFromServer = error instanceof SQL.PostgresError && typeof error.errno === "string";
  if (isFromServer) return String(error.errno);
  return "code" in error && typeof error.code === "string" ? error.code : "";
}

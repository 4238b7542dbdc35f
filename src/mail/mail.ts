/**
 * Sends mail through the operator's SMTP server. The dialled address is checked like those of upstreams, every step and
 * the whole mail have a deadline, what the server may send is bounded, and errors are sentences without secrets.
 */

import { Socket } from "node:net";
import type { Transporter } from "nodemailer";
import { DialError, type Dialer } from "../net/http-client/dial.ts";
import type { SmtpRecord } from "../records/settings.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { SealError, SMTP_PASSWORD_BINDING, unseal } from "../secrets/seal.ts";
import type { Db } from "../store/engine/db.ts";
import { readSmtp } from "../store/settings/sections.ts";

export interface MailMessage {
  to: string;
  subject: string;
  /** Plain text. */
  text: string;
}

export interface Mail {
  /** Resolves when the server has accepted the message; rejects with `MailRejected`. */
  send(message: MailMessage): Promise<void>;
}

/** A mail that was not sent. The message can be shown to an administrator: it contains no password and no content. */
export class MailRejected extends Error {
  override readonly name = "MailRejected";
}

interface MailOptions {
  db: Db;
  keyring: Keyring;
  dialer: Dialer;
  /** Timeout of each SMTP step. */
  timeoutMs: number;
}

/** A server that sends a little in time keeps each step waiting, so the whole mail may take this many timeouts. */
const TIMEOUTS_OF_MAIL = 4;
/** A conversation about one mail has a few KiB, and TLS sends certificates. */
const RECEIVED_BYTES_MAX = 256 * 1024;
const RESPONSE_BYTES_MAX = 16 * 1024;

/** Null if no SMTP server is configured. Called for each use, because settings change while the server runs. */
export async function openMail({ db, keyring, dialer, timeoutMs }: MailOptions): Promise<Mail | null> {
  const smtp = await readSmtp(db);
  if (smtp === null) return null;
  return {
    async send({ to, subject, text }) {
      const socket = new Socket();
      const transport = await connect(smtp, { keyring, dialer, timeoutMs, socket });
      const stopWatching = watchSocket(socket, timeoutMs * TIMEOUTS_OF_MAIL);
      try {
        await transport.sendMail({ from: smtp.from, to: { name: "", address: to }, subject, text });
      } catch (error) {
        throw new MailRejected(`${describeError(error)} (${smtp.host}, port ${smtp.port})`);
      } finally {
        stopWatching();
        transport.close();
      }
    },
  };
}

/** Ends a conversation that is too long, in time or in bytes. Returns a function that ends the watch. */
function watchSocket(socket: Socket, mailMs: number): () => void {
  let receivedBytes = 0;
  socket.on("data", ({ length }) => {
    receivedBytes += length;
    if (receivedBytes > RECEIVED_BYTES_MAX) socket.destroy();
  });
  const timer = setTimeout(() => socket.destroy(), mailMs);
  return () => clearTimeout(timer);
}

interface Connecting extends Pick<MailOptions, "keyring" | "dialer" | "timeoutMs"> {
  /** Not connected yet. */
  readonly socket: Socket;
}

async function connect(
  smtp: SmtpRecord,
  { keyring, dialer, timeoutMs, socket }: Connecting,
): Promise<Transporter> {
  const { host, port, security, user } = smtp;
  // Imported with the first mail: most processes never send one, and every process should start quickly.
  const { createTransport } = await import("nodemailer");
  return createTransport({
    host: await resolveAddress(smtp, dialer),
    port,
    socket,
    maxResponseSize: RESPONSE_BYTES_MAX,
    // The certificate is issued for the host name, not for the address.
    servername: host,
    secure: security === "tls",
    requireTLS: security === "starttls",
    ignoreTLS: security === "none",
    ...(user === null ? {} : { auth: { user, pass: unsealPassword(smtp, keyring) } }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Returns the checked address itself: a second lookup could return a different one. */
async function resolveAddress({ host, port, privateNetwork }: SmtpRecord, dialer: Dialer): Promise<string> {
  const urlHost = host.includes(":") ? `[${host}]` : host;
  try {
    const { origin } = await dialer.resolve(`https://${urlHost}:${port}`, { privateNetwork });
    return new URL(origin).hostname.replace(/^\[(.*)\]$/, "$1");
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    throw new MailRejected(
      error.reason === "forbidden_address"
        ? `The mail server ${host} is in a private network. To allow it, set smtp.private_network in the configuration file.`
        : `The host name of the mail server, ${host}, could not be resolved. Check the name.`,
    );
  }
}

function unsealPassword({ sealedPassword }: SmtpRecord, keyring: Keyring): string {
  try {
    return sealedPassword === null ? "" : unseal(keyring, SMTP_PASSWORD_BINDING, sealedPassword);
  } catch (error) {
    throw error instanceof SealError
      ? new MailRejected("The stored password of the mail server cannot be decrypted. Enter it again.")
      : error;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ETIMEDOUT: "The mail server did not respond in time.",
  ECONNECTION: "The mail server closed the connection.",
  ESOCKET: "The mail server could not be reached.",
  ETLS: "The TLS connection to the mail server failed. Check `security`, the port and the certificate.",
  EAUTH: "The mail server rejected the user name or the password.",
  ENOAUTH: "The mail server requires a login, and no user is set.",
  EPROTOCOL: "The server does not speak SMTP.",
};

/** The server's own text helps if it rejects a sender, a recipient or a message. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return "The mail could not be sent.";
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const reason = REASONS[code];
  if (reason !== undefined) return isTlsFault(error) ? (REASONS.ETLS ?? reason) : reason;
  const response = "response" in error && typeof error.response === "string" ? error.response : null;
  if (response === null) return "The mail could not be sent.";
  return `The mail server rejected the mail: ${response.replace(/[\p{C}\s]+/gu, " ").slice(0, 200)}`;
}

/** The library reports an untrusted certificate as a socket error. */
function isTlsFault({ message }: Error): boolean {
  return /certificate|self.signed|altname|TLS|SSL|wrong version/i.test(message);
}

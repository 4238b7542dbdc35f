/** A mail server on a loopback port that keeps received mails. It supports as much SMTP as a client needs. */

import { createServer, type Socket } from "node:net";
import { eventually } from "./eventually.ts";

export interface ReceivedMail {
  from: string;
  to: string[];
  /** Headers and body as received. */
  raw: string;
  /** The credentials of the client, if it signed in. */
  user: string | null;
}

export interface SmtpServer {
  port: number;
  mails: readonly ReceivedMail[];
  /** The text of a mail to an address, decoded: the first, or the one after `skipped` others. */
  textTo(address: string, skipped?: number): Promise<string>;
  stop(): Promise<void>;
}

export interface SmtpBehaviour {
  /** Only this name and password may sign in; null accepts mail without a sign-in. */
  login?: { user: string; password: string };
  /** The response to every recipient, instead of acceptance. */
  rejectRecipients?: string;
  /** Accepts connections and sends nothing. */
  silent?: boolean;
  /** Serves connections instead of an ordinary session. */
  serve?: (socket: Socket) => void;
}

export async function startSmtpServer(behaviour: SmtpBehaviour = {}): Promise<SmtpServer> {
  const mails: ReceivedMail[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    if (behaviour.serve !== undefined) behaviour.serve(socket);
    else if (!behaviour.silent) serveSession(socket, behaviour, mails);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    port: address.port,
    mails,
    async textTo(to, skipped = 0) {
      const mail = await eventually(() => mails.filter((one) => one.to.includes(to))[skipped]);
      return decodeMail(mail.raw);
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function serveSession(
  socket: Socket,
  { login, rejectRecipients }: SmtpBehaviour,
  mails: ReceivedMail[],
): void {
  let buffer = "";
  let data: string[] | null = null;
  let user: string | null = null;
  let mail = { from: "", to: [] as string[] };
  const say = (line: string) => socket.write(`${line}\r\n`);
  say("220 test ESMTP");
  socket.on("data", (chunk) => {
    buffer += chunk.toString("latin1");
    for (let end = buffer.indexOf("\r\n"); end !== -1; end = buffer.indexOf("\r\n")) {
      const line = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      if (data === null) command(line);
      else if (line === ".") {
        mails.push({ ...mail, raw: data.join("\r\n"), user });
        data = null;
        say("250 taken");
      } else data.push(line.startsWith(".") ? line.slice(1) : line);
    }
  });

  function command(line: string): void {
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === "EHLO") {
      if (login !== undefined) say("250-test\r\n250 AUTH PLAIN");
      else say("250 test");
    } else if (verb === "AUTH") {
      const [, name = "", password = ""] = Buffer.from(line.split(" ")[2] ?? "", "base64")
        .toString()
        .split("\0");
      if (name === login?.user && password === login.password) {
        user = name;
        say("235 welcome");
      } else say(`535 no such user with the password ${password}`);
    } else if (verb === "MAIL") {
      if (login !== undefined && user === null) return void say("530 sign in first");
      mail = { from: /<(.*?)>/.exec(line)?.[1] ?? "", to: [] };
      say("250 ok");
    } else if (verb === "RCPT") {
      if (rejectRecipients !== undefined) return void say(rejectRecipients);
      mail.to.push(/<(.*?)>/.exec(line)?.[1] ?? "");
      say("250 ok");
    } else if (verb === "DATA") {
      data = [];
      say("354 go on");
    } else if (verb === "QUIT") socket.end("221 bye\r\n");
    else say("250 ok");
  }
}

/** The body of a plain mail, decoded. */
function decodeMail(raw: string): string {
  const at = raw.indexOf("\r\n\r\n");
  const head = raw.slice(0, at);
  const body = raw.slice(at + 4);
  if (/content-transfer-encoding: base64/i.test(head)) return Buffer.from(body, "base64").toString("utf8");
  if (!/content-transfer-encoding: quoted-printable/i.test(head)) return body;
  const bytes = body
    .replace(/=\r\n/g, "")
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}

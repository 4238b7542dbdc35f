import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { measureSlowdown } from "../../test/support/machine-speed.ts";
import { type SmtpServer, startSmtpServer } from "../../test/support/smtp-server.ts";
import { systemClock } from "../base/clock.ts";
import { Dialer } from "../net/http-client/dial.ts";
import type { SmtpRecord } from "../records/settings.ts";
import { SMTP_PASSWORD_BINDING, seal } from "../secrets/seal.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { writeSmtp } from "../store/settings/sections.ts";
import { MailRejected, openMail } from "./mail.ts";

const key = randomBytes(32);
const keyring = { activeKid: "k1", get: (kid: string) => (kid === "k1" ? key : null) };
const dialer = new Dialer({ clock: systemClock, lookupTimeoutMs: 2_000, cacheMs: 30_000 });
const MESSAGE = { to: "ada@example.com", subject: "Grüße", text: "A line.\n.\nÄnother line." };

let db: Db;
let server: SmtpServer | null = null;
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(async () => {
  await server?.stop();
  server = null;
  await db.close();
});

async function mailBy(change: Partial<SmtpRecord> & { port: number }) {
  await writeSmtp(db, {
    host: "127.0.0.1",
    security: "none",
    user: null,
    sealedPassword: null,
    from: "Gateway <gateway@example.com>",
    privateNetwork: true,
    ...change,
  });
  const mail = await openMail({ db, keyring, dialer, timeoutMs: 500 });
  if (mail === null) throw new Error("mail is configured");
  return mail;
}

async function rejection(sending: Promise<void>): Promise<string> {
  const error = await sending.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(MailRejected);
  return error instanceof Error ? error.message : "";
}

const sealed = (password: string) => seal(keyring, SMTP_PASSWORD_BINDING, password);

describe("mail", () => {
  test("is null until SMTP is configured", async () => {
    expect(await openMail({ db, keyring, dialer, timeoutMs: 500 })).toBeNull();
  });

  test("arrives with sender, recipient and text, after authentication", async () => {
    server = await startSmtpServer({ login: { user: "gw", password: "s3cret-pass" } });
    const mail = await mailBy({ port: server.port, user: "gw", sealedPassword: sealed("s3cret-pass") });
    await mail.send(MESSAGE);
    expect(server.mails[0]).toMatchObject({
      from: "gateway@example.com",
      to: ["ada@example.com"],
      user: "gw",
    });
    expect(await server.textTo("ada@example.com")).toBe("A line.\r\n.\r\nÄnother line.");
  });

  test("goes to one recipient, even if the address contains others", async () => {
    server = await startSmtpServer();
    const mail = await mailBy({ port: server.port });
    await mail.send({ ...MESSAGE, to: "ada@example.com, eve@example.com" }).catch(() => {});
    await mail
      .send({
        ...MESSAGE,
        to: "ada@example.com\r\nBcc: eve@example.com",
        subject: "a\r\nBcc: eve@example.com",
      })
      .catch(() => {});
    expect(server.mails.flatMap(({ to }) => to)).not.toContain("eve@example.com");
    expect(server.mails.filter(({ raw }) => /^bcc:/im.test(raw))).toEqual([]);
  });

  test("reports a rejected password without showing it", async () => {
    server = await startSmtpServer({ login: { user: "gw", password: "right" } });
    const mail = await mailBy({ port: server.port, user: "gw", sealedPassword: sealed("wr0ng-canary") });
    const message = await rejection(mail.send(MESSAGE));
    expect(message).toContain("The mail server rejected the user name or the password.");
    expect(message).not.toContain("canary");
  });

  test("reports why a recipient was rejected", async () => {
    server = await startSmtpServer({ rejectRecipients: "550 no such mailbox here" });
    const mail = await mailBy({ port: server.port });
    expect(await rejection(mail.send(MESSAGE))).toContain("550 no such mailbox here");
  });

  test("times out on a silent server", async () => {
    server = await startSmtpServer({ silent: true });
    const mail = await mailBy({ port: server.port });
    expect(await rejection(mail.send(MESSAGE))).toContain("did not respond in time");
  });

  test("has a deadline as a whole: a server that sends a little in time does not keep it waiting", async () => {
    const drips: Timer[] = [];
    server = await startSmtpServer({
      serve: (socket) => {
        socket.write("220 test\r\n");
        socket.once("data", () => drips.push(setInterval(() => socket.write("250-more\r\n"), 50)));
      },
    });
    const mail = await mailBy({ port: server.port });
    expect(await rejection(mail.send(MESSAGE))).toContain("closed the connection");
    for (const drip of drips) clearInterval(drip);
  });

  test("ends with a server that sends without end, at little cost", async () => {
    for (const repeated of ["\r\n", "220-more\r\n", "220 more\r\n", "2"]) {
      server = await startSmtpServer({
        serve: (socket) => {
          const send = () => {
            while (!socket.destroyed && socket.write(repeated.repeat(10_000)));
          };
          socket.on("drain", send);
          send();
        },
      });
      const mail = await mailBy({ port: server.port });
      const allowedMs = 200 * measureSlowdown();
      const before = process.threadCpuUsage();
      // A flood of replies may look like acceptance.
      await mail.send(MESSAGE).catch(() => {});
      const { user, system } = process.threadCpuUsage(before);
      expect((user + system) / 1_000).toBeLessThan(allowedMs);
      await server.stop();
    }
  });

  test("reports an unreachable server", async () => {
    server = await startSmtpServer();
    const { port } = server;
    await server.stop();
    server = null;
    expect(await rejection((await mailBy({ port })).send(MESSAGE))).toContain("could not be reached");
  });

  test("sends nothing in plain text if STARTTLS is required and not offered", async () => {
    server = await startSmtpServer({ login: { user: "gw", password: "right" } });
    const mail = await mailBy({
      port: server.port,
      security: "starttls",
      user: "gw",
      sealedPassword: sealed("right"),
    });
    await rejection(mail.send(MESSAGE));
    expect(server.mails).toEqual([]);
  });

  test("does not connect to a private address unless the file allows it", async () => {
    server = await startSmtpServer();
    const mail = await mailBy({ port: server.port, privateNetwork: false });
    expect(await rejection(mail.send(MESSAGE))).toContain("smtp.private_network");
    expect(server.mails).toEqual([]);
  });
});

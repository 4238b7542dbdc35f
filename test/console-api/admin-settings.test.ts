import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readRegistration } from "../../src/store/settings/registration.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { SIMULATOR } from "../support/paid-gateway.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";
import { startWebhookListener, type WebhookListener } from "../support/webhook-listener.ts";

let gateway: RunningGateway;
let admin: SignedInClient;
let mailServer: SmtpServer;
let listener: WebhookListener;
beforeAll(async () => {
  mailServer = await startSmtpServer({ login: { user: "gw", password: "smtp-canary-1" } });
  listener = startWebhookListener();
  gateway = await startTestGateway();
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(async () => {
  await gateway.stop();
  await listener.stop();
  await mailServer.stop();
});

const HELLO = [{ role: "user", content: "hello" }];
const SMTP = { host: "smtp.example.com", port: 587, user: "gw", from: "Gateway <gw@example.com>" };

/** Only the file can allow private networks, and all test servers are on loopback. */
const writeFile = (more: object) => JSON.stringify(more);

describe("settings", () => {
  test("start with closed registration, no mail server, and alert rules without recipients", async () => {
    expect(await admin.call("admin.settings.get")).toMatchObject({
      registration: "closed",
      retention: { usage_rows: "forever", responses: "30d" },
      smtp: null,
      alerts: { webhooks: [], account_parked: { enabled: true }, spend: { enabled: false } },
    });
  });

  test("name the alert rules with the thresholds that the settings have", async () => {
    const { data } = await admin.call("admin.alert_rules.list");
    const { webhooks: _, ...rules } = (await admin.call("admin.settings.get")).alerts;
    const defaults = data.map(({ rule, thresholds }) => [
      rule,
      Object.fromEntries(thresholds.map(({ name, default: byDefault }) => [name, byDefault])),
    ]);
    const current = Object.entries(rules).map(([rule, { enabled: __, ...thresholds } = {}]) => [
      rule,
      thresholds,
    ]);
    expect(current).toEqual(defaults);
    expect(data.at(-1)?.thresholds).toContainEqual({
      kind: "duration",
      name: "over",
      default: "1h",
      min: "1m",
      max: "1h",
    });
  });

  test("are changed section by section and recorded in the audit log", async () => {
    await admin.call("admin.settings.save", { body: { registration: "open" } });
    await admin.call("admin.settings.save", { body: { retention: { usage_rows: "90d" } } });
    const { registration, retention } = await admin.call("admin.settings.get");
    expect([registration, retention]).toEqual(["open", { usage_rows: "90d", responses: "30d" }]);
    await admin.call("admin.settings.save", { body: { retention: { responses: "none" } } });
    expect((await admin.call("admin.settings.get")).retention).toEqual({
      usage_rows: "90d",
      responses: "none",
    });
    expect(await readRegistration(gateway.installation.db)).toBe("open");
    const { data } = await admin.call("admin.audit.list", { query: { action: "registration." } });
    expect(data[0]).toMatchObject({
      actor: "root@example.com",
      action: "registration.change",
      changes: [{ field: "registration", from: "closed", to: "open" }],
    });
    // Settings that a file omits are unchanged.
    await gateway.apply("models: []");
    expect(await readRegistration(gateway.installation.db)).toBe("open");
    await gateway.apply("registration: closed");
    expect((await admin.call("admin.settings.get")).registration).toBe("closed");
  });

  test("never return the mail password, and keep it if it is omitted", async () => {
    const saved = await admin.call("admin.settings.save", {
      body: { smtp: { ...SMTP, password: "smtp-canary-0" } },
    });
    expect(saved.smtp).toMatchObject({ host: "smtp.example.com", security: "starttls", has_password: true });
    const again = await admin.call("admin.settings.save", { body: { smtp: { ...SMTP, port: 2525 } } });
    expect(again.smtp).toMatchObject({ port: 2525, has_password: true });
    const { data } = await admin.call("admin.audit.list", { query: { action: "smtp." } });
    expect(JSON.stringify([saved, again, data])).not.toContain("canary");
    expect(data[1]?.changes).toContainEqual({ field: "password", from: null, to: "(set, not shown)" });
    const gone = await admin.call("admin.settings.save", { body: { smtp: { enabled: false } } });
    expect(gone.smtp).toBeNull();
  });

  test("do not send a stored password to another server", async () => {
    await admin.call("admin.settings.save", { body: { smtp: { ...SMTP, password: "smtp-canary-0" } } });
    const smtp = { ...SMTP, host: "smtp.evil.example" };
    expect(await admin.callRejected("admin.settings.save", { body: { smtp } })).toMatchObject({
      status: 400,
      param: "password",
      message: expect.stringContaining("must be entered again"),
    });
    await admin.call("admin.settings.save", { body: { smtp: { enabled: false } } });
  });

  test.each([
    [{ smtp: { host: "bad host", from: "a@b.c" } }, "host"],
    [{ smtp: { host: "smtp.example.com" } }, "from"],
    [{ smtp: { ...SMTP, from: "a@b.c\r\nBcc: x@y.z" } }, "from"],
    [{ smtp: { ...SMTP, security: "none", password: "x" } }, "security"],
    [{ smtp: { ...SMTP, password: "x", private_network: true } }, "private_network"],
    [{ alerts: { webhooks: [{ name: "a", url: "ftp://x" }] } }, "webhooks[0].url"],
    [
      { alerts: { webhooks: [{ name: "a", url: "https://a.example", secret: "short" }] } },
      "webhooks[0].secret",
    ],
    [
      { alerts: { webhooks: [{ name: "a", url: "https://a.example", private_network: true }] } },
      "webhooks[0].private_network",
    ],
    [
      {
        alerts: {
          webhooks: [],
          error_rate: { enabled: true, percent: 0, over: "5m", min_requests: 1 },
        },
      },
      "error_rate.percent",
    ],
    [{ usage_export: { enabled: true, webhooks: [{ name: "a", url: "ftp://x" }] } }, "webhooks[0].url"],
    [
      {
        usage_export: {
          enabled: true,
          webhooks: [{ name: "a", url: "https://a.example", private_network: true }],
        },
      },
      "webhooks[0].private_network",
    ],
    [{ retention: { usage_rows: "1d" } }, "usage_rows"],
    [{ retention: { responses: "1m" } }, "responses"],
  ])("reject %j at %p", async (body, param) => {
    expect(await admin.callRejected("admin.settings.save", { body })).toMatchObject({ status: 400, param });
  });
});

describe("mail", () => {
  test("is tested with a real server, and its errors are reported", async () => {
    expect(
      await admin.callRejected("admin.settings.test_mail", { body: { to: "ada@example.com" } }),
    ).toMatchObject({
      status: 409,
    });
    const smtp = {
      host: "127.0.0.1",
      port: mailServer.port,
      security: "none",
      user: "gw",
      password: "smtp-canary-wrong",
      from: "gw@example.com",
      private_network: true,
    };
    await gateway.apply(writeFile({ smtp }));
    const wrong = await admin.call("admin.settings.test_mail", { body: { to: "ada@example.com" } });
    expect(wrong.ok).toBe(false);
    expect(wrong.message).toStartWith("The mail server rejected the user name or the password.");
    expect(wrong.message).not.toContain("canary");
    await gateway.apply(writeFile({ smtp: { ...smtp, password: "smtp-canary-1" } }));
    expect(await admin.call("admin.settings.test_mail", { body: { to: "ada@example.com" } })).toMatchObject({
      ok: true,
    });
    expect(await mailServer.textTo("ada@example.com")).toContain("The mail settings work");
    // What the file allowed stays allowed while the address is unchanged.
    const { has_password: _, ...kept } = (await admin.call("admin.settings.get")).smtp ?? {
      has_password: true,
    };
    const saved = await admin.call("admin.settings.save", {
      body: { smtp: { ...kept, from: "b@example.com" } },
    });
    expect(saved.smtp).toMatchObject({ from: "b@example.com", private_network: true, has_password: true });
    expect(gateway.log.join("")).not.toContain("canary");
  });
});

describe("alerts", () => {
  test("are sent to a webhook when an account is parked, and again when its credential is replaced", async () => {
    const webhooks = [{ name: "ops", url: listener.url, secret: "0123456789abcdef0", private_network: true }];
    await gateway.apply(writeFile({ alerts: { webhooks } }));
    expect(await admin.call("admin.settings.test_alert", { body: { webhook: "ops" } })).toEqual({
      ok: true,
      message: "HTTP 200",
    });
    await gateway.apply(
      writeFile({
        models: [{ id: "locked", interfaces: ["chat"] }],
        accounts: [
          {
            name: "locked",
            kind: "openai",
            base_url: SIMULATOR,
            credential: "first",
            private_network: true,
            models: { locked: "fault/401" },
          },
        ],
        groups: [{ name: "default", models: ["fast-chat", "locked"], accounts: ["sim", "locked"] }],
      }),
    );
    const ask = () => gateway.call("/v1/chat/completions", { model: "locked", messages: HELLO });
    await eventually(async () => (await ask()).status !== 404);
    const firing = await listener.next("alert.firing");
    expect(firing.body.text).toContain("Account locked is parked");
    expect(firing.headers.get("x-gateway-signature")).toStartWith("t=");
    const { data } = await admin.call("admin.alerts.list");
    expect(data[0]).toMatchObject({ rule: "account_parked", ended_at: null });
    await eventually(async () => {
      const [alert] = (await admin.call("admin.alerts.list")).data;
      return alert?.deliveries[0]?.state === "delivered";
    });
    await gateway.apply(
      writeFile({
        accounts: [
          {
            name: "locked",
            kind: "openai",
            base_url: SIMULATOR,
            credential: "second",
            private_network: true,
          },
        ],
      }),
    );
    expect((await listener.next("alert.resolved")).body.text).toStartWith("Resolved: Account locked");
    expect(JSON.stringify(listener.posts)).not.toContain("first");
  });

  test("do not reveal their secret to administrators", async () => {
    const { alerts } = await admin.call("admin.settings.get");
    expect(alerts.webhooks).toMatchObject([{ name: "ops", has_secret: true }]);
    expect(JSON.stringify(alerts)).not.toContain("0123456789abcdef0");
  });
});

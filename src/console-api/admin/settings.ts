/** Routes for settings: registration, retention, mail, alerts and usage export. Passwords and secrets are write-only. */

import { z } from "zod";
import { retentionTexts } from "../../config/plan/retention.ts";
import { ALERT_RULES_SHAPE, SMTP_SHAPE } from "../../config/state/file-shape.ts";
import { ApiError } from "../../errors.ts";
import { MailRejected } from "../../mail/mail.ts";
import { ALERT_RULES } from "../../records/alert-rules.ts";
import { REGISTRATIONS, SMTP_SECURITY } from "../../records/settings.ts";
import { ALERT_EVENTS, DELIVERY_STATES, type ListedAlert, listAlerts } from "../../store/alerts/alerts.ts";
import type { Db } from "../../store/engine/db.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { readAlertSettings, readSmtp } from "../../store/settings/sections.ts";
import { readUsageExport } from "../../store/settings/usage-export-settings.ts";
import { readUsageRowsKept } from "../../store/usage/usage-removal.ts";
import { testEmail } from "../auth/email-templates.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { changePolicy } from "../changes/change.ts";
import { emailField } from "../forms/fields.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
import { alertRuleRoutes, ruleSettings } from "./alert-rules.ts";
import {
  testResponse,
  webhookObjects,
  webhooksChange,
  webhooksResponse,
  webhookTestRoutes,
} from "./webhooks.ts";

/** In the shape of gateway.yaml. The schema of the file validates the values. */
const smtpFields = {
  host: z.string().optional(),
  port: z.number().optional(),
  security: z.enum(SMTP_SECURITY).optional(),
  user: z.string().optional(),
  from: z.string().optional(),
  /** Kept as long as host and port stay the same. Only the configuration file can enable it. */
  private_network: z.boolean().optional(),
};

const settingsResponse = z.object({
  registration: z.enum(REGISTRATIONS),
  /** A duration, or `forever`; for responses a duration, or `none`. */
  retention: z.object({ usage_rows: z.string(), responses: z.string() }),
  /** Null: no mail is sent. */
  smtp: z.object({ ...smtpFields, has_password: z.boolean() }).nullable(),
  alerts: z.object({ webhooks: webhooksResponse, ...ruleSettings }),
  usage_export: z.object({ enabled: z.boolean(), webhooks: webhooksResponse }),
});

/** Each section in the body replaces the stored one. Omitted secrets are kept. */
const settingsChange = z.strictObject({
  registration: z.enum(REGISTRATIONS).optional(),
  retention: z
    .strictObject({ usage_rows: z.string().optional(), responses: z.string().optional() })
    .optional(),
  /** `enabled: false` deletes the mail settings. */
  smtp: z
    .strictObject({ ...smtpFields, enabled: z.boolean().optional(), password: z.string().optional() })
    .optional(),
  alerts: z.strictObject({ webhooks: webhooksChange, ...ruleSettings }).optional(),
  usage_export: z.strictObject({ enabled: z.boolean(), webhooks: webhooksChange }).optional(),
});

const alertResponse = z.object({
  id: z.string(),
  rule: z.enum(ALERT_RULES),
  message: z.string(),
  /** The process that detected it; null if the condition is the same for all processes. */
  node: z.string().nullable(),
  started_at: z.number(),
  /** Null while the alert is open. */
  ended_at: z.number().nullable(),
  deliveries: z.array(
    z.object({
      id: z.string(),
      event: z.enum(ALERT_EVENTS),
      webhook: z.string(),
      state: z.enum(DELIVERY_STATES),
      attempts: z.number(),
      /** The result of the last attempt. */
      response: z.string().nullable(),
      /** When the next attempt is made; null after the last one. */
      due_at: z.number().nullable(),
    }),
  ),
});

export const adminSettingsRoutes = {
  "admin.settings.get": forAdmins({
    method: "GET",
    path: "/api/admin/settings",
    summary: "Get the settings, in the format of gateway.yaml, without secrets",
    response: settingsResponse,
    run: ({ installation }) => settingsObject(installation.db),
  }),

  "admin.settings.save": forAdmins({
    method: "PATCH",
    path: "/api/admin/settings",
    summary: "Update the settings; each section that is sent is replaced as a whole",
    body: settingsChange,
    tokenScope: "none",
    response: settingsResponse,
    async run(context, input) {
      await changePolicy(context, input, input.body);
      await context.alerts.check();
      if (input.body.usage_export !== undefined) void context.usageExport.check();
      return settingsObject(context.installation.db);
    },
  }),

  "admin.settings.test_mail": forAdmins({
    method: "POST",
    path: "/api/admin/settings/test-mail",
    summary: "Send a test mail with the saved settings, and return the result",
    body: z.strictObject({ to: emailField }),
    response: testResponse,
    async run(context, input) {
      const { db, clock } = context.installation;
      const mail = await context.mail();
      if (mail === null)
        throw new ApiError(
          "conflict",
          "No mail server is configured. Save the mail settings first, then send a test.",
        );
      const { to } = input.body;
      const rejection = await mail.send(testEmail(to, context.publicUrl)).then(() => null, rejectionText);
      const change = { field: "result", from: null, to: rejection ?? "sent" };
      await recordChange(db, input, {
        atMs: clock.nowMs(),
        action: "smtp.test",
        target: `mail ${to}`,
        changes: [change],
      });
      return rejection === null
        ? { ok: true, message: `The mail server accepted the mail to ${to}.` }
        : { ok: false, message: rejection };
    },
  }),

  ...webhookTestRoutes,
  ...alertRuleRoutes,

  "admin.alerts.list": forAdmins({
    method: "GET",
    path: "/api/admin/alerts",
    summary: "List alerts, newest first, with their delivery status",
    query: z.strictObject(pageQuery),
    response: buildPage(alertResponse),
    async run({ installation }, { query }) {
      const cursor = readCursor(query.after, z.tuple([z.number(), z.string()]));
      const { alerts, next } = await listAlerts(installation.db, {
        after: cursor === null ? null : { startedAtMs: cursor[0], id: cursor[1] },
        limit: query.limit,
      });
      return {
        data: alerts.map(alertObject),
        next: next === null ? null : cursorText([next.startedAtMs, next.id]),
      };
    },
  }),
};

async function settingsObject(db: Db): Promise<z.input<typeof settingsResponse>> {
  const usageRowsKeptMs = await readUsageRowsKept(db);
  const responsesKeptMs = await readResponsesKept(db);
  const smtp = await readSmtp(db);
  const alerts = await readAlertSettings(db);
  const usageExport = await readUsageExport(db);
  return {
    registration: await readRegistration(db),
    retention: retentionTexts({ usageRowsKeptMs, responsesKeptMs }),
    smtp: smtp === null ? null : { ...SMTP_SHAPE.write(smtp), has_password: smtp.sealedPassword !== null },
    alerts: { webhooks: webhookObjects(alerts.webhooks), ...ALERT_RULES_SHAPE.write(alerts) },
    usage_export: { enabled: usageExport.enabled, webhooks: webhookObjects(usageExport.webhooks) },
  };
}

function rejectionText(error: unknown): string {
  if (error instanceof MailRejected) return error.message;
  throw error;
}

function alertObject(alert: ListedAlert): z.input<typeof alertResponse> {
  return {
    id: alert.id,
    rule: alert.rule,
    message: alert.message,
    node: alert.node === "" ? null : alert.node,
    started_at: alert.startedAtMs,
    ended_at: alert.endedAtMs,
    deliveries: alert.deliveries.map((delivery) => ({
      id: delivery.id,
      event: delivery.event,
      webhook: delivery.webhook,
      state: delivery.state,
      attempts: delivery.attempts,
      response: delivery.response,
      due_at: delivery.endedAtMs === null ? delivery.dueAtMs : null,
    })),
  };
}

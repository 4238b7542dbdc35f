/** Routes for settings: registration, retention, mail, alerts and usage export. Passwords and secrets are write-only. */

import { z } from "zod";
import { alertsToFile, smtpToFile } from "../../config/plan/plan-settings.ts";
import { retentionTexts } from "../../config/plan/retention.ts";
import { ApiError } from "../../errors.ts";
import { MailRejected } from "../../mail/mail.ts";
import {
  ALERT_EVENTS,
  ALERT_RULES,
  DELIVERY_STATES,
  type ListedAlert,
  listAlerts,
} from "../../store/alerts/alerts.ts";
import type { Db } from "../../store/engine/db.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import { readAlertSettings } from "../../store/settings/alert-settings.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { REGISTRATIONS, SMTP_SECURITY } from "../../store/settings/settings-records.ts";
import { readSmtp } from "../../store/settings/smtp.ts";
import { readUsageExport } from "../../store/settings/usage-export-settings.ts";
import { readUsageRowsKept } from "../../store/usage/usage-removal.ts";
import { testEmail } from "../auth/email-templates.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { changePolicy } from "../changes/change.ts";
import { emailField } from "../forms/fields.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
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

const rate = z.strictObject({
  enabled: z.boolean(),
  percent: z.number(),
  over: z.string(),
  min_requests: z.number(),
});

const ruleFields = {
  account_parked: z.strictObject({ enabled: z.boolean() }).optional(),
  pool_empty: z.strictObject({ enabled: z.boolean(), for: z.string() }).optional(),
  spend: z.strictObject({ enabled: z.boolean(), usd_per_day: z.string() }).optional(),
  error_rate: rate.optional(),
  fallback_rate: rate.optional(),
  overruns: z.strictObject({ enabled: z.boolean(), count: z.number(), over: z.string() }).optional(),
};

const settingsResponse = z.object({
  registration: z.enum(REGISTRATIONS),
  /** A duration, or `forever`; for responses a duration, or `none`. */
  retention: z.object({ usage_rows: z.string(), responses: z.string() }),
  /** Null: no mail is sent. */
  smtp: z.object({ ...smtpFields, has_password: z.boolean() }).nullable(),
  alerts: z.object({
    webhooks: webhooksResponse,
    ...ruleFields,
  }),
  usage_export: z.object({
    enabled: z.boolean(),
    webhooks: webhooksResponse,
  }),
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
  alerts: z
    .strictObject({
      webhooks: webhooksChange,
      ...ruleFields,
    })
    .optional(),
  usage_export: z
    .strictObject({
      enabled: z.boolean(),
      webhooks: webhooksChange,
    })
    .optional(),
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
  const { webhooks: _, ...rules } = alertsToFile(alerts);
  const usageExport = await readUsageExport(db);
  return {
    registration: await readRegistration(db),
    retention: retentionTexts({ usageRowsKeptMs, responsesKeptMs }),
    smtp: smtp === null ? null : { ...smtpToFile(smtp), has_password: smtp.sealedPassword !== null },
    alerts: {
      webhooks: webhookObjects(alerts.webhooks),
      ...rules,
    },
    usage_export: {
      enabled: usageExport.enabled,
      webhooks: webhookObjects(usageExport.webhooks),
    },
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

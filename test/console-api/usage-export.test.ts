import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { createTokenClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { startUsageReceiver, type UsageReceiver } from "../support/usage-receiver.ts";

let gateway: RunningGateway;
let admin: SignedInClient;
let receiver: UsageReceiver;

beforeAll(async () => {
  receiver = startUsageReceiver();
  gateway = await startTestGateway();
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(async () => {
  await gateway.stop();
  await receiver.stop();
});

const HELLO = { model: "fast-chat", messages: [{ role: "user", content: "hello" }] };

/** Sends a request through the gateway and returns its id. */
async function sendRequest(): Promise<string> {
  const response = await gateway.call("/v1/chat/completions", HELLO);
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

const records = (text: string) =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Record<string, unknown> => JSON.parse(line));

describe("pull", () => {
  test("is rejected while the export is disabled", async () => {
    expect(await admin.callRejected("admin.usage_export.records")).toMatchObject({
      status: 409,
      message: expect.stringContaining("disabled"),
    });
    expect(await admin.call("admin.usage_export.get")).toEqual({ feed: null, webhooks: [] });
  });

  test("returns the requests since it was enabled, page by page, with a token that may do nothing else", async () => {
    const before = await sendRequest();
    // Unpaid rows are written in batches, a moment later.
    await gateway.usageRows();
    await admin.call("admin.settings.save", { body: { usage_export: { enabled: true, webhooks: [] } } });
    const ids = [await sendRequest(), await sendRequest(), await sendRequest()];
    const program = await createTokenClient(gateway, "root@example.com", "export", "admin");
    const query: Record<string, string | number> = { limit: 2 };
    const pages: Record<string, unknown>[][] = [];
    let hasMore = true;
    while (hasMore) {
      const response = await program.send("admin.usage_export.records", { query });
      const { headers } = response;
      const text = await response.text();
      expect(headers.get("content-type")).toBe("application/x-ndjson");
      if (query.after !== undefined) expect(headers.get("x-gateway-cursor-before")).toBe(String(query.after));
      const [, seconds, mac] = /^t=(\d+),v1=(\w+)$/.exec(headers.get("x-gateway-signature") ?? "") ?? [];
      expect(mac).toBe(createHmac("sha256", program.secret).update(`${seconds}.${text}`).digest("hex"));
      pages.push(records(text));
      query.after = headers.get("x-gateway-cursor") ?? "";
      hasMore = headers.get("x-gateway-has-more") === "true";
    }
    const all = pages.flat();
    expect(all.map(({ request_id }) => request_id)).toEqual(ids);
    expect(ids).not.toContain(before);
    expect(all[0]).toMatchObject({
      endpoint: "chat.completions",
      model: "fast-chat",
      account: "sim",
      outcome: "completed",
      status: 200,
      cost_usd: expect.stringMatching(/^\d+(\.\d+)?$/),
    });
    // A cursor of a record resumes within a page.
    const rest = await program.send("admin.usage_export.records", {
      query: { after: String(all[0]?.cursor) },
    });
    expect(records(await rest.text()).map(({ request_id }) => request_id)).toEqual(ids.slice(1));
    const last = await program.send("admin.usage_export.records", { query: { after: String(query.after) } });
    expect(await last.text()).toBe("");
    expect(last.headers.get("x-gateway-cursor")).toBe(String(query.after));
    for (const name of ["usage.requests", "admin.settings.get", "metrics.get"] as const)
      expect(await program.callRejected(name)).toMatchObject({ status: 403, code: "forbidden" });
  });

  test("needs the scope export or admin, and an administrator", async () => {
    const reader = await createTokenClient(gateway, "root@example.com", "read", "admin");
    expect(await reader.callRejected("admin.usage_export.records")).toMatchObject({ code: "forbidden" });
    const user = await createTokenClient(gateway, "user@example.com", "export");
    expect(await user.callRejected("admin.usage_export.records")).toMatchObject({ code: "forbidden" });
    const other = await signInAs(gateway, "user@example.com");
    const body = { name: "mine", scope: "export", expires_at: null };
    expect(await other.callRejected("tokens.create", { body })).toMatchObject({ param: "scope" });
    expect(await admin.call("tokens.create", { body })).toMatchObject({ scope: "export" });
  });

  test("rejects what is not a cursor, cursors of another feed, and cursors ahead of the feed", async () => {
    const { feed } = await admin.call("admin.usage_export.get");
    const first = feed?.first_cursor ?? "";
    const send = (after: string) => admin.callRejected("admin.usage_export.records", { query: { after } });
    expect(await send("42")).toMatchObject({ status: 400, param: "after" });
    expect(await send("feed_0:1")).toMatchObject({
      status: 409,
      message: expect.stringContaining("no longer"),
    });
    expect(await send(`${first.slice(0, first.indexOf(":"))}:99999`)).toMatchObject({
      status: 409,
      message: expect.stringContaining("ahead of the feed"),
    });
  });
});

describe("webhooks", () => {
  test("receive requests by themselves, and their state is shown", async () => {
    // Only the file can allow an address of this machine.
    await gateway.apply(
      JSON.stringify({
        usage_export: {
          webhooks: [
            { name: "warehouse", url: receiver.url, private_network: true, secret: "0123456789abcdef" },
          ],
        },
      }),
    );
    const id = await sendRequest();
    await eventually(() => receiver.accepted.flatMap(({ ids }) => ids).find((one) => one === id));
    const all = receiver.accepted.flatMap(({ ids }) => ids);
    expect(new Set(all).size).toBe(all.length);
    const state = await eventually(async () => {
      const { webhooks } = await admin.call("admin.usage_export.get");
      return webhooks[0]?.backlog === 0 ? webhooks[0] : undefined;
    });
    expect(state).toMatchObject({ name: "warehouse", enabled: true, failures: 0, response: "HTTP 200" });
    const metrics = await (await admin.fetch("/metrics")).text();
    expect(metrics).toMatch(/gateway_usage_export_rows_total [1-9]/);
    expect(metrics).toContain('gateway_usage_export_lag_seconds{webhook="warehouse"}');
    const settings = await admin.call("admin.settings.get");
    expect(settings.usage_export.webhooks).toMatchObject([{ name: "warehouse", has_secret: true }]);
    expect(JSON.stringify(settings)).not.toContain("0123456789abcdef");
  });

  test("can be tested, and the test is in the audit log", async () => {
    expect(await admin.call("admin.usage_export.test", { body: { webhook: "warehouse" } })).toEqual({
      ok: true,
      message: "HTTP 200",
    });
    const { data } = await admin.call("admin.audit.list", { query: { action: "usage_export." } });
    expect(data[0]).toMatchObject({ action: "usage_export.test", target: "webhook warehouse" });
    expect(
      await admin.callRejected("admin.usage_export.test", { body: { webhook: "nobody" } }),
    ).toMatchObject({
      code: "not_found",
    });
  });

  test("a stored secret is not sent to another address that a browser enters", async () => {
    const webhooks = [{ name: "warehouse", url: "https://elsewhere.example.com" }];
    const body = { usage_export: { enabled: true, webhooks } };
    expect(await admin.callRejected("admin.settings.save", { body })).toMatchObject({
      param: "webhooks[0].secret",
    });
  });
});

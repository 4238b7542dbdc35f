/** A gateway with the same data for every page of the console in each run. */

import { z } from "zod";
import { foldDays } from "../../src/billing/maintenance/fold-days.ts";
import { text } from "../../src/store/engine/row.ts";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { insertUsage, usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { type ConsoleClient, createServiceClient, signInAs } from "../support/console-client.ts";
import { paidFile, SIMULATOR } from "../support/paid-gateway.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type ConsoleUnderTest, type Looks, type Page, startConsole } from "./browser.ts";

const DEVELOPER = "payer@example.com";
const ADMINISTRATOR = "ada@example.com";

const entry = z.object({ path: z.string(), who: z.enum(["anyone", "user", "auditor", "admin"]) });
export type Entry = z.output<typeof entry>;

/** The console's table of pages. It is read at run time, because its types need the DOM. */
export async function everyPage(): Promise<Entry[]> {
  const table: unknown = await import(`${import.meta.dir}/../../console/pages.tsx`);
  return z.object({ PAGES: z.array(entry) }).parse(table).PAGES;
}

export interface World extends ConsoleUnderTest {
  /** A page of the table with data, as a user who may see it. The next visit of the same role reuses the page. */
  visit(page: Entry, looks?: Looks): Promise<Page>;
}

export async function startWorld(): Promise<World> {
  const console = await startConsole({ tokens: "o200k", file: WORLD });
  const ids = await furnish(console);
  const open = new Map<string, Page>();
  return {
    ...console,
    async visit({ path, who }, looks = {}) {
      const address = resolveAddress(path, ids);
      const visitor = `${who} ${JSON.stringify(looks)}`;
      const present = open.get(visitor);
      if (present !== undefined) await console.goTo(present, address);
      const page = present ?? (await openBy(console, who, address, looks));
      open.set(visitor, page);
      await settled(page);
      return page;
    },
  };
}

function openBy(console: ConsoleUnderTest, who: Entry["who"], address: string, looks: Looks): Promise<Page> {
  if (who === "anyone") return console.open(address, looks);
  // Pages of auditors have more for administrators, who may open them too.
  return who === "user"
    ? console.openAs(DEVELOPER, "user", address, looks)
    : console.openAs(ADMINISTRATOR, "admin", address, looks);
}

/** Waits until nothing is loading. Event streams never end, so the network cannot decide it. */
async function settled(page: Page): Promise<void> {
  await page.locator(".skeleton, [aria-busy=true]").first().waitFor({ state: "detached" });
}

/** The id in the address of each page that is about one object. */
type Ids = Readonly<Record<string, string>>;

function resolveAddress(path: string, ids: Ids): string {
  if (!path.includes(":")) return path;
  const id = ids[path];
  if (id === undefined) throw new Error(`No data is defined for ${path}: add it to demo-data.ts.`);
  return path.replace(/:\w+/, encodeURIComponent(id));
}

const account = (name: string, models: object, more: object = {}) => ({
  name,
  kind: "openai",
  base_url: SIMULATOR,
  credential: `credential-of-${name}`,
  private_network: true,
  models,
  ...more,
});

const WORLD = paidFile({
  balance: "25",
  models: {
    "gpt-5.5": { upstream: "sim-fast", price: { input: "1.25", cached_input: "0.125", output: "10" } },
    "gpt-5.5-mini": { upstream: "sim-fast", price: { input: "0.25", output: "2" } },
    "text-embedding-4": { upstream: "sim-embed", price: { input: "0.02" } },
  },
  accounts: [
    account("frankfurt", { "gpt-5.5": "sim-fast" }, { limits: { rpm: 500 } }),
    account("oregon", { "gpt-5.5-mini": "fault/503" }),
    account(
      "virginia",
      {
        "gpt-5.5": "sim-fast",
        "gpt-5.5-mini": "sim-fast@first=180ms,events=40,interval=10ms",
        "text-embedding-4": "sim-embed",
      },
      { priority: 2 },
    ),
  ],
  plans: [
    {
      name: "team",
      windows: [
        { per: "day", usd: "5" },
        { per: "month", usd: "60" },
      ],
    },
  ],
  subscriptions: [{ plan: "team" }],
  groups: [
    {
      name: "research",
      interfaces: ["chat", "responses"],
      models: ["gpt-5.5"],
      accounts: ["frankfurt"],
      billing: { charge: "subscription", plans: ["team"] },
      limits: { rpm: 60, windows: [{ per: "1d", usd: "3" }] },
      fallback: [
        { group: "paying", when: ["busy", "failing"], max_price: "2.5", leave_after: "3s", stay: "10m" },
        { group: "paying", when: ["subscription_used"], pay: "balance" },
      ],
    },
    { name: "free", interfaces: ["embeddings"], models: ["text-embedding-4"], accounts: ["virginia"] },
  ],
  users: [{ email: ADMINISTRATOR, role: "admin" }, { email: "grace@example.com" }],
  keys: [
    {
      name: "CI runner",
      user: DEVELOPER,
      group: "research",
      secret: "ci-key-0123456789-0123456789-0123456789",
    },
    {
      name: "Notebook",
      user: "grace@example.com",
      group: "free",
      secret: "notebook-key-0123456789-0123456789-0123",
      limits: { rpm: 1 },
    },
  ],
});

async function furnish(console: ConsoleUnderTest): Promise<Ids> {
  const { gateway } = console;
  const { db, clock } = gateway.installation;
  const keys = await db.sql`SELECT id, name, user_id, group_id FROM api_key ORDER BY name`;
  const accounts = await db.sql`SELECT id FROM account ORDER BY name`;
  const [developer] = await db.sql`SELECT id FROM app_user WHERE email = ${DEVELOPER}`;
  const [first] = keys;
  if (first === undefined || developer === undefined) {
    throw new Error("The world was not made.");
  }
  await insertUsage(
    db,
    keys.flatMap((key, i) =>
      pastRequests(clock.nowMs(), i + 1).map((row, n) => ({
        ...row,
        keyId: text(key, "id"),
        userId: text(key, "user_id"),
        groupId: text(key, "group_id"),
        accountId: text(accounts[n % accounts.length] ?? {}, "id"),
      })),
    ),
  );
  await foldDays(db, clock.nowMs(), true);
  const admin = await signInAs(gateway, ADMINISTRATOR, "admin");
  await captureNext(gateway, admin);
  await callModel(gateway, { model: "gpt-5.5" });
  // The first account fails, so that the timeline of the request shows a second attempt.
  const requestId = await callModel(gateway, { model: "gpt-5.5-mini", stream: true });
  await createServiceClient(gateway, "billing", ["wallet.read", "wallet.top_up"]);
  await createServiceClient(gateway, "ci", ["config.apply"]);
  await admin.call("admin.codes.create", { body: { name: "spring", count: 3, amount: "10" } });
  await admin.call("admin.request_policies.create", {
    body: {
      name: "contractors",
      self_service: true,
      models: ["gpt-5.5*"],
      networks: ["10.0.0.0/8"],
      output_tokens: { max: 16_000 },
      effort: { max: "high" },
      tools: { deny: ["web_search", "mcp"] },
      inputs: { images: 20, files: "deny" },
      force: { store: false },
    },
  });
  return {
    "/keys/:id": text(first, "id"),
    "/requests/:id": requestId,
    "/admin/captures/:id": requestId,
    "/admin/groups/:name": "research",
    "/admin/policies/:name": "contractors",
    "/admin/accounts/:name": "frankfurt",
    "/admin/users/:id": text(developer, "id"),
    "/admin/codes/:name": "spring",
  };
}

/** Orders captures of the test key. */
async function captureNext({ installation }: RunningGateway, admin: ConsoleClient): Promise<void> {
  const [key] = await installation.db.sql`
    SELECT id FROM api_key WHERE digest = ${installation.digest(TEST_KEY)}`;
  await admin.call("admin.keys.set_capture", {
    params: { id: text(key ?? {}, "id") },
    body: { mode: null, next: { requests: 20, for_ms: 3_600_000 } },
  });
}

/** Returns the id of the request. */
async function callModel(gateway: RunningGateway, body: object): Promise<string> {
  const response = await gateway.call(
    "/v1/chat/completions",
    { ...body, messages: [{ role: "user", content: "Hello" }] },
    { headers: { authorization: `Bearer ${TEST_KEY}` } },
  );
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

const MODELS = ["gpt-5.5", "gpt-5.5-mini", "text-embedding-4"] as const;

/** A month of usage rows, from the same random seed each time. */
function pastRequests(nowMs: number, seed: number): UsageRow[] {
  let state = seed * 7_919;
  const random = () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  return Array.from({ length: 400 }, () => {
    const fate = random();
    const [outcome, status] =
      fate < 0.02
        ? (["failed", 502] as const)
        : fate < 0.05
          ? (["refused", 429] as const)
          : (["completed", 200] as const);
    const isRejected = outcome === "refused";
    const costNano = isRejected ? 0n : BigInt(Math.round(random() * 9e7));
    const inputTokens = isRejected ? 0 : Math.round(200 + random() * 4_000);
    return usageRow({
      requestId: `req_${crypto.randomUUID()}`,
      atMs: nowMs - random() * 30 * 86_400_000,
      publicModel: MODELS[Math.floor(random() * MODELS.length)] ?? MODELS[0],
      inputTokens,
      cachedTokens: Math.round(inputTokens * 0.3),
      cacheWriteTokens: 0,
      outputTokens: isRejected ? 0 : Math.round(random() * 900),
      reasoningTokens: 0,
      firstByteMs: isRejected ? null : Math.round(180 + random() * 500),
      durationMs: isRejected ? 2 : Math.round(900 + random() * 4_000),
      costNano,
      chargedNano: costNano,
      upstreamNano: (costNano * 7n) / 10n,
      outcome,
      status,
      errorCode: isRejected ? "rate_limit_exceeded" : outcome === "failed" ? "upstream_error" : null,
    });
  });
}

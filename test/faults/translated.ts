/**
 * Clients of every dialect that leave translated streams at random moments. Translation changes neither who pays nor how
 * much: in a group that drains, each request is charged what its upstream produced, to the token. In one that cancels,
 * the upstream stops, and the difference is what it wrote between the client's leaving and that moment.
 */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { checked, type Fault, type Finding, figure, none, percent } from "./fault.ts";
import { forEachIndex } from "./for-each-concurrent.ts";
import { openRig, type Rig } from "./killable-gateway.ts";
import { buildKey, PRICE, userEmail } from "./setup.ts";

const LEAVES_A_ROUND = 400;
const ROUNDS = 5;
const AT_ONCE = 40;
const EVENTS = 20;
const INTERVAL_MS = 40;
/** A little longer than the response takes: some stay to its end. */
const LEAVES_WITHIN_MS = EVENTS * INTERVAL_MS * 1.15;
/** One event, which a busy machine may be late. */
const CANCEL_ERROR_MAX = 1 / EVENTS;
const GROUPS = ["drain", "cancel"] as const;
const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];

const PROMPT = "Tell me a story about a ship, a storm and a cook.";

export const translated: Fault = {
  name: "translated",
  promise: "clients that leave translated streams: each has a row, and pays for what was produced",
  async run({ times, store, say }) {
    const rig = await openRig(store, (url) => buildFile(url));
    try {
      await countOnce(rig);
      const sinceMs = Date.now();
      const identified: string[] = [];
      const truth: LedgerEntry[] = [];
      for (let round = 0; round < (times ?? ROUNDS); round++) {
        await forEachIndex(LEAVES_A_ROUND, AT_ONCE, async (i) => {
          const requestId = await leaveSomewhere(rig.url(), round * LEAVES_A_ROUND + i);
          if (requestId !== null) identified.push(requestId);
        });
        truth.push(...(await rig.takeTruth()));
        say(`${identified.length} answers begun`);
      }
      await rig.end();
      const rows = await rig.rows(sinceMs);
      const audit = await rig.audit();
      const groups = await readGroups(rig);
      const known = new Set(rows.map(({ requestId }) => requestId));
      return [
        none(
          "known to the client, and no row",
          identified.filter((id) => !known.has(id)),
        ),
        ...GROUPS.flatMap((name) =>
          compare(
            name,
            truth,
            rows.filter(({ groupId }) => groupId === groups.get(name)),
          ),
        ),
        checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
      ];
    } finally {
      await rig.stop();
    }
  },
};

function buildFile(simulatorUrl: string): object {
  const upstreamModel = `sim-fast@events=${EVENTS},interval=${INTERVAL_MS}ms`;
  const kinds = { responses: "openai", chat: "openai", messages: "anthropic", gemini: "gemini" } as const;
  const emails = GROUPS.map((_, user) => userEmail(user));
  return {
    models: DIALECTS.map((id) => ({ id, interfaces: DIALECTS, price: PRICE, max_output_tokens: 4_096 })),
    accounts: DIALECTS.map((dialect) => ({
      name: dialect,
      kind: kinds[dialect],
      base_url: dialect === "gemini" ? simulatorUrl.replace(/\/v1$/, "") : simulatorUrl,
      credential: "sk-sim",
      private_network: true,
      ...(kinds[dialect] === "openai" ? { interfaces: [dialect] } : {}),
      models: { [dialect]: upstreamModel },
    })),
    groups: GROUPS.map((name) => ({
      name,
      interfaces: DIALECTS,
      models: DIALECTS,
      accounts: DIALECTS,
      billing: { charge: "balance" },
      on_disconnect: name,
      queue: { max_waiting: 0 },
    })),
    users: emails.map((email) => ({ email, role: "user", balance: "5000.00" })),
    keys: emails.map((email, user) => ({
      name: `key-${user}`,
      user: email,
      group: GROUPS[user],
      secret: buildKey(user),
    })),
  };
}

/** The gateway reads its tokenizer at the start: a request that is counted before that would wait for it. */
async function countOnce(rig: Rig): Promise<void> {
  for (const i of [0, 1]) await leaveSomewhere(rig.url(), i, 200);
  await rig.takeTruth();
  await Bun.sleep(1_000);
}

/** The client's dialect and the upstream's, which always differ. */
function choosePair(i: number): readonly [Dialect, Dialect] {
  const client = DIALECTS[i % DIALECTS.length] ?? "chat";
  const others = DIALECTS.filter((dialect) => dialect !== client);
  return [client, others[Math.floor(i / DIALECTS.length) % others.length] ?? "chat"];
}

/** Returns the id of the request; null if the client left before it got the id. */
async function leaveSomewhere(
  url: string,
  i: number,
  leaveAfterMs = Math.random() * LEAVES_WITHIN_MS,
): Promise<string | null> {
  const [client, model] = choosePair(i);
  const { path, body } = buildRequest(client, model);
  const leaving = new AbortController();
  const timer = setTimeout(() => leaving.abort(), leaveAfterMs);
  // Both groups have all pairs: a round of pairs has twelve requests.
  const user = Math.floor(i / 12) % GROUPS.length;
  let requestId: string | null = null;
  try {
    const response = await fetch(url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${buildKey(user)}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: leaving.signal,
    });
    requestId = response.headers.get("x-request-id");
    await response.text();
  } catch {
    // The client has left.
  }
  clearTimeout(timer);
  return requestId;
}

function buildRequest(client: Dialect, model: Dialect): { path: string; body: object } {
  const messages = [{ role: "user", content: PROMPT }];
  switch (client) {
    case "responses":
      return { path: "/v1/responses", body: { model, input: PROMPT, stream: true, store: false } };
    case "chat":
      return { path: "/v1/chat/completions", body: { model, messages, stream: true } };
    case "messages":
      return { path: "/v1/messages", body: { model, messages, max_tokens: 4_000, stream: true } };
    case "gemini":
      return {
        path: `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
        body: { contents: [{ role: "user", parts: [{ text: PROMPT }] }] },
      };
  }
}

async function readGroups({ db }: Rig): Promise<Map<string, string>> {
  const rows = await db.sql`SELECT id, name FROM key_group`;
  return new Map(rows.map((row) => [String(row.name), String(row.id)]));
}

/** The headers of clients do not cross a translation, so a row is compared with the request that it names. */
function compare(
  name: (typeof GROUPS)[number],
  truth: readonly LedgerEntry[],
  rows: readonly UsageRow[],
): Finding[] {
  const entries = new Map(truth.map((entry) => [entry.id, entry]));
  const pairs = rows.flatMap((row) => {
    const entry = row.upstreamRequestId === null ? undefined : entries.get(row.upstreamRequestId);
    return entry === undefined ? [] : [{ row, entry }];
  });
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const produced = sum(pairs.map(({ entry }) => entry.outputTokens));
  const charged = sum(pairs.map(({ row }) => row.outputTokens));
  const error = Math.abs(charged - produced) / produced;
  const left = pairs.filter(({ row }) => row.outcome === "client_gone");
  return [
    figure(
      `${name}: rows / with the request of an upstream / left early`,
      `${rows.length} / ${pairs.length} / ${left.length}`,
    ),
    none(
      `${name}: rows of an upstream's request that is not there`,
      rows
        .filter(({ upstreamRequestId: id }) => id !== null && !entries.has(id))
        .map(({ requestId }) => requestId),
    ),
    figure(`${name}: output produced / charged, tokens`, `${produced} / ${charged}`),
    name === "drain"
      ? none(
          `${name}: charged otherwise than produced`,
          pairs
            .filter(
              ({ row, entry }) =>
                row.outputTokens !== entry.outputTokens || row.inputTokens !== entry.inputTokens,
            )
            .map(({ row }) => row.requestId),
        )
      : checked(`${name}: difference`, percent(error), "at most 5 %", error <= CANCEL_ERROR_MAX),
    none(
      `${name}: charged more than produced`,
      pairs.filter(({ row, entry }) => row.outputTokens > entry.outputTokens).map(({ row }) => row.requestId),
    ),
  ];
}

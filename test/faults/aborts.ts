/**
 * Clients that leave at random moments. In a group that drains, what was produced is charged to the token. In one that
 * cancels, the upstream stops when it notices, and what it wrote between the client's leaving and that moment was
 * never read.
 *
 * That gap is the time of two hang-ups on the way, about a millisecond through the gateway when the machine is not
 * loaded. Of a simulator that writes without a pause it would be most of the response; models pause for tens of
 * milliseconds between events, and at such a pace the gap is hardly ever an event wide.
 */

import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { type ClientRecord, sendRequest } from "./client.ts";
import { checked, type Fault, type Finding, figure, none, percent } from "./fault.ts";
import { forEachIndex } from "./for-each-concurrent.ts";
import { openRig, type Rig, readMarker } from "./killable-gateway.ts";
import { buildConfiguration, buildKey } from "./setup.ts";

/** Fewer than one of these tell little about a percent. */
const ABORTS_A_ROUND = 500;
const ROUNDS = 20;
const AT_ONCE = 50;
const EVENTS = 20;
const INTERVAL_MS = 40;
/** Billed and never shown: a client that leaves pays for them, with `cancel` as they were learnt. */
const HIDDEN_TOKENS = 400;
/** Complete responses from which the gateway learns how much the model reasons. */
const LESSONS = 30;
/** A little longer than the response takes: some stay to its end. */
const LEAVES_WITHIN_MS = EVENTS * INTERVAL_MS * 1.15;
const CANCEL_ERROR_MAX = 0.01;
/** Before that, the request may not have been read when its client disconnected. */
const CERTAINLY_THERE_MS = 50;
const GROUPS = ["drain", "cancel"] as const;
const PROMPTS = [
  "Tell me a story about a ship, a storm and a cook.",
  "写一首关于秋天的短诗。",
  "What is 2 + 2?",
];

export const aborts: Fault = {
  name: "aborts",
  promise: "10,000 clients that leave at random: each has a row, and pays for what was produced",
  async run({ times, store, say }) {
    const wanted = (times ?? ROUNDS) * ABORTS_A_ROUND;
    const rig = await openRig(store, (url) =>
      buildConfiguration(
        {
          models: {
            stream: `sim-fast@events=${EVENTS},interval=${INTERVAL_MS}ms`,
            reasoning: `sim-fast@hidden=${HIDDEN_TOKENS},events=${EVENTS},interval=${INTERVAL_MS}ms`,
            whole: "sim-fast@first=400ms",
          },
          users: 2,
          balance: "5000.00",
          groups: GROUPS.map((name) => ({ name, billing: { charge: "balance" }, on_disconnect: name })),
          findGroup: (user) => GROUPS[user % 2] ?? "cancel",
        },
        url,
      ),
    );
    try {
      await countOnce(rig);
      const sinceMs = Date.now();
      const asked: ClientRecord[][] = [[], []];
      const truth: LedgerEntry[] = [];
      // In parts, for the simulator keeps its last ten thousand requests.
      for (let done = 0; done < wanted; ) {
        const part = Math.min(2_500, wanted - done);
        await forEachIndex(part, AT_ONCE, async (i) => {
          const user = i % 2;
          asked[user]?.push(await leaveSomewhere(rig.url(), user, done + i));
        });
        truth.push(...(await rig.takeTruth()));
        done += part;
        say(`${done} of ${wanted}`);
      }
      await rig.end();
      const rows = await rig.rows(sinceMs);
      const audit = await rig.audit();
      const groups = await groupIds(rig);
      return [
        ...GROUPS.flatMap((name, user) =>
          compare(name, asked[user] ?? [], truth, rows, groups.get(name) ?? ""),
        ),
        checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
      ];
    } finally {
      await rig.stop();
    }
  },
};

/**
 * The gateway reads its tokenizer at the start; a request counted before that would wait for it. And it has seen the
 * model reason before the first client leaves.
 */
async function countOnce(rig: Rig): Promise<void> {
  for (const user of [0, 1]) {
    const one = {
      url: rig.url(),
      key: buildKey(user),
      family: "chat",
      model: "stream",
      stream: true,
    } as const;
    await sendRequest({ ...one, prompt: PROMPTS[0] ?? "", leaveAfterMs: 200 });
  }
  await forEachIndex(LESSONS, LESSONS, async (i) => {
    await sendRequest({
      url: rig.url(),
      key: buildKey(i % 2),
      family: i % 3 === 0 ? "responses" : "chat",
      model: "reasoning",
      stream: true,
      prompt: PROMPTS[0] ?? "",
      leaveAfterMs: null,
    });
  });
  await rig.takeTruth();
  await Bun.sleep(1_000);
}

function leaveSomewhere(url: string, user: number, i: number): Promise<ClientRecord> {
  const isWhole = i % 5 === 0;
  return sendRequest({
    url,
    key: buildKey(user),
    family: i % 3 === 0 ? "responses" : "chat",
    model: isWhole ? "whole" : i % 8 < 2 ? "reasoning" : "stream",
    stream: !isWhole,
    prompt: PROMPTS[i % PROMPTS.length] ?? "",
    leaveAfterMs: Math.random() * (isWhole ? 460 : LEAVES_WITHIN_MS),
  });
}

async function groupIds({ db }: Rig): Promise<Map<string, string>> {
  const rows = await db.sql`SELECT id, name FROM key_group`;
  return new Map(rows.map((row) => [String(row.name), String(row.id)]));
}

function compare(
  name: (typeof GROUPS)[number],
  asked: readonly ClientRecord[],
  allTruth: readonly LedgerEntry[],
  allRows: readonly UsageRow[],
  groupId: string,
): Finding[] {
  const markers = new Set(asked.map(({ marker }) => marker));
  const truth = allTruth.filter((entry) => markers.has(readMarker(entry)));
  const entryIds = new Set(truth.map(({ id }) => id));
  const reached = new Set(truth.map(readMarker));
  const rows = allRows.filter((row) => row.groupId === groupId);
  const known = new Set(rows.map(({ requestId }) => requestId));
  const left = asked.filter(({ leftAfterMs }) => leftAfterMs !== null);
  const identified = asked.filter(({ requestId }) => requestId !== null);
  const sure = asked.filter(
    ({ leftAfterMs }) => leftAfterMs === null || leftAfterMs > CERTAINLY_THERE_MS,
  ).length;
  const produced = truth.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
  const charged = rows.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
  const error = Math.abs(charged - produced) / produced;
  const sent = inputSent(asked, truth);
  const paid = rows.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
  const inputError = Math.abs(paid - sent) / sent;
  const isExact = name === "drain";
  return [
    figure(
      `${name}: asked / left early / reached the simulator`,
      `${asked.length} / ${left.length} / ${reached.size}`,
    ),
    figure(
      `${name}: rows, of these charged`,
      `${rows.length}, ${rows.filter((r) => r.chargedNano > 0n).length}`,
    ),
    none(
      `${name}: known to the client, and no row`,
      identified
        .filter(({ requestId }) => !known.has(requestId ?? ""))
        .map(({ requestId }) => `${requestId}`),
    ),
    checked(
      `${name}: rows for those that reached the simulator`,
      rows.length,
      `${reached.size} or more`,
      rows.length >= reached.size,
    ),
    checked(
      `${name}: rows for those that stayed ${CERTAINLY_THERE_MS} ms`,
      rows.length,
      `${sure} or more`,
      rows.length >= sure,
    ),
    none(
      `${name}: rows of an upstream's request that is not there`,
      rows
        .filter(({ upstreamRequestId }) => upstreamRequestId !== null && !entryIds.has(upstreamRequestId))
        .map(({ requestId }) => requestId),
    ),
    figure(`${name}: output produced / charged, tokens`, `${produced} / ${charged}`),
    checked(
      `${name}: difference`,
      percent(error),
      isExact ? "0.000 %" : "at most 1 %",
      isExact ? charged === produced : error <= CANCEL_ERROR_MAX,
    ),
    figure(`${name}: input sent / charged, tokens`, `${sent} / ${paid}`),
    checked(
      `${name}: difference of the input`,
      percent(inputError),
      isExact ? "0.000 %" : "at most 1 %",
      isExact ? paid === sent : inputError <= CANCEL_ERROR_MAX,
    ),
    figure(
      `${name}: delivered in streams, tokens`,
      asked.reduce((sum, one) => sum + countTokens(one.text), 0),
    ),
  ];
}

/** What was asked of the simulator. It counts a prompt only when it begins to respond, so each is counted by another. */
function inputSent(asked: readonly ClientRecord[], truth: readonly LedgerEntry[]): number {
  const byMarker = new Map(asked.map((one) => [one.marker, one]));
  const findPrompt = (entry: LedgerEntry) => byMarker.get(readMarker(entry))?.prompt ?? "";
  const counted = new Map(
    truth.filter(({ inputTokens }) => inputTokens > 0).map((entry) => [findPrompt(entry), entry.inputTokens]),
  );
  return truth.reduce((sum, entry) => sum + (counted.get(findPrompt(entry)) ?? 0), 0);
}

/** `model-gateway explain`: explains what happened to a request, or what would happen to one. */

import type { Settings } from "../config/installation/environment.ts";
import { buildCostLines, formatPrice } from "../gateway/endpoints/request-report.ts";
import type { DispatchTrace } from "../gateway/request/trace.ts";
import type { LimitStanding } from "../limits/limiter.ts";
import { usdText } from "../money/nano.ts";
import { buildTariff, multiplierText } from "../money/tariff.ts";
import { explainAccess } from "../policy/explain.ts";
import { INTERFACES, type Interface } from "../records.ts";
import type { LiveExplanation } from "../server/operator-socket.ts";
import type { Db } from "../store/engine/db.ts";
import { listUsers } from "../store/identity/users.ts";
import { readTerms } from "../store/money/tariffs.ts";
import { findKeyByPublicId } from "../store/policy/keys.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { findUsage, type UsageFlag, type UsageRow } from "../store/usage/usage.ts";
import { type Command, DATA_OPTION, fail, type Input, misuse } from "./command.ts";
import { dollars, pointsAligned } from "./money-input.ts";
import { askServer, flushUser } from "./running-server.ts";
import { withInstallation } from "./store-access.ts";
import { type Terminal, table } from "./terminal.ts";

export const explain: Command = {
  words: "explain",
  summary: "Explain what happened to a request, or what a key may call",
  about: `With a request id: the whole trace of that request. With --key and --model: a dry run, step by step, with the
limits and accounts as a running server sees them now. The id of a key is the eight characters that \`keys list\` shows.`,
  positionals: ["[REQUEST_ID]"],
  options: {
    key: { value: "KEY_ID", about: "dry run: the key's public id" },
    model: { value: "MODEL", about: "dry run: the public model name" },
    interface: { value: "NAME", about: `dry run: ${INTERFACES.join(", ")} (chat)` },
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db, clock, settings }) => {
      const requestId = input.text("REQUEST_ID");
      if (requestId !== undefined) {
        await flushUser(settings, null);
        return explainRequest(db, requestId, input.terminal);
      }
      return explainKey(db, settings, input, clock.nowMs());
    }),
};

async function explainRequest(db: Db, requestId: string, terminal: Terminal): Promise<number> {
  const row = await findUsage(db, requestId);
  if (row === null) {
    fail(`There is no request ${requestId}.`, "Its id is in the x-request-id header of the answer.");
  }
  const { paint } = terminal;
  const trace: DispatchTrace | null = row.trace === null ? null : JSON.parse(row.trace);
  terminal.print(`${paint.bold(row.requestId)}  ${new Date(row.atMs).toISOString()}`);
  terminal.print(`${row.endpoint} ${row.publicModel}${row.stream ? ", streamed" : ""}`);
  const outcome = row.errorCode === null ? row.outcome : `${row.outcome} (${row.errorCode})`;
  terminal.print(`${row.status} ${outcome} after ${row.durationMs} ms, ${row.waitMs} ms of it waiting`);
  if (trace?.slotWaitMs !== undefined) {
    terminal.print(`${trace.slotWaitMs} ms of the wait were for a slot of a concurrency limit`);
  }
  if (row.requestCount > 1) {
    terminal.print(
      `one record of ${row.requestCount} requests that ended alike within a minute; times are sums`,
    );
  }
  if (trace?.refusal !== undefined) terminal.print(trace.refusal);
  terminal.print(
    `tokens: ${row.inputTokens} in (${row.cachedTokens} cached), ${row.outputTokens} out (${row.reasoningTokens} reasoning)`,
  );
  await printMoney(db, row, terminal);
  if (trace === null) {
    const account = (await readPolicy(db)).accounts.find(({ id }) => id === row.accountId);
    if (row.accountId !== null)
      terminal.print(`served by ${account?.name ?? row.accountId} at the first attempt`);
    return 0;
  }
  if (trace.attempts.length > 0) {
    terminal.print();
    terminal.print(
      table(
        ["attempt", "account", "model", "began", "first byte", "status", "outcome"],
        trace.attempts.map((attempt, i) => [
          String(i + 1),
          attempt.accountName,
          attempt.upstreamModel,
          `${attempt.startedMs} ms`,
          attempt.firstByteMs === null ? "-" : `${attempt.firstByteMs} ms`,
          attempt.status === null ? "-" : String(attempt.status),
          attempt.failure === null ? describeOutcome(row.outcome) : `${attempt.failure}: ${attempt.reason}`,
        ]),
        paint,
      ),
    );
  }
  if (trace.candidates.length > 0) {
    terminal.print();
    terminal.print(
      table(
        ["weighed", "model", "priority", "score", "reason"],
        trace.candidates.map((candidate) => [
          candidate.accountName,
          candidate.upstreamModel,
          String(candidate.priority),
          candidate.score === null ? "-" : candidate.score.toPrecision(3),
          describeState(candidate),
        ]),
        paint,
      ),
    );
  }
  return 0;
}

/** `cooling: server`: a cool-down is explained by the failure that caused it. */
function describeState({ reason, cause }: { reason: string | null; cause?: string | undefined }): string {
  if (reason === null) return "eligible";
  return cause === undefined ? reason : `${reason}: ${cause}`;
}

async function printMoney(db: Db, row: UsageRow, terminal: Terminal): Promise<void> {
  const { paint, print } = terminal;
  if (row.costNano === 0n && row.upstreamNano === 0n && row.payer === null) return;
  const user = (await listUsers(db)).find(({ id }) => id === row.userId)?.email ?? row.userId;
  const paid =
    row.payer === null ? "nobody pays" : `${dollars(row.chargedNano)} charged to the ${row.payer} of ${user}`;
  print(`cost: ${dollars(row.costNano)}, ${paid}; by the list ${dollars(row.upstreamNano)}`);
  for (const flag of row.flags) print(paint.yellow(`${flag}: ${FLAG_TEXTS[flag]}`));
  const terms = row.tariffId === null ? null : await readTerms(db, row.tariffId);
  const tariff = terms === null ? null : buildTariff(terms);
  const lines = tariff === null ? null : buildCostLines(tariff, row);
  if (tariff === null || lines === null || lines.length === 0) return;
  const costs = pointsAligned(lines.map(({ nano }) => dollars(nano)));
  const cells = lines.map(({ unit, count, picoEach, longContext }, i) => {
    const { price, per } = formatPrice(unit, picoEach);
    return [
      longContext ? `${unit}, long context` : unit,
      String(count),
      `$${price} / ${per}`,
      multiplierText(tariff),
      costs[i] ?? "",
    ];
  });
  print(`\n${table(["of", "count", "price", "times", "cost"], cells, paint)}\n`);
}

const FLAG_TEXTS: Readonly<Record<UsageFlag, string>> = {
  estimated: "the upstream told no usage, so it was counted here",
  partial: "the answer broke off, and what came of it was counted here",
  clamped: "the upstream's count cannot be true, or the cost is more than is recorded",
  overrun: "it cost more than was held; the whole cost is charged, and may have left a debt",
  recovered: "its process died, and what was known of it was settled later",
  capped: "the answer was bounded to what the payer had",
};

/** An attempt that did not fail has the outcome of its request. */
function describeOutcome(outcome: string): string {
  return outcome === "completed" ? "served" : outcome.replace("_", " ");
}

async function explainKey(db: Db, settings: Settings, input: Input, nowMs: number): Promise<number> {
  const { terminal } = input;
  const keyId = input.text("key");
  const model = input.text("model");
  if (keyId === undefined || model === undefined) {
    misuse("Name a request id, or --key and --model.", "See: npx model-gateway explain --help");
  }
  const iface = readInterface(input.text("interface") ?? "chat");
  const key = await findKeyByPublicId(db, keyId);
  if (key === null) fail(`There is no key ${keyId}.`, `See: ${input.command("keys list")}`);
  const { allowed, steps, accounts } = explainAccess(await readPolicy(db), key, model, iface, nowMs);
  for (const { ok, text } of steps) {
    terminal.print(`${ok ? terminal.paint.green("✓") : terminal.paint.red("✗")} ${text}`);
    if (!ok) break;
  }
  if (accounts.length > 0) {
    terminal.print();
    terminal.print(
      table(
        ["account", "sent as", "priority", "weight", "reason"],
        accounts.map((account) => [
          account.name,
          account.upstreamModel ?? "-",
          String(account.priority),
          String(account.weight),
          account.reason ?? "eligible",
        ]),
        terminal.paint,
      ),
    );
  }
  terminal.print();
  terminal.print(allowed ? `This key may call ${model}.` : `This key may not call ${model}.`);
  await printLive(settings, { keyId: key.id, model, interface: iface }, terminal);
  return allowed ? 0 : 1;
}

/** Only the running server knows the limits in use and the health of accounts. */
async function printLive(settings: Settings, request: object, terminal: Terminal): Promise<void> {
  const answer = await askServer(settings, "/explain", request);
  terminal.print();
  if (answer === null) {
    terminal.print(
      terminal.paint.dim(
        "As configured: no server runs on this data folder, so health and limits in use are unknown.",
      ),
    );
    return;
  }
  const live: LiveExplanation = JSON.parse(answer);
  for (const { scope, standing } of live.limits) {
    for (const text of standingTexts(standing)) terminal.print(`${scope}: ${text}`);
  }
  if (live.candidates.length === 0) return;
  terminal.print(
    table(
      ["account now", "score", "reason", "frees in"],
      live.candidates.map(({ accountName, score, reason, cause, freesInMs }) => [
        accountName,
        score === null ? "-" : score.toPrecision(3),
        describeState({ reason, cause }),
        freesInMs === null ? "-" : `${Math.ceil(freesInMs / 1000)} s`,
      ]),
      terminal.paint,
    ),
  );
}

export function standingTexts({ concurrency, requests, tokens, windows }: LimitStanding): string[] {
  const texts: string[] = [];
  if (concurrency) texts.push(`${concurrency.inUse} of ${concurrency.limit} requests at once`);
  if (requests) texts.push(`${requests.used} of ${requests.limit} requests in the last minute`);
  if (tokens) texts.push(`${tokens.used} of ${tokens.limit} tokens in the last minute`);
  for (const { perMs, ...window } of windows) {
    for (const unit of ["requests", "tokens"] as const) {
      const allowance = window[unit];
      if (allowance) texts.push(`${allowance.used} of ${allowance.limit} ${unit} in ${perMs / 3_600_000} h`);
    }
    if (window.nano) {
      const { used, limit } = window.nano;
      texts.push(`$${usdText(BigInt(used))} of $${usdText(BigInt(limit))} in ${perMs / 3_600_000} h`);
    }
  }
  return texts;
}

function readInterface(text: string): Interface {
  const found = INTERFACES.find((name) => name === text);
  return (
    found ??
    misuse(`--interface must be one of ${INTERFACES.join(", ")}.`, "See: npx model-gateway explain --help")
  );
}

/** `model-gateway explain`: explains what happened to a request, or what would happen to one. */

import { isBuiltIn } from "../accounts/kinds/table.ts";
import type { Settings } from "../config/installation/environment.ts";
import { localAddressText } from "../config/parse/check-account.ts";
import { durationText } from "../config/schema/usage-limits.ts";
import { buildCostLines, formatPrice } from "../gateway/endpoints/request-report.ts";
import type { DispatchTrace } from "../gateway/request/trace.ts";
import type { Allowance, LimitStatus } from "../limits/limiter-types.ts";
import { amountText } from "../money/amount-text.ts";
import { buildTariff, multiplierText } from "../money/tariff.ts";
import { findLocalAddress } from "../net/http-client/ip-addresses.ts";
import { type AccountExplanation, explainAccess } from "../policy/explain.ts";
import { explainFallback, type FallbackExplanation } from "../policy/explain-fallback.ts";
import { FURTHER_CHANGES } from "../protocols/request-policy/policy-body.ts";
import type { AccountRecord } from "../records/account.ts";
import { INTERFACES, type Interface } from "../records/interfaces.ts";
import { MINUTE_KINDS, MINUTE_LIMITS, type Unit, WINDOW_UNITS } from "../records/limits.ts";
import type { LiveExplanation } from "../server/operator-socket.ts";
import type { Db } from "../store/engine/db.ts";
import { listUsers } from "../store/identity/users.ts";
import { readTerms } from "../store/money/tariffs.ts";
import { findKeyByPublicId } from "../store/policy/keys.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { findUsage, type UsageFlag, type UsageRow } from "../store/usage/usage.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, misuse } from "./command.ts";
import { alignDecimalPoints, formatUsd } from "./money-input.ts";
import { PROGRAM } from "./program-name.ts";
import { flushUser, sendToServer } from "./running-server.ts";
import { withInstallation } from "./store-access.ts";
import { type Terminal, table } from "./terminal.ts";

export const explain: CommandDefinition = {
  changes: "nothing",
  about: `With a request id: the full trace of the request. With --key and --model: a dry run, step by step, with the current
limits and accounts of the running server. The id of a key is the eight characters that \`keys list\` shows.`,
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
    fail(
      `Request ${requestId} does not exist.`,
      "The id of a request is in the x-request-id header of its response.",
    );
  }
  const { paint } = terminal;
  const trace: DispatchTrace | null = row.trace === null ? null : JSON.parse(row.trace);
  terminal.print(`${paint.bold(row.requestId)}  ${new Date(row.atMs).toISOString()}`);
  terminal.print(`${row.endpoint} ${row.publicModel}${row.stream ? ", streamed" : ""}`);
  const outcome = row.errorCode === null ? row.outcome : `${row.outcome} (${row.errorCode})`;
  terminal.print(
    `${row.status} ${outcome} after ${row.durationMs} ms, including ${row.waitMs} ms in the queue`,
  );
  if (trace?.slotWaitMs !== undefined) {
    terminal.print(`${trace.slotWaitMs} ms of the queue time were for a concurrency limit`);
  }
  if (row.requestCount > 1) {
    terminal.print(
      `this record stands for ${row.requestCount} requests with the same result within one minute; times are sums`,
    );
  }
  for (const { param, from, to } of trace?.policyChanges ?? [])
    terminal.print(
      param === FURTHER_CHANGES
        ? "request policy: further changes, which were not recorded"
        : `request policy: ${param} ${from ?? "(absent)"} → ${to ?? "(removed)"}`,
    );
  if (trace?.rejection !== undefined) terminal.print(trace.rejection);
  if (trace?.traceId !== undefined) terminal.print(`trace ${trace.traceId} of the client`);
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
  printSteps(trace, terminal);
  printAttempts(trace, row.outcome, terminal);
  printTranslation(trace, terminal);
  printCandidates(trace, terminal);
  return 0;
}

function printSteps({ steps = [] }: DispatchTrace, { print, paint }: Terminal): void {
  if (steps.length === 0) return;
  print();
  print(
    table(
      ["step", "group", "model", "after", "result", "reason", "forecast"],
      steps.map(({ number, group, model, atMs, result, reason, forecast }) => [
        String(number),
        group,
        model,
        `${atMs} ms`,
        result,
        reason ?? "-",
        forecast === null ? "-" : `$${forecast}`,
      ]),
      paint,
    ),
  );
}

function printAttempts(trace: DispatchTrace, outcome: string, terminal: Terminal): void {
  if (trace.attempts.length === 0) return;
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
        attempt.failure === null ? describeOutcome(outcome) : `${attempt.failure}: ${attempt.reason}`,
      ]),
      terminal.paint,
    ),
  );
}

function printTranslation({ attempts }: DispatchTrace, terminal: Terminal): void {
  for (const { accountName, translation, dropped = [] } of attempts) {
    if (translation === undefined) continue;
    const names = dropped.length === 0 ? "" : `; dropped: ${dropped.join(", ")}`;
    terminal.print(`translated into ${translation} for ${accountName}${names}`);
  }
}

function printCandidates(trace: DispatchTrace, terminal: Terminal): void {
  if (trace.candidates.length === 0) return;
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
      terminal.paint,
    ),
  );
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
    row.payer === null
      ? "not charged"
      : `${formatUsd(row.chargedNano)} charged to the ${row.payer} of ${user}`;
  print(`cost: ${formatUsd(row.costNano)}, ${paid}; upstream cost ${formatUsd(row.upstreamNano)}`);
  for (const flag of row.flags) print(paint.yellow(`${flag}: ${FLAG_TEXTS[flag]}`));
  const terms = row.tariffId === null ? null : await readTerms(db, row.tariffId);
  const tariff = terms === null ? null : buildTariff(terms);
  const lines = tariff === null ? null : buildCostLines(tariff, row);
  if (tariff === null || lines === null || lines.length === 0) return;
  const costs = alignDecimalPoints(lines.map(({ nano }) => formatUsd(nano)));
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
  print(`\n${table(["unit", "count", "price", "multiplier", "cost"], cells, paint)}\n`);
}

const FLAG_TEXTS: Readonly<Record<UsageFlag, string>> = {
  estimated: "the upstream reported no usage, so the gateway estimated it",
  partial: "the response was interrupted, and the delivered part was counted by the gateway",
  clamped:
    "the usage reported by the upstream is implausible or exceeds what the request allowed: the hold was charged, or a reduced count",
  overrun: "the request cost more than its hold; the full cost was charged, which may have left a debt",
  recovered: "the gateway process died; the request was settled later from the journal",
  capped: "the response was limited to what the payer could afford",
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
    misuse("Missing arguments: set a request id, or --key and --model.", `See: ${PROGRAM} explain --help`);
  }
  const iface = readInterface(input.text("interface") ?? "chat");
  const key = await findKeyByPublicId(db, keyId);
  if (key === null) fail(`Key ${keyId} does not exist.`, `See: ${input.command("keys list")}`);
  const records = await readPolicy(db);
  const { allowed, steps, accounts } = explainAccess(records, key, model, iface, nowMs);
  const fallback = explainFallback(records, key, model, iface);
  const names = new Set(accounts.map(({ name }) => name));
  const blocked = findBlocked(records.accounts.filter(({ name }) => names.has(name)));
  for (const { ok, text } of steps) {
    terminal.print(`${ok ? terminal.paint.green("✓") : terminal.paint.red("✗")} ${text}`);
    if (!ok) break;
  }
  if (accounts.length > 0) {
    terminal.print();
    terminal.print(
      table(
        ["account", "upstream model", "priority", "weight", "state"],
        accounts.map((account) => [
          account.name,
          account.upstreamModel ?? "-",
          String(account.priority),
          String(account.weight),
          account.reason ?? (blocked.has(account.name) ? "address not allowed" : describeEligible(account)),
        ]),
        terminal.paint,
      ),
    );
  }
  printFallback(fallback, terminal);
  for (const [name, text] of blocked) terminal.print(`${terminal.paint.red("✗")} ${name}: ${text}`);
  const isServed =
    accounts.some(({ name, reason }) => reason === null && !blocked.has(name)) ||
    fallback.some(({ obstacle }) => obstacle === null);
  terminal.print();
  terminal.print(describeResult(model, { allowed, isServed }));
  await printLive(settings, { keyId: key.id, model, interface: iface }, terminal);
  return allowed && isServed ? 0 : 1;
}

function describeResult(model: string, { allowed, isServed }: { allowed: boolean; isServed: boolean }) {
  if (!allowed) return `Result: this key cannot call ${model}.`;
  return isServed
    ? `Result: this key can call ${model}.`
    : `Result: this key may call ${model}, but the address of every account is blocked.`;
}

function printFallback(steps: readonly FallbackExplanation[], terminal: Terminal): void {
  if (steps.length === 0) return;
  terminal.print();
  terminal.print(
    table(
      ["fallback", "group", "model", "when", "charge", "max price", "leave after", "stay", "state"],
      steps.map(({ number, group, model, when, charge, maxPrice, leaveAfterMs, stayMs, obstacle }) => [
        String(number),
        group,
        model,
        when.join(", "),
        charge,
        maxPrice ?? "-",
        leaveAfterMs === null ? "-" : durationText(leaveAfterMs),
        stayMs === null ? "-" : durationText(stayMs),
        obstacle ?? "eligible",
      ]),
      terminal.paint,
    ),
  );
}

/** Accounts whose address the gateway does not dial, with what to change. */
function findBlocked(accounts: readonly AccountRecord[]): ReadonlyMap<string, string> {
  const blocked = new Map<string, string>();
  for (const { name, kind, baseUrl, privateNetwork } of accounts) {
    const address = isBuiltIn(kind) || privateNetwork ? null : findLocalAddress(baseUrl);
    if (address !== null) blocked.set(name, `private_network ${localAddressText(baseUrl, address)}`);
  }
  return blocked;
}

function describeEligible({ translation }: AccountExplanation): string {
  return translation === null ? "eligible" : `eligible, translated into ${translation}`;
}

/** Only the running server knows the limits in use and the health of accounts. */
async function printLive(settings: Settings, request: object, terminal: Terminal): Promise<void> {
  const responses = await sendToServer(settings, "/explain", request);
  terminal.print();
  if (responses.length === 0) {
    terminal.print(
      terminal.paint.dim(
        "No server is running on this data folder, so account health and used limits are unknown.",
      ),
    );
    return;
  }
  for (const [i, response] of responses.entries()) {
    if (responses.length > 1) terminal.print(`\nProcess ${i + 1} of ${responses.length}:`);
    printLiveExplanation(JSON.parse(response), terminal);
  }
}

/** The limits of one process are its shares. */
function printLiveExplanation(live: LiveExplanation, terminal: Terminal): void {
  for (const { scope, standing } of live.limits) {
    for (const text of limitTexts(standing)) terminal.print(`${scope}: ${text}`);
  }
  if (live.candidates.length === 0) return;
  terminal.print(
    table(
      ["account", "score", "state", "available in"],
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

export function limitTexts({ concurrency, windows, ...minutes }: LimitStatus): string[] {
  const texts: string[] = [];
  if (concurrency) texts.push(`${concurrency.inUse} of ${concurrency.limit} concurrent requests`);
  const add = (unit: Unit, allowance: Allowance | null, span: string) => {
    if (allowance === null) return;
    const { used, limit } = allowance;
    const usedText = unit === "nano" ? amountText(unit, used) : used;
    texts.push(`${usedText} of ${amountText(unit, limit)} in ${span}`);
  };
  for (const kind of MINUTE_KINDS) add(MINUTE_LIMITS[kind].unit, minutes[kind], "the last minute");
  for (const { perMs, ...window } of windows) {
    for (const unit of WINDOW_UNITS) add(unit, window[unit], `${perMs / 3_600_000} h`);
  }
  return texts;
}

function readInterface(text: string): Interface {
  const found = INTERFACES.find((name) => name === text);
  return (
    found ?? misuse(`--interface must be one of ${INTERFACES.join(", ")}.`, `See: ${PROGRAM} explain --help`)
  );
}

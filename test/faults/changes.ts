/**
 * Prices, multipliers and the key's own group are changed again and again while requests run. Every version has a
 * tariff that no other has, so a row shows which version it was charged by.
 */

import { computeTariffCost, makeTariff } from "../../src/money/tariff.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { type ClientRecord, sendRequest } from "./client.ts";
import { checked, type Fault, figure, none } from "./fault.ts";
import { openRig, type Rig } from "./killable-gateway.ts";
import { buildConfiguration, buildKey, INTERFACES } from "./setup.ts";

const CHANGES = 40;
const AT_ONCE = 40;
const BETWEEN_MS = 700;
/** A running gateway looks for changes twice a second; the rest is for a machine that is busy. */
const TAKEN_UP_WITHIN_MS = 1_500;
const MODELS = { short: "sim-fast", long: "sim-fast@events=30,interval=40ms" };
const GROUPS = ["plain", "dear"] as const;

interface Version {
  price: { input: string; output: string };
  multiplier: string;
  modelMultiplier: string;
  group: (typeof GROUPS)[number];
}

/** Each step changes one thing: the price, the group's multiplier, the model's in that group, or the key's group. */
function versionAt(step: number): Version {
  const cents = (count: number) => `${Math.floor(count / 100)}.${String(count % 100).padStart(2, "0")}`;
  return {
    price: { input: cents(100 + Math.ceil(step / 4)), output: cents(400 + 3 * Math.ceil(step / 4)) },
    multiplier: cents(100 + 7 * Math.ceil((step + 1) / 4)),
    modelMultiplier: cents(110 + 11 * Math.ceil((step + 2) / 4)),
    group: GROUPS[Math.ceil((step + 3) / 4) % 2] ?? "plain",
  };
}

function buildFile(version: Version, simulatorUrl: string): object {
  const { price, multiplier, modelMultiplier, group } = version;
  const file = buildConfiguration(
    {
      models: MODELS,
      users: 1,
      balance: "1000.00",
      groups: GROUPS.map((name) => ({
        name,
        billing: {
          charge: "balance",
          // The same name in both would let a row of one pass for a row of the other.
          multiplier: name === "dear" ? `${multiplier}5` : multiplier,
          model_multipliers: { long: modelMultiplier },
        },
      })),
      findGroup: () => group,
    },
    simulatorUrl,
  );
  return { ...file, models: Object.keys(MODELS).map((id) => ({ id, interfaces: INTERFACES, price })) };
}

/** The tariffs of a version: of which model in the group that the key then had. */
function readTariffs({ price, multiplier, modelMultiplier, group }: Version) {
  const ofGroup = group === "dear" ? `${multiplier}5` : multiplier;
  return {
    short: makeTariff(price, { group: ofGroup }),
    long: makeTariff(price, { group: ofGroup, model: modelMultiplier }),
  };
}

interface InForce {
  group: string;
  tariffs: ReturnType<typeof readTariffs>;
  fromMs: number;
  toMs: number;
}

function inForce(version: Version, fromMs: number): InForce {
  return { group: version.group, tariffs: readTariffs(version), fromMs, toMs: Number.POSITIVE_INFINITY };
}

export const changes: Fault = {
  name: "changes",
  promise:
    "price, multipliers and group changed under load: each request is charged by what it was admitted under",
  async run({ times, store, say }) {
    const steps = times ?? CHANGES;
    let simulatorUrl = "";
    const rig = await openRig(store, (url) => {
      simulatorUrl = url;
      return buildFile(versionAt(0), url);
    });
    try {
      const versions = [inForce(versionAt(0), 0)];
      const load = startLoad(rig);
      for (let step = 1; step <= steps; step++) {
        await Bun.sleep(BETWEEN_MS);
        const version = versionAt(step);
        const fromMs = Date.now();
        await rig.apply(buildFile(version, simulatorUrl));
        const before = versions.at(-1);
        if (before !== undefined) before.toMs = Date.now() + TAKEN_UP_WITHIN_MS;
        versions.push(inForce(version, fromMs));
        if (step % 10 === 0 || steps < 10) say(`${step} of ${steps} changes`);
      }
      await Bun.sleep(TAKEN_UP_WITHIN_MS);
      const asked = await load.stop();
      await rig.end();
      const rows = await rig.rows(0);
      const audit = await rig.audit();
      const groups = await rig.db.sql`SELECT id, name FROM key_group`;
      const groupName = new Map(groups.map((row) => [String(row.id), String(row.name)]));
      const askedById = new Map(asked.map((one) => [one.requestId ?? "", one]));
      const verdicts = rows.map((row) => judge(row, askedById, versions, groupName));
      const used = new Set(verdicts.map(({ step }) => step));
      return [
        figure("changes / requests / rows", `${steps} / ${asked.length} / ${rows.length}`),
        checked(
          "versions that requests were charged by",
          used.size,
          `most of ${steps + 1}`,
          used.size > steps / 2,
        ),
        figure(
          "requests that ended after their version had been replaced in the store",
          verdicts.filter(({ outlived }) => outlived).length,
        ),
        none(
          "answers that were not whole",
          asked
            .filter(({ isWhole, status }) => !isWhole || status !== 200)
            .map(({ status, errorCode }) => `${status} ${errorCode}`),
        ),
        none("rows by a tariff that no version had for this model and group", wrong(verdicts, "unknown")),
        none("rows by a version that was not in force", wrong(verdicts, "untimely")),
        none("rows whose cost is not their tokens by their tariff", wrong(verdicts, "miscounted")),
        checked("rows", rows.length, `${asked.length}`, rows.length === asked.length),
        checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
      ];
    } finally {
      await rig.stop();
    }
  },
};

interface Judged {
  row: UsageRow;
  step: number;
  fault: "unknown" | "untimely" | "miscounted" | null;
  outlived: boolean;
}

function judge(
  row: UsageRow,
  asked: ReadonlyMap<string, ClientRecord>,
  versions: readonly InForce[],
  groupName: ReadonlyMap<string, string>,
): Judged {
  const model = row.publicModel === "long" ? "long" : "short";
  // Versions that differ in the other model or group alone share a tariff.
  const same = versions.filter(
    ({ group, tariffs }) => group === groupName.get(row.groupId) && tariffs[model].id === row.tariffId,
  );
  const [first] = same;
  if (first === undefined) return { row, step: -1, fault: "unknown", outlived: false };
  const step = versions.indexOf(first);
  const tariff = first.tariffs[model];
  const endedMs = row.atMs;
  const startedMs = asked.get(row.requestId)?.sentAtMs ?? row.atMs - row.durationMs;
  const isTimely = same.some(({ fromMs, toMs }) => startedMs <= toMs && endedMs >= fromMs);
  const cost = computeTariffCost(tariff, { ...row, imageKind: null });
  const isRight = row.costNano === cost && row.chargedNano === cost && cost > 0n;
  const fault = !isTimely ? "untimely" : isRight ? null : "miscounted";
  return { row, step, fault, outlived: same.every(({ toMs }) => endedMs > toMs - TAKEN_UP_WITHIN_MS) };
}

function wrong(verdicts: readonly Judged[], fault: Judged["fault"]): string[] {
  return verdicts
    .filter((one) => one.fault === fault)
    .map(({ row, step }) => `${row.requestId} version ${step} ${row.costNano}`);
}

function startLoad(rig: Rig): { stop(): Promise<ClientRecord[]> } {
  const asked: ClientRecord[] = [];
  let isOver = false;
  const workers = Array.from({ length: AT_ONCE }, async (_, worker) => {
    for (let i = worker; !isOver; i++) {
      const isLong = i % 3 === 0;
      asked.push(
        await sendRequest({
          url: rig.url(),
          key: buildKey(0),
          family: i % 2 === 0 ? "chat" : "responses",
          model: isLong ? "long" : "short",
          stream: isLong,
          prompt: `Question ${i}: what does this cost?`,
        }),
      );
      await Bun.sleep(Math.random() * 200);
    }
  });
  return {
    async stop() {
      isOver = true;
      await Promise.all(workers);
      return asked;
    },
  };
}

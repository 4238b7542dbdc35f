/** The last measurement of each figure of the budget, as `last-run.json` keeps it, and its table in docs/performance.md. */

import budget from "./budget.json";

/** One figure of a run. */
export interface MeasuredGoal {
  readonly title: string;
  readonly measured: number;
  readonly unit: string;
  readonly bound: "≤" | "≥";
  /** The day of the run. */
  readonly on: string;
  /** CPU of a request or event in microseconds, where the figure is a ratio of two processes. */
  readonly micros?: { readonly gateway: number; readonly nginx: number };
}

export interface LastRun {
  /** The machine of the last complete run. */
  readonly machine: string;
  readonly goals: readonly MeasuredGoal[];
}

/** A file in `results/`, as far as it is kept. */
export interface RunFile {
  readonly at: string;
  readonly machine: { cpu: string; cores: number; bun: string; nginx: string; loadBefore: number };
  readonly summary: {
    readonly loads: readonly {
      title: string;
      load: string;
      subject: string;
      process: { cpuMicros: number } | null;
    }[];
    readonly goals: readonly { title: string; measured: number; unit: string; bound: "≤" | "≥" }[];
  };
}

const LOADS: Readonly<Record<string, string>> = {
  "unary 1 KB, CPU against nginx": "unary-1k",
  "unary 20 KB, CPU against nginx": "unary-20k",
  "unary 200 KB, CPU against nginx": "unary-200k",
  "chat event, CPU against nginx": "sse-chat",
  "responses event, CPU against nginx": "sse-responses",
};

/** Figures that the run has measured replace those of earlier runs. */
export function addRun(last: LastRun, { at, machine, summary }: RunFile): LastRun {
  const micros = (load: string | undefined, subject: string) =>
    summary.loads.find((row) => row.load === load && row.subject === subject)?.process?.cpuMicros;
  const measured = summary.goals.map(({ title, measured, unit, bound }): MeasuredGoal => {
    const [gateway, nginx] = [micros(LOADS[title], "gateway"), micros(LOADS[title], "nginx")];
    const goal = { title, measured: round(measured), unit, bound, on: at.slice(0, 10) };
    return gateway === undefined || nginx === undefined
      ? goal
      : { ...goal, micros: { gateway: round(gateway), nginx: round(nginx) } };
  });
  const titles = new Set(measured.map(({ title }) => title));
  return {
    machine: `${machine.cpu}, ${machine.cores} cores, Bun ${machine.bun}, ${machine.nginx}`,
    goals: [...last.goals.filter(({ title }) => !titles.has(title)), ...measured],
  };
}

const TABLE = /<!-- measured: [^>]* -->[\s\S]*?<!-- \/measured -->/;

/** The page with the table of the budget and the last run between its markers. */
export function withMeasuredTable(page: string, last: LastRun): string {
  const rows = Object.entries(budget).map(([title, limit]) => {
    const goal = last.goals.find((one) => one.title === title);
    return goal === undefined
      ? `| ${title} | not measured | ${limit} | |`
      : `| ${title} | ${describeGoal(goal, limit)} | ${goal.bound} ${limit} ${goal.unit} | ${goal.on} |`;
  });
  const lines = [
    "<!-- measured: written by npm run docs:performance -->",
    "| Measure | Last run | Budget | Day |",
    "|---|---|---|---|",
    ...rows,
    "",
    `Machine: ${last.machine}. A figure over its budget is bold.`,
    "<!-- /measured -->",
  ];
  return page.replace(TABLE, () => lines.join("\n"));
}

function describeGoal({ measured, unit, bound, micros }: MeasuredGoal, limit: number): string {
  const isMet = bound === "≤" ? measured <= limit : measured >= limit;
  const figure = `${format(measured)} ${unit}`;
  const compared =
    micros === undefined ? "" : ` (${format(micros.gateway)} µs, nginx ${format(micros.nginx)} µs)`;
  return `${isMet ? figure : `**${figure}**`}${compared}`;
}

/** Three significant digits: a figure of one run has no more. */
function round(value: number): number {
  return Number(value.toPrecision(3));
}

function format(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 4 });
}

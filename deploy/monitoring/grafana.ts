/** Writes the dashboard in the format of Grafana. */

import { METRICS, type MetricName } from "../../src/observe/metric-catalogue.ts";
import type { Panel, Row } from "./dashboard-rows.ts";

/** A variable of the dashboard. */
const DATASOURCE = { type: "prometheus", uid: `$${"{datasource}"}` };
const COLUMNS = 24;
const PANEL = { width: 8, height: 8 };

interface Position {
  readonly x: number;
  readonly y: number;
}

export function buildDashboard(rows: readonly Row[]): object {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push(rowHeader(row.title, panels.length + 1, y));
    y += 1;
    row.panels.forEach((panel, i) => {
      const perLine = COLUMNS / PANEL.width;
      const position = { x: (i % perLine) * PANEL.width, y: y + Math.floor(i / perLine) * PANEL.height };
      panels.push(buildPanel(panel, panels.length + 1, position));
    });
    y += Math.ceil((row.panels.length * PANEL.width) / COLUMNS) * PANEL.height;
  }
  return {
    uid: "model-gateway",
    title: "Model Gateway",
    tags: ["model-gateway"],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    templating: { list: buildVariables() },
    panels,
  };
}

function rowHeader(title: string, id: number, y: number): object {
  return { id, type: "row", title, collapsed: false, gridPos: { x: 0, y, w: COLUMNS, h: 1 }, panels: [] };
}

function buildPanel({ title, about, unit, queries, kind }: Panel, id: number, { x, y }: Position): object {
  return {
    id,
    type: kind ?? "timeseries",
    title,
    ...(about === undefined ? {} : { description: about }),
    datasource: DATASOURCE,
    gridPos: { x, y, w: PANEL.width, h: PANEL.height },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: kind === "stat" ? {} : { legend: { displayMode: "list", placement: "bottom" } },
    targets: queries.map(({ query, legend }, i) => ({
      refId: String.fromCharCode(65 + i),
      datasource: DATASOURCE,
      expr: query,
      legendFormat: legend,
    })),
  };
}

function buildVariables(): object[] {
  return [
    { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" },
    labelVariable({ name: "node", label: "Node" }, "gateway_info", "instance"),
    labelVariable({ name: "model", label: "Model" }, "gateway_requests_total", "model"),
    labelVariable({ name: "group", label: "Group" }, "gateway_requests_waiting", "group"),
  ];
}

function labelVariable(
  { name, label }: { readonly name: string; readonly label: string },
  metric: MetricName,
  from: string,
): object {
  const labels: readonly string[] = METRICS[metric].labels;
  if (from !== "instance" && !labels.includes(from)) throw new Error(`${metric} has no label ${from}`);
  return {
    name,
    label,
    type: "query",
    datasource: DATASOURCE,
    query: { query: `label_values(${metric}, ${from})`, refId: name },
    refresh: 2,
    multi: true,
    includeAll: true,
    allValue: ".*",
    current: { text: "All", value: "$__all" },
  };
}

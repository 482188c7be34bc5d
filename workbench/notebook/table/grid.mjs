/** AG Grid as this table uses it: modules, look, and columns. */

import {
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ExternalFilterModule,
  NumberFilterModule,
  PinnedRowModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  RowStyleModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
  themeQuartz,
} from "ag-grid-community";

import { element } from "../part.mjs";
import { compare } from "./columns.mjs";
import { plural } from "./rows.mjs";

export const MODULES = [
  CellStyleModule,
  ClientSideRowModelApiModule,
  ClientSideRowModelModule,
  ColumnApiModule,
  ExternalFilterModule,
  NumberFilterModule,
  PinnedRowModule,
  QuickFilterModule,
  RenderApiModule,
  RowApiModule,
  RowSelectionModule,
  RowStyleModule,
  ScrollApiModule,
  TextFilterModule,
  TooltipModule,
];

export const ROW_HEIGHT = 28;
export const HEADER_HEIGHT = 32;

/** Colours are the variables of theme.css, so that light and dark need nothing here. */
export const THEME = themeQuartz.withParams({
  accentColor: "var(--wb-accent)",
  backgroundColor: "var(--wb-bg)",
  borderColor: "var(--wb-border)",
  borderRadius: 0,
  browserColorScheme: "inherit",
  cellHorizontalPadding: 8,
  chromeBackgroundColor: "var(--wb-surface)",
  dataFontSize: 13,
  fontFamily: "var(--wb-font)",
  fontSize: 13,
  foregroundColor: "var(--wb-text)",
  headerBackgroundColor: "var(--wb-surface)",
  headerFontSize: 12,
  headerFontWeight: 600,
  headerHeight: HEADER_HEIGHT,
  headerTextColor: "var(--wb-muted)",
  menuBackgroundColor: "var(--wb-raised)",
  rowHeight: ROW_HEIGHT,
  rowHoverColor: "var(--wb-hover)",
  selectedRowBackgroundColor: "var(--wb-accent-soft)",
  spacing: 5,
  wrapperBorder: false,
  wrapperBorderRadius: 0,
});

/**
 * @param {import("./columns.mjs").Column[]} columns
 * @param {() => import("./rows.mjs").Task[]} tasks
 * @param {() => number} largest  the largest share of a row in percent: its bar fills the cell
 */
export function columnDefinitions(columns, tasks, largest) {
  return columns.map((column) => ({
    colId: column.id,
    headerName: column.title,
    headerTooltip: column.about,
    hide: Boolean(column.hidden),
    width: column.width,
    minWidth: Math.min(column.width, 60),
    ...(column.grows ? { flex: 1, minWidth: 140 } : {}),
    sortable: true,
    resizable: true,
    sortingOrder: column.kind === "number" ? ["desc", "asc", null] : ["asc", "desc", null],
    filter: column.kind === "number" ? "agNumberColumnFilter" : "agTextColumnFilter",
    valueGetter: ({ data }) => (data.total ? totalValue(column.id, data.total) : column.value(data, tasks())),
    valueFormatter: ({ value, data }) => (data.total && value === null ? "" : column.format ? column.format(value) : (value ?? "")),
    comparator: (a, b, _nodeA, _nodeB, descending) => compare(a, b, descending),
    tooltipValueGetter: ({ data, value }) => tooltip(column, data, value, tasks()),
    ...(column.kind === "number" ? { cellClass: "wb-number", headerClass: "ag-right-aligned-header" } : {}),
    ...(column.id === "time_percent" ? { cellRenderer: (cell) => shareBar(cell, largest()) } : {}),
    ...(column.id === "state" ? { cellRenderer: stateChip } : {}),
    ...(column.id === "remarks" ? { cellRenderer: remarkChips } : {}),
  }));
}

/** What the totals row shows in a column; null shows nothing. */
function totalValue(id, total) {
  if (id === "node_name") return `${plural(total.count, "row")}, ${plural(total.tasks, "task")}`;
  return { time_us: total.time_us, time_percent: total.time_percent, flop: total.flop, gflops: total.gflops }[id] ?? null;
}

function tooltip(column, data, value, tasks) {
  if (data.total) return null;
  const state = tasks[data.task]?.state;
  if (column.id === "time_us" && data.time_us_iqr !== null) return `± ${data.time_us_iqr} us (distance between the quartiles)`;
  if (column.live) return state?.note || null;
  if (column.id === "task" && data.task !== null) {
    return `${tasks[data.task].name}: ${plural(tasks[data.task].rows.length, "row")}; ticking one ticks them all`;
  }
  if (column.kind === "number") return data.untunable ? `Cannot be tuned: ${data.untunable}` : null;
  return value || null;
}

function shareBar({ data, value, valueFormatted }, largest) {
  const text = element("span", { class: "wb-share-text" }, valueFormatted ?? "");
  if (data.total || value === null) return element("span", { class: "wb-share-cell" }, element("span"), text);
  const fill = element("span", { class: "wb-share-fill" });
  fill.style.width = `${Math.max(0, Math.min(100, (100 * value) / (largest || 1)))}%`;
  return element("span", { class: "wb-share-cell" }, element("span", { class: "wb-share-track", "aria-hidden": "true" }, fill), text);
}

const STATE_LOOK = { faster: "wb-good", finished: "wb-good", searching: "wb-active", failed: "wb-bad", stopped: "wb-warn" };

function stateChip({ value }) {
  return value ? element("span", { class: `wb-chip ${STATE_LOOK[value] ?? ""}` }, value) : element("span");
}

function remarkChips({ value }) {
  const words = value ? value.split("; ") : [];
  return element("span", {}, ...words.flatMap((word) => [element("span", { class: `wb-chip ${/^(NaN|Inf) /.test(word) ? "wb-bad" : ""}` }, word), " "]));
}

/**
 * The table's columns: what each shows, and how a value is written. Nothing here knows the grid.
 *
 * @typedef {object} Column
 * @property {string} id
 * @property {string} title
 * @property {string} about                     the tooltip of its heading
 * @property {"text" | "number"} kind
 * @property {(row: object, tasks: object[]) => any} value
 * @property {(value: any) => string} [format]
 * @property {boolean} [hidden]                 not shown until chosen
 * @property {number} width                     pixels
 * @property {boolean} [grows]                  takes what is left of the width
 * @property {boolean} [optional]               left out where no row has a value
 * @property {boolean} [live]                   changes while a search runs
 */

import { count, microseconds } from "../part.mjs";
import { flags } from "./rows.mjs";

const EMPTY = "–";

const stateOf = (row, tasks) => (row.task === null || row.task === undefined ? null : (tasks[row.task]?.state ?? null));
const field = (name) => (row) => row[name] ?? null;
const stateField = (name) => (row, tasks) => stateOf(row, tasks)?.[name] ?? null;
const fixed = (digits) => (value) =>
  value === null || value === undefined ? EMPTY : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (value) => (value !== null && value !== undefined && value > 0 && value < 0.01 ? "< 0.01" : fixed(2)(value));

/** Operations with a prefix: 1.85 G. */
export function operations(value) {
  if (value === null || value === undefined) return EMPTY;
  for (const [factor, prefix] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= factor) return `${(value / factor).toLocaleString("en-US", { maximumSignificantDigits: 3 })} ${prefix}`;
  }
  return String(value);
}

/** How many times faster: 1.70x; the sign says that it is a factor. */
export function factor(value) {
  return value === null || value === undefined ? EMPTY : `${value >= 100 ? value.toFixed(0) : value.toFixed(2)}x`;
}

/** @type {Column[]} */
export const COLUMNS = [
  { id: "row", title: "Row", about: "Place in the order of execution", kind: "number", value: field("row"), width: 62 },
  { id: "node_name", title: "Node Name", about: "The kernel call", kind: "text", value: field("node_name"), width: 220, grows: true },
  { id: "ops", title: "Ops", about: "Operators that are fused into the kernel", kind: "text", value: field("ops"), width: 150 },
  { id: "time_us", title: "Time(us)", about: "Median time in microseconds", kind: "number", value: field("time_us"), format: microseconds, width: 100 },
  { id: "time_us_iqr", title: "± IQR(us)", about: "Distance between the quartiles of the time", kind: "number", value: field("time_us_iqr"), format: microseconds, width: 96, hidden: true },
  { id: "time_percent", title: "Time(%)", about: "Share of the time of all rows", kind: "number", value: field("time_percent"), format: percent, width: 136 },
  { id: "shape", title: "Shape", about: "Shape of the output", kind: "text", value: field("shape"), width: 130 },
  { id: "dtype", title: "Dtype", about: "Type of the output", kind: "text", value: field("dtype"), width: 84, hidden: true },
  { id: "inputs", title: "Inputs", about: "Number of inputs", kind: "number", value: field("inputs"), width: 74 },
  { id: "outputs", title: "Outputs", about: "Number of outputs", kind: "number", value: field("outputs"), width: 82 },
  { id: "origins", title: "Origins", about: "Operators of your model that the row computes", kind: "text", value: field("origins"), width: 220, grows: true },
  { id: "flop", title: "FLOP", about: "Arithmetic operations of the call", kind: "number", value: field("flop"), format: operations, width: 84, hidden: true },
  { id: "gflops", title: "GFLOP/s", about: "Arithmetic operations a second, in billions", kind: "number", value: field("gflops"), format: fixed(1), width: 90 },
  { id: "limit_percent", title: "% of limit", about: "How close the call comes to what the machine could do with it", kind: "number", value: field("limit_percent"), format: fixed(1), width: 94, optional: true },
  { id: "match", title: "Match(%)", about: "How surely the row is tied to your model; Remarks say where it could be something else", kind: "number", value: field("match"), format: fixed(0), width: 92, optional: true },
  { id: "evidence", title: "Evidence", about: "What ties the row to your model, and what else it could be", kind: "text", value: field("evidence"), width: 220, optional: true },
  { id: "kernel", title: "Kernel", about: "Name of the kernel in the lowered module", kind: "text", value: field("kernel"), width: 170, hidden: true },
  { id: "task", title: "Task", about: "What is tuned: rows with the same task share one kernel", kind: "text", value: (row, tasks) => tasks[row.task]?.name ?? null, width: 150 },
  { id: "weight", title: "Calls", about: "Rows that call the same kernel", kind: "number", value: (row, tasks) => tasks[row.task]?.rows.length ?? null, width: 70, hidden: true },
  { id: "state", title: "State", about: "How far the search of the task is", kind: "text", value: (row, tasks) => stateOf(row, tasks)?.state || null, width: 96, live: true },
  { id: "best_us", title: "Best(us)", about: "Best time of one call that the search has found, beside the baseline that it measured", kind: "number", value: stateField("best_us"), format: microseconds, width: 92, live: true },
  { id: "gain", title: "Gain", about: "How many times faster than the untuned kernel the best is", kind: "number", value: stateField("gain"), format: factor, width: 74, live: true },
  { id: "baseline_us", title: "Baseline(us)", about: "Time of the untuned kernel, measured as the candidates are", kind: "number", value: stateField("baseline_us"), format: microseconds, width: 108, hidden: true, live: true },
  { id: "trials", title: "Trials", about: "Trials of the task", kind: "number", value: stateField("trials"), format: count, width: 74, hidden: true, live: true },
  { id: "errors", title: "Errors", about: "Failed trials of the task", kind: "number", value: stateField("errors"), format: count, width: 76, hidden: true, live: true },
  { id: "remarks", title: "Remarks", about: "NaN or infinite values in the output; an ambiguous match; why a row cannot be tuned", kind: "text", value: remarks, width: 150 },
];

/** What is wrong or special about a row, in words. */
export function remarks(row) {
  const words = flags(row);
  if (row.ambiguous) words.push("ambiguous match");
  if (row.untunable) words.push(`cannot be tuned: ${row.untunable}`);
  return words.join("; ");
}

/** Orders values of a column; what has none comes last, whichever way the column is sorted. */
export function compare(a, b, descending = false) {
  const noA = a === null || a === undefined || a === "";
  const noB = b === null || b === undefined || b === "";
  if (noA || noB) return noA === noB ? 0 : (noA ? 1 : -1) * (descending ? -1 : 1);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return COLLATOR.compare(String(a), String(b));
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

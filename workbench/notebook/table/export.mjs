/** Rows as CSV, JSON or tab-separated text: the columns and rows that are shown, in their order, values unrounded. */

const FORMULA = /^\s*[=+\-@＝＋－＠]/u;

/**
 * @param {{title: string}[]} columns
 * @param {any[][]} lines  one list of values a row
 */
export function toCsv(columns, lines) {
  return [columns.map((column) => column.title), ...lines].map((line) => line.map(csvCell).join(",")).join("\n") + "\n";
}

/** For the clipboard: spreadsheets split it into cells. */
export function toTabs(columns, lines) {
  return [columns.map((column) => column.title), ...lines].map((line) => line.map(tabCell).join("\t")).join("\n");
}

/** One object a row, keyed by the columns' titles. */
export function toJson(columns, lines, about = {}) {
  const rows = lines.map((line) => Object.fromEntries(columns.map((column, place) => [column.title, line[place] ?? null])));
  return JSON.stringify({ ...about, rows }, null, 1) + "\n";
}

/** A name for a file of a stranger's name. */
export function fileName(text, suffix) {
  const stem = text.normalize("NFKD").replace(/\p{M}+/gu, "").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/\.{2,}/g, ".").replace(/^[.\-_]+/, "").slice(0, 60);
  return `${stem || "model"}-profile.${suffix}`;
}

function csvCell(value) {
  const text = safeCell(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function tabCell(value) {
  return safeCell(value).replace(/[\t\n\r]+/g, " ");
}

/** Text that a spreadsheet does not take for a formula; an unknown value is an empty cell. */
function safeCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  return FORMULA.test(value) ? `'${value}` : String(value);
}

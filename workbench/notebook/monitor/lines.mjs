/** One line for each task: tick, share, baseline, best, gain, course, trials with their budget, failures, state. */
import { count, element, microseconds } from "../part.mjs";
import { budget, sparkPoints, times } from "./words.mjs";

const NO_BUDGET = "Give a whole number of at least 1, or nothing for no limit.";
const SVG = "http://www.w3.org/2000/svg";
const SPARK = { width: 72, height: 18 };
const CHIPS = { searching: "wb-active", finished: "wb-good", failed: "wb-bad", stopped: "wb-warn", dropped: "wb-warn" };
const HEADINGS = [
  ["", "Tick"],
  ["Kernel", ""],
  ["Share", "Share of the model's time in the profile"],
  ["Untuned us", "One call of the untuned kernel"],
  ["Best us", "One call with the best schedule"],
  ["Gain", "How many times as fast"],
  ["Course", "The best time so far, trial by trial, on a log scale"],
  ["Trials", "Trials, and how many there may be"],
  ["Failed", "Trials that failed"],
  ["State", ""],
];
const NUMERIC = new Set(["Share", "Untuned us", "Best us", "Gain", "Trials", "Failed"]);

/**
 * @param {import("../part.mjs").Part} part
 * @param {{canSteer: boolean, onPick: (task: string) => void, onAsk: (request: object) => void}} options
 */
export function makeLines(part, { canSteer, onPick, onAsk }) {
  const body = element("tbody");
  const head = HEADINGS.map(([text, title]) =>
    element("th", { scope: "col", title: title || null, class: NUMERIC.has(text) ? "wb-number" : null }, text || hidden(title)),
  );
  const table = element("table", { class: "wb-monitor-table" }, element("thead", {}, element("tr", {}, ...head)), body);
  const untouched = element("button", { class: "wb-button", type: "button", hidden: true });
  const host = element("div", { class: "wb-monitor-lines" }, table, untouched);
  /** @type {Map<string, {row: HTMLElement, line: any}>} */
  const rows = new Map();
  let all = false;
  let picked = "";

  untouched.addEventListener("click", () => {
    all = !all;
    arrange();
  });

  function show(lines) {
    for (const line of lines) {
      const known = rows.get(line.task);
      const row = makeRow(line, { canSteer, onPick, onAsk });
      if (known) known.row.replaceWith(keepFocus(known.row, row));
      else body.append(row);
      rows.set(line.task, { row, line });
      if (line.task === picked) row.classList.add("wb-picked");
    }
    arrange();
  }

  /** Tasks that were neither ticked nor searched are folded away. */
  function arrange() {
    const idle = [...rows.values()].filter(({ line }) => !line.ticked && !line.state);
    const searched = rows.size - idle.length;
    for (const { row } of idle) row.hidden = !all && searched > 0;
    for (const { row, line } of rows.values()) if (line.ticked || line.state) row.hidden = false;
    untouched.hidden = idle.length === 0 || searched === 0;
    untouched.textContent = all ? "Only tasks that are ticked or were searched" : `${count(idle.length)} more ${idle.length === 1 ? "task" : "tasks"}`;
  }

  return {
    host,
    show,
    clear() {
      rows.clear();
      body.replaceChildren();
    },
    pick(task) {
      rows.get(picked)?.row.classList.remove("wb-picked");
      picked = task;
      rows.get(task)?.row.classList.add("wb-picked");
    },
    nameOf: (task) => rows.get(task)?.line.name ?? task,
  };
}

function makeRow(line, { canSteer, onPick, onAsk }) {
  const name = element("button", { class: "wb-monitor-name", type: "button", title: line.ops, onclick: () => onPick(line.task) }, line.name);
  const tick = element("input", { type: "checkbox", "aria-label": `Tick ${line.name}`, disabled: !canSteer, checked: line.ticked });
  tick.addEventListener("change", () => {
    tick.disabled = true;
    onAsk(tick.checked ? { request: "add", task: line.task, trials: line.budget } : { request: "drop", task: line.task });
  });
  const number = (text, title) => element("td", { class: "wb-number", title: title ?? null }, text);
  return element(
    "tr",
    { "data-task": line.task },
    element("td", {}, tick),
    element("th", { scope: "row" }, swatch(line.colour), name),
    element("td", { class: "wb-number" }, share(line)),
    number(microseconds(line.before_us)),
    number(microseconds(line.now_us)),
    number(times(line.gain), line.verdict),
    element("td", {}, spark(line.spark ?? [])),
    element("td", { class: "wb-number" }, trials(line, { canSteer, onAsk })),
    number(line.failed ? count(line.failed) : ""),
    element("td", {}, line.state ? element("span", { class: `wb-chip ${CHIPS[line.state] ?? ""}`, title: line.why }, line.state) : ""),
  );
}

/** The colour of a task's points in the chart of all tasks. */
function swatch(colour) {
  const mark = element("span", { class: "wb-monitor-swatch", "aria-hidden": "true" });
  if (colour) mark.style.background = colour;
  return mark;
}

function share(line) {
  if (line.share === null) return element("span", { class: "wb-muted" }, "–");
  const fill = element("span", { class: "wb-monitor-fill" });
  fill.style.width = `${Math.min(line.share, 100)}%`;
  return element("span", { class: "wb-monitor-share" }, element("span", { class: "wb-monitor-track" }, fill), `${line.share.toFixed(1)} %`);
}

function spark(values) {
  const { width, height } = SPARK;
  const drawing = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" })) drawing.setAttribute(name, value);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", sparkPoints(values, width, height));
  drawing.append(line);
  return drawing;
}

function trials(line, { canSteer, onAsk }) {
  const done = element("span", { class: "wb-number" }, count(line.trials));
  const text = line.budget === null || line.budget === undefined ? "" : String(line.budget);
  const field = element("input", {
    class: "wb-input wb-monitor-budget",
    inputmode: "numeric",
    value: text,
    placeholder: line.limit ? count(line.limit) : "no limit",
    disabled: !canSteer || !line.ticked,
    "aria-label": `Most trials of ${line.name}`,
  });
  let asked = text;
  const commit = () => {
    if (field.value === asked) return;
    asked = field.value;
    const wanted = budget(field.value);
    field.setAttribute("aria-invalid", String(wanted === undefined));
    field.title = wanted === undefined ? NO_BUDGET : "";
    if (wanted !== undefined) onAsk({ request: "budget", task: line.task, trials: wanted });
  };
  field.addEventListener("change", commit);
  field.addEventListener("keydown", ({ key }) => key === "Enter" && commit());
  return element("span", { class: "wb-monitor-trials" }, done, " of ", field);
}

/** A row that is made anew must not take a budget out of the hands of the user who is typing it. */
function keepFocus(before, after) {
  const active = before.contains(document.activeElement) ? document.activeElement : null;
  if (active?.classList.contains("wb-monitor-budget")) {
    const field = after.querySelector(".wb-monitor-budget");
    field.replaceWith(active);
  } else if (active) {
    const place = [...before.querySelectorAll("button, input")].indexOf(active);
    queueMicrotask(() => after.querySelectorAll("button, input")[place]?.focus());
  }
  return after;
}

function hidden(text) {
  return element("span", { class: "wb-hidden-text" }, text);
}

/** What the shell says, as pure functions of the view that Python sends; nothing here knows a page. */

export const PHASES = {
  empty: "no model",
  preparing: "preparing",
  failed: "failed",
  profiled: "profiled",
  tuning: "tuning",
  paused: "paused",
  ending: "finishing",
  tuned: "tuned",
  stopped: "stopped",
  applying: "applying",
  applied: "applied",
};

export const RELAY = "relay";

/** The engine and its Python, which only that of an old TVM has. */
export function engineChoice(engine, python) {
  return { engine: engine || "relax", python: engine === RELAY ? python.trim() : "" };
}

/** The look of a phase's chip: a class of theme.css. */
export const LOOKS = {
  preparing: "wb-active",
  tuning: "wb-active",
  ending: "wb-active",
  applying: "wb-active",
  paused: "wb-warn",
  stopped: "wb-warn",
  failed: "wb-bad",
  tuned: "wb-good",
  applied: "wb-good",
};

export const WORKER_LOOKS = { ready: "wb-good", working: "wb-active", starting: "wb-active", halted: "wb-warn", gone: "wb-bad", none: "" };

/** A part of a whole: 83 %, < 1 %. */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  if (share > 0 && share < 0.005) return "< 1 %";
  return `${(100 * share).toFixed(0)} %`;
}

/** A factor: 1.70×. */
export function times(factor) {
  return `${factor >= 10 ? factor.toFixed(0) : factor.toFixed(2)}×`;
}

export function plural(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Seconds for people: 0.4 s, 12 s, 2 min 05 s. */
export function duration(seconds) {
  if (seconds < 9.95) return `${Math.max(seconds, 0).toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** How much is ticked: "5 tasks · 83 % of the time". */
export function ticked(selection) {
  if (!selection || !selection.count) return "nothing ticked";
  const share = selection.share === null || selection.share === undefined ? "" : ` · ${percent(selection.share)} of the ${selection.measured ? "time" : "FLOP"}`;
  return `${plural(selection.count, "task")}${share}`;
}

/** The forecast for a factor; null where there is none. */
export function forecast(selection, factor) {
  const found = (selection?.forecasts ?? []).find(([wanted]) => wanted === factor);
  return found ? found[1] : null;
}

/** Which of the buttons leads on: Resume where a search waits, Apply after a search, else Tune. */
export function leading(phase, actions) {
  if (actions.includes("resume")) return "resume";
  return phase === "tuned" && actions.includes("apply") ? "apply" : "tune";
}

/** A budget from a field: null for an empty one, NaN for one that is none. */
export function budget(text, { whole }) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  const value = Number(trimmed);
  return Number.isFinite(value) && value > 0 && (!whole || Number.isInteger(value)) ? value : NaN;
}

/** What is said of a field whose budget was refused. */
export function refusal(label, { whole }) {
  return `${label}: give ${whole ? "a whole number of at least 1" : "a number above 0"}, or nothing for no limit.`;
}

/** Steps with the time that has passed since they were told added to the one that runs. */
export function stepsNow(steps, passed, running) {
  return steps.map((step, place) => (running && place === steps.length - 1 ? { ...step, seconds: step.seconds + passed } : step));
}

/** The pieces of a file: offsets and lengths. */
export function pieces(size, length) {
  return Array.from({ length: Math.ceil(size / length) }, (_, place) => [place * length, Math.min(length, size - place * length)]);
}

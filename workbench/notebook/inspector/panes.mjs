/** What is no text: decisions and effects as tables, differences of decisions, and a re-run. Built of the records' own fields; all names are text. */

import { element, microseconds } from "../part.mjs";

/** @param {{knob: string, kind: string, block: string, loop: string, value: string, sampled: boolean}[]} knobs */
export function decisionsTable(knobs) {
  return table(
    "Decisions of the schedule",
    ["Block", "Loop", "Decision", "Value", "Chosen by"],
    knobs.map((knob) => [knob.block || "–", knob.loop || "–", knob.kind, mono(knob.value), knob.sampled ? "the search" : "the space"]),
  );
}

/** @param {{knob: string, left: string | null, right: string | null}[]} differences */
export function differencesTable(differences, left, right) {
  if (!differences.length) return element("p", { class: "wb-muted" }, "The two schedules decide the same.");
  return table(
    "Decisions in which the schedules differ",
    ["Decision", left, right],
    differences.map((one) => [one.knob, one.left === null ? muted("not there") : mono(one.left), one.right === null ? muted("not there") : mono(one.right)]),
  );
}

/** Which decisions matter, by the record `KnobEffects`. */
export function effectsPane(effects) {
  const rows = (effects.effects ?? []).map((effect) => [
    effect.knob,
    shareBar(effect.share),
    ratio(effect),
    effect.matters ? chip("matters", "wb-good") : chip(`chance alone: ${percent(effect.p_value)}`, ""),
    levels(effect.levels ?? []),
  ]);
  return element("div", {},
    effects.note ? element("p", { class: "wb-note" }, effects.note) : null,
    rows.length
      ? table("Effects of the decisions on the time", ["Decision", "Explains", "Slowest / fastest", "", "Values, fastest first"], rows)
      : element("p", { class: "wb-muted" }, "No decision differs between the measured trials."),
    element("p", { class: "wb-muted" }, `${effects.trials} trials. ${effects.method ?? ""}`),
  );
}

/** How far a trial is from its record, by the record `Rerun`. */
export function rerunPane(again) {
  const spread = (us, iqr) => (us === null || us === undefined ? "–" : `${microseconds(us)} us${iqr === null || iqr === undefined ? "" : ` ± ${microseconds(iqr)}`}`);
  const lines = [
    ["Result", again.status === "ok" ? chip("ok", "wb-good") : chip(again.status ?? "unknown", "wb-bad")],
    ["In the record", again.recorded_us === null && again.recorded_status ? again.recorded_status : spread(again.recorded_us, again.recorded_us_iqr)],
    ["Now", spread(again.measured_us, again.measured_us_iqr)],
    ["Distance", again.distance || "–"],
    ["Untuned kernel now", spread(again.baseline_us, again.baseline_us_iqr)],
    ["Gain now", again.gain || "–"],
    ["Conditions", again.same_conditions ? "those of the record" : "other than those of the record: versions, target, threads, device or caches differ"],
    ["Output", outputCheck(again.check)],
  ];
  return element("div", {},
    element("dl", { class: "wb-facts" }, ...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    again.error ? element("pre", { class: "wb-trace" }, again.error) : null,
  );
}

function outputCheck(check) {
  if (!check) return "not compared";
  if (check.mismatches === 0) return `agrees with the untuned kernel's in all ${check.elements.toLocaleString("en-US")} elements`;
  return `differs from the untuned kernel's in ${check.mismatches.toLocaleString("en-US")} of ${check.elements.toLocaleString("en-US")} elements`;
}

function table(caption, heads, lines) {
  return element("table", { class: "wb-facts-table" },
    element("caption", { class: "wb-hidden-text" }, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...lines.map((line) => element("tr", {}, ...line.map((cell) => element("td", {}, cell))))),
  );
}

function ratio({ ratio: value, ratio_low: low, ratio_high: high }) {
  if (value === null || value === undefined) return "–";
  return `${value.toFixed(2)}x${low !== null && high !== null ? ` (${low.toFixed(2)} to ${high.toFixed(2)})` : ""}`;
}

function levels(all) {
  const shown = all.slice(0, 4).map((level) => `${level.value}: ${level.relative_time.toFixed(2)}x in ${level.trials}`);
  return mono(shown.join("   ") + (all.length > shown.length ? `   … ${all.length - shown.length} more` : ""));
}

function shareBar(share) {
  const fill = element("span", { class: "wb-meter-fill" });
  fill.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return element("span", { class: "wb-meter" }, element("span", { class: "wb-meter-track", "aria-hidden": "true" }, fill), percent(share));
}

function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function mono(text) {
  return element("span", { class: "wb-mono" }, text);
}

function muted(text) {
  return element("span", { class: "wb-muted" }, text);
}

function chip(text, look) {
  return element("span", { class: `wb-chip ${look}` }, text);
}

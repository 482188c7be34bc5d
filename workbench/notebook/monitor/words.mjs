/** What a monitor says in words; pure functions, tested without a page. */
import { count } from "../part.mjs";

/** A time in whole seconds, or minutes and hours: `34 s`, `2 min 05 s`, `3 h 10 min`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const two = (number) => String(number).padStart(2, "0");
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${two(whole % 60)} s`
    : `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

/** How many times as fast; an en dash where that is unknown. */
export function times(gain) {
  return gain === null || gain === undefined ? "–" : `${gain.toFixed(2)}x`;
}

/** A time of the whole model: in milliseconds from 1 ms on. */
export function modelTime(us) {
  if (us === null || us === undefined) return "–";
  return us >= 1000 ? `${(us / 1000).toLocaleString("en-US", { maximumFractionDigits: 2, minimumFractionDigits: 2 })} ms` : `${us.toFixed(1)} us`;
}

/** Where the search stands, a short sentence each. */
export function standing(summary) {
  const said = [`${count(summary.trials)}${summary.limit === null ? "" : ` of ${count(summary.limit)}`} trials`];
  if (summary.failed > 0) said.push(`${count(summary.failed)} failed`);
  if (summary.per_s !== null) said.push(`${summary.per_s.toPrecision(2)} a second`);
  if (summary.spent_s !== null) said.push(`${duration(summary.spent_s)} spent`);
  if (summary.left_s !== null) said.push(`about ${duration(summary.left_s)} left`);
  return said;
}

/** The forecast of the whole model; empty while there is none. */
export function forecast(summary) {
  const { total_us: before, model_us: now } = summary;
  if (before === null || now === null) return "";
  return now < before ? `model ${modelTime(before)} → ${modelTime(now)} (${times(before / now)})` : `model ${modelTime(before)}, no gain yet`;
}

/** Points of a small line, for `<polyline points>`: 100 is at the top. */
export function sparkPoints(values, width, height) {
  if (values.length < 2) return "";
  const step = width / (values.length - 1);
  return values.map((value, place) => `${(place * step).toFixed(1)},${(1 + (1 - value / 100) * (height - 2)).toFixed(1)}`).join(" ");
}

/** A budget as it was typed: a whole number, null for none, undefined for what is neither. */
export function budget(text) {
  const typed = text.trim().replaceAll(",", "");
  if (typed === "") return null;
  return /^\d{1,9}$/.test(typed) && Number(typed) > 0 ? Number(typed) : undefined;
}

/** What a click on Pause, Resume or Stop can do now. */
export function controls(state, canSteer) {
  const runs = state !== "idle" && canSteer;
  return { pause: runs && state !== "paused", resume: runs && state === "paused", stop: runs };
}

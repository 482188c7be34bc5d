/** What the comparison says, as pure functions of the snapshot; nothing here knows a page. */

/** The look of a verdict: a class of theme.css. */
export const LOOKS = { faster: "wb-good", slower: "wb-bad", "no difference": "", unchanged: "", unmeasured: "wb-warn" };

/** How many times as fast it is, with its half-width: 1.70× ± 0.04. */
export function ratio({ ratio: value, ratio_error: error }) {
  if (value === null || value === undefined) return "–";
  return `${value.toFixed(2)}×${error === null || error === undefined ? "" : ` ± ${error.toFixed(2)}`}`;
}

/** Whether the results are right, in a sentence. */
export function verification({ verified, max_abs_err: absolute, max_rel_err: relative, seeds, reason }) {
  if (verified === null || verified === undefined) return `Not verified${reason ? `: ${reason}` : "."}`;
  if (!verified) return `Wrong results${reason ? `: ${reason}` : "."}`;
  const errors = [absolute === null ? null : `absolute ${number(absolute)}`, relative === null ? null : `relative ${number(relative)}`].filter(Boolean);
  const inputs = `${seeds} random input${seeds === 1 ? "" : "s"}`;
  return `Verified on ${inputs}${errors.length ? `; largest difference ${errors.join(", ")}` : ""}.`;
}

/** Kernels that have changed, and those that have not. */
export function changed(kernels) {
  return { tuned: kernels.filter(({ used }) => used === "record"), untuned: kernels.filter(({ used }) => used !== "record") };
}

/** How wide a bar is beside the slower of the two times, in percent. */
export function bars({ baseline_us: before, tuned_us: after }) {
  const most = Math.max(before ?? 0, after ?? 0);
  if (!most) return null;
  return { before: (100 * (before ?? 0)) / most, after: (100 * (after ?? 0)) / most };
}

function number(value) {
  return value === 0 ? "0" : value.toPrecision(2);
}

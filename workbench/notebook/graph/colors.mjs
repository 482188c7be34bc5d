/** What a box's colour says: its share of the time, its task, or how far that task's search is. Pure: colours come in as a palette. */

export const MODES = ["time", "task", "state"];
const SERIES = 9;

/** States with the palette's name of their colour, in the order of the legend. */
export const STATES = [
  ["faster", "good"],
  ["searching", "accent"],
  ["waiting", "warn"],
  ["not faster", "neutral"],
  ["finished", "neutral"],
  ["failed", "bad"],
  ["stopped", "warn"],
  ["dropped", "neutral"],
  ["not searched", "plain"],
  ["not tunable", "off"],
];
const COLOUR_OF = new Map(STATES);

/** The state of a row in one word. */
export function stateOf(row, progress) {
  if (row.untunable) return "not tunable";
  if (!progress) return "not searched";
  return progress.verdict || progress.state;
}

/** How hot a share of the hottest one is, from 0 to 1: small shares are still told apart. */
export const heat = (time, hottest) => (time > 0 && hottest > 0 ? Math.sqrt(Math.min(1, time / hottest)) : 0);

/** Tasks by time, the hottest first: each of the first nine has a colour of its own. */
export function taskColours(tasks) {
  const order = tasks.map((task, index) => [index, task.time_us ?? 0]).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  return new Map(order.slice(0, SERIES).map(([index], place) => [index, place]));
}

/** #rrggbb between two others. */
export function mix(from, to, share) {
  const parts = (colour) => [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
  const [a, b] = [parts(from), parts(to)];
  return `#${a.map((value, index) => Math.round(value + (b[index] - value) * share).toString(16).padStart(2, "0")).join("")}`;
}

/** How well one colour is read on another, from 1 to 21, as the accessibility guidelines count it. */
export function contrast(one, other) {
  const light = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((start) => {
      const share = parseInt(colour.slice(start, start + 2), 16) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}

/** A colour on a scale of several. */
export function onScale(scale, value) {
  const place = Math.max(0, Math.min(1, value)) * (scale.length - 1);
  const index = Math.min(Math.floor(place), scale.length - 2);
  return mix(scale[index], scale[index + 1], place - index);
}

/**
 * Fill and band of a box whose rows are given; a band is a strip of full colour at its left side.
 *
 * @param {string} mode
 * @param {object[]} rows              what the box computes
 * @param {{ hottest: number, tasks: Map<number, number>, progress: (row: object) => object | undefined }} known
 * @param {object} palette
 */
export function coloursOf(mode, rows, known, palette) {
  if (!rows.length) return { fill: palette.surface, band: null };
  const hot = rows.reduce((most, row) => ((row.time_us ?? -1) > (most.time_us ?? -1) ? row : most));
  if (mode === "time") {
    if (rows.every((row) => row.time_us === null)) return { fill: palette.raised, band: null };
    const time = rows.reduce((sum, row) => sum + (row.time_us ?? 0), 0);
    return { fill: onScale(palette.heat, heat(time, known.hottest)), band: null };
  }
  if (mode === "task") {
    const place = known.tasks.get(hot.task);
    const colour = place === undefined ? palette.neutral : palette.series[place];
    return { fill: mix(palette.raised, colour, 0.2), band: colour };
  }
  const state = stateOf(hot, known.progress(hot));
  const colour = palette[COLOUR_OF.get(state)] ?? palette.neutral;
  return { fill: state === "not searched" || state === "not tunable" ? palette.raised : mix(palette.raised, colour, 0.2), band: colour };
}

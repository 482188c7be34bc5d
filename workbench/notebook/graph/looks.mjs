/** How boxes are shown: colours, what stands at their foot, and their marks. Kept until something changes. */

import { coloursOf, contrast, stateOf } from "./colors.mjs";
import { gainText } from "./facts.mjs";
import { rowText, timeText } from "./scene.mjs";

const READABLE = 4.5;

export class Looks {
  /** @param {{ tasks: object[], hottest: number, colours: Map<number, number> }} model  what does not change */
  constructor(model) {
    this.model = model;
    this.known = new Map();
    this.tickedList = null;
    this.ticked = new Set();
  }

  clear() {
    this.known.clear();
  }

  /** Forgets one item, e.g. because it is not looked at any more. */
  forget(item) {
    if (item) this.known.delete(item.key);
  }

  /**
   * @param {import("./blocks.mjs").Item} item
   * @param {{ mode: string, ticked: number[], scene: object, palette: object, progress: Map<string, object>, found?: Set<number>, focused?: string, node: number | null }} state
   * @returns {import("./paint.mjs").Look}
   */
  of(item, state) {
    let look = this.known.get(item.key);
    if (!look) this.known.set(item.key, (look = this.make(item, state)));
    return look;
  }

  make(item, { mode, ticked, scene, palette, progress, found, focused, node }) {
    if (ticked !== this.tickedList) [this.tickedList, this.ticked] = [ticked, new Set(ticked)];
    const about = scene.aboutItem(item);
    const progressOf = (row) => progress.get(row.task_id);
    const { hottest, colours, tasks } = this.model;
    const isFound = found?.size ? about.units.some((unit) => found.has(unit)) : false;
    const painted = coloursOf(mode, about.rows, { hottest, tasks: colours, progress: progressOf }, palette);
    return {
      ...painted,
      soft: contrast(palette.soft, painted.fill) >= READABLE ? palette.soft : palette.text,
      footer: footerOf(about, mode, tasks, progressOf),
      ticked: about.rows.some((row) => this.ticked.has(row.row)),
      found: isFound,
      dim: Boolean(found?.size) && !isFound,
      focused: focused === item.key,
      line: focused === item.key ? node : null,
    };
  }
}

/** The line at the foot of a box: rows with what the colours show. */
export function footerOf({ rows, state, shape }, mode, tasks, progressOf) {
  if (!rows.length) return state === "eliminated" ? "nothing left to run" : state === "builtin" ? "VM builtin, no kernel" : shape;
  if (mode === "time") return `${rowText(rows)} · ${timeText(rows)}`;
  const distinct = new Set(rows.map((row) => row.task));
  if (distinct.size > 1) return `${rowText(rows)} · ${distinct.size} tasks`;
  const [row] = rows;
  if (mode === "task") return `${rowText(rows)} · ${tasks[row.task]?.name ?? ""}`;
  const progress = progressOf(row);
  const gain = progress?.before_us && progress.now_us ? ` ${(progress.before_us / progress.now_us).toFixed(2)}×` : "";
  return `${rowText(rows)} · ${stateOf(row, progress)}${gain}`;
}

/** What a box says while the pointer rests on it. */
export function hintOf({ lines, rows, shape }, progress) {
  const names = lines.map(({ strong, text }) => [strong, text].filter(Boolean).join(" ")).join("\n");
  const known = rows.length === 1 ? progress.get(rows[0].task_id) : null;
  return [names, rows.length ? `${rowText(rows)} · ${timeText(rows)}` : shape, known ? gainText(known) : ""].filter(Boolean).join("\n");
}

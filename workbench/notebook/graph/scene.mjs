/**
 * One of the two graphs as a view needs it: what each box says, how large it is, what it computes, how it is found. Pure.
 *
 * The data are those of `workbench.notebook.graph.snapshot`: columns of nodes and of units (boxes), and repeats in the units without constants.
 *
 * @typedef {import("./blocks.mjs").Item} Item
 */

import { itemAt, itemsOf, readersOf } from "./blocks.mjs";
import { draw } from "./drawing.mjs";
import { microseconds } from "../part.mjs";

const MOST_LINES = 9;
const LINE = 17;
const FOOTER = 16;
const EDGE = 7;
const LETTER = 6.7;
const NARROWEST = 120;
const WIDEST = 250;

export class Scene {
  /**
   * @param {"operators" | "kernels"} kind
   * @param {object} data   nodes, units, repeats
   * @param {object[]} rows of the profile
   */
  constructor(kind, data, rows) {
    this.kind = kind;
    this.nodes = data.nodes;
    this.units = data.units;
    this.repeats = data.repeats;
    this.rows = rows;
    this.kept = data.units.constant.flatMap((constant, unit) => (constant ? [] : [unit]));
    this.constants = data.units.constant.flatMap((constant, unit) => (constant ? [unit] : []));
    const place = new Map(this.kept.map((unit, index) => [unit, index]));
    this.placeOfUnit = place;
    this.reads = this.kept.map((unit) => data.units.reads[unit].filter((read) => place.has(read)).map((read) => place.get(read)));
    this.readers = readersOf(this.reads);
    this.unitOfNode = [];
    data.units.nodes.forEach((nodes, unit) => nodes.forEach((node) => (this.unitOfNode[node] = unit)));
    this.unitOfRow = new Map();
    data.units.row.forEach((row, unit) => row !== null && this.unitOfRow.set(row, unit));
    this.nodes.rows.forEach((own, node) => own.forEach((row) => this.unitOfRow.has(row) || this.unitOfRow.set(row, this.unitOfNode[node])));
    this.about = new Map();
  }

  /** Boxes and edges with the given blocks expanded; constants as boxes too if they are wanted. */
  draw(expanded, withConstants = false) {
    const items = itemsOf(0, this.kept.length, this.repeats, expanded);
    const drawing = draw(items, { reads: this.reads, readers: this.readers, size: (item) => this.aboutItem(item) }, withConstants ? this.constantItems(items) : []);
    return { ...drawing, items };
  }

  /** Constants that a box reads, and the boxes at the top that they lead to; those that only other constants read are part of them. */
  constantItems(items) {
    const readers = new Map(this.constants.map((unit) => [unit, new Set()]));
    for (const item of items) {
      for (let place = item.start; place < item.end; place++) {
        for (const read of this.units.reads[this.kept[place]]) readers.get(read)?.add(item);
      }
    }
    return this.constants
      .filter((unit) => readers.get(unit).size)
      .map((unit) => ({ item: { type: "constant", key: `k${unit}`, start: -1, end: -1, unit }, readers: [...readers.get(unit)] }));
  }

  /** The units of an item. */
  unitsOf(item) {
    return item.type === "constant" ? [item.unit] : this.kept.slice(item.start, item.end);
  }

  /** What an item says, its size, and the rows that it computes. */
  aboutItem(item) {
    const key = item.key;
    if (!this.about.has(key)) this.about.set(key, this.describe(item));
    return this.about.get(key);
  }

  describe(item) {
    const units = this.unitsOf(item);
    const numbers = [...new Set(units.flatMap((unit) => (this.units.row[unit] === null ? [] : [this.units.row[unit]])))];
    const rows = numbers.map((number) => this.rows[number]);
    const lines = item.type === "repeat" || item.type === "copy" ? this.blockLines(item, units) : this.unitLines(units[0]);
    const footer = rows.length > 0 || item.type !== "unit" || this.shapeOf(units[0]) !== "";
    const least = rows.length ? `${rowText(rows)} · ${timeText(rows)}`.length : footer ? 22 : 8;
    const letters = lines.reduce((most, line) => Math.max(most, line.strong.length * 1.16 + (line.text ? Math.min(line.text.length, 24) + 1 : 0)), least);
    const width = Math.max(NARROWEST, Math.min(WIDEST, Math.round(letters * LETTER) + 2 * EDGE + 10));
    const height = lines.length * LINE + (footer ? FOOTER : 0) + 2 * EDGE - 2;
    const state = item.type === "unit" || item.type === "constant" ? this.stateOf(units[0]) : "";
    return { lines, rows, footer, width, height, state, shape: item.type === "unit" ? this.shapeOf(units[0]) : "", units };
  }

  unitLines(unit) {
    const nodes = this.units.nodes[unit];
    const lines = nodes.slice(0, nodes.length > MOST_LINES ? MOST_LINES - 1 : MOST_LINES).map((node) => this.nodeLine(node));
    if (lines.length < nodes.length) lines.push({ strong: "", text: `… ${nodes.length - lines.length} more operators`, node: null });
    return lines;
  }

  nodeLine(node) {
    const { kind, op, name, state } = this.nodes;
    if (kind[node] === "input" || kind[node] === "output") return { strong: kind[node], text: name[node], node };
    return { strong: op[node], text: this.kind === "kernels" ? "" : name[node], node, idle: state[node] === "eliminated" };
  }

  blockLines(item, units) {
    const size = item.type === "repeat" ? (item.end - item.start) / item.copies : item.end - item.start;
    const ops = [...new Set(units.slice(0, size).flatMap((unit) => this.units.nodes[unit].map((node) => this.nodes.op[node])))];
    const what = size === 1 ? `${this.nodes.op[this.units.nodes[units[0]][0]]}` : `block of ${size} ${this.kind === "kernels" ? "kernels" : "boxes"}`;
    const strong = item.type === "repeat" ? `${item.copies} × ${what}` : `block ${item.number} of ${item.of}`;
    return [
      { strong, text: "", node: null },
      { strong: "", text: ops.join(", "), node: null },
    ];
  }

  /** The tensors of a box that is an input, an output or an idle operator: what else could stand under it. */
  shapeOf(unit) {
    const node = this.units.nodes[unit][this.units.nodes[unit].length - 1];
    return this.units.row[unit] === null ? this.nodes.outputs[node].join(", ") : "";
  }

  /** input, output, called, builtin or eliminated: of a box with several operators, that of what runs. */
  stateOf(unit) {
    const nodes = this.units.nodes[unit];
    if (this.units.row[unit] !== null) return "called";
    const kind = this.nodes.kind[nodes[0]];
    return kind === "input" || kind === "output" ? kind : this.nodes.state[nodes[0]] || "called";
  }

  /** Text that a search looks in, for each unit: operators, names, and kernel and task. */
  texts() {
    return this.units.nodes.map((nodes, unit) => {
      const row = this.rows[this.units.row[unit]];
      const own = nodes.flatMap((node) => [this.nodes.op[node], this.nodes.name[node]]);
      return [...own, ...(row ? [row.kernel, row.task_id] : [])].filter(Boolean).join("\n");
    });
  }

  /** The nodes that read a node. */
  nodeReaders(node) {
    if (!this.allReaders) this.allReaders = readersOf(this.nodes.reads);
    return this.allReaders[node];
  }

  /** The shown item that holds a unit; none if it is a constant that is not shown. */
  itemOfUnit(drawing, unit) {
    const place = this.placeOfUnit.get(unit);
    if (place === undefined) return drawing.boxes.find((box) => box.item.unit === unit)?.item;
    return itemAt(drawing.items, place);
  }
}

/** Sum of the times of rows in microseconds; null if none was measured. */
export function timeOf(rows) {
  const times = rows.map((row) => row.time_us).filter((time) => time !== null);
  return times.length ? times.reduce((sum, time) => sum + time, 0) : null;
}

/** A time with its share, e.g. `1,204 us · 31.0 %`. */
export function timeText(rows) {
  const time = timeOf(rows);
  if (time === null) return "not measured";
  const percent = rows.reduce((sum, row) => sum + (row.time_percent ?? 0), 0);
  return `${microseconds(time)} us · ${percent.toFixed(percent < 10 ? 2 : 1)} %`;
}

/** The rows of an item in few words. */
export function rowText(rows) {
  return rows.length === 1 ? `row ${rows[0].row}` : `${rows.length} rows`;
}

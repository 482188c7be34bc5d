/**
 * From items to a drawing: boxes, frames around expanded blocks, and the segments of edges, all with absolute places. Pure.
 *
 * @typedef {import("./blocks.mjs").Item} Item
 * @typedef {{ item: Item, x: number, y: number, width: number, height: number }} Placed     left, top
 * @typedef {{ value: number | null, from: Item | null, to: Item | null, scope: [number, number], segments: number[], trunk: Line | null, lanes: number }} Line
 *   an edge at the level of places `scope`, which passes its border where `from` or `to` is null: x1, y1, x2, y2 of each segment; one that is
 *   not upright is drawn as a curve. It begins with the first `lanes` lanes of its trunk, if it has one
 * @typedef {{ width: number, height: number, boxes: Placed[], frames: Placed[], lines: Line[], trunks: Line[] }} Drawing
 */

import { edgesOf } from "./blocks.mjs";
import { layered } from "./layout.mjs";

const PADDING = 16;
const TITLE = 24;

/**
 * @param {Item[]} items
 * @param {{ reads: number[][], readers: number[][], size: (item: Item) => { width: number, height: number } }} graph
 * @param {{ item: Item, readers: Item[] }[]} [constants]  boxes before all others, and the items that read them
 * @returns {Drawing}
 */
export function draw(items, graph, constants = []) {
  const drawing = { width: 0, height: 0, boxes: [], frames: [], lines: [], trunks: [] };
  const level = placeLevel(items, graph, constants);
  drawing.width = level.width;
  drawing.height = level.height;
  collect(level, 0, 0, drawing);
  return drawing;
}

/** One level with all that is inside of it, at places of its own. */
function placeLevel(items, graph, constants = []) {
  const { edges, incoming, outgoing } = edgesOf(items, graph.reads, graph.readers);
  const inside = new Map();
  const boxes = [];
  const index = new Map();
  const add = (key, box) => {
    index.set(key, boxes.length);
    boxes.push(box);
  };
  for (const value of incoming) add(`in${value}`, { width: 0, height: 0, pin: "first" });
  for (const { item } of constants) add(item, graph.size(item));
  for (const item of items) {
    if (!item.items) {
      add(item, graph.size(item));
      continue;
    }
    const level = placeLevel(item.items, graph);
    inside.set(item, level);
    add(item, { width: level.width + 2 * PADDING, height: level.height + PADDING + TITLE });
  }
  for (const value of outgoing) add(`out${value}`, { width: 0, height: 0, pin: "last" });
  const pairs = edges.map(({ value, from, to }) => [index.get(from ?? `in${value}`), index.get(to ?? `out${value}`)]);
  for (const { item, readers } of constants) for (const reader of readers) pairs.push([index.get(item), index.get(reader)]);
  const placed = layered(boxes, pairs);
  return { items, constants, edges, boxes, index, inside, incoming, outgoing, placed, width: placed.width, height: placed.height };
}

function collect(level, left, top, drawing) {
  const { items, constants, edges, boxes, index, inside, placed } = level;
  const at = (key) => {
    const place = index.get(key);
    return { x: left + placed.x[place] - boxes[place].width / 2, y: top + placed.y[place], width: boxes[place].width, height: boxes[place].height };
  };
  for (const item of [...constants.map((constant) => constant.item), ...items]) {
    const box = { item, ...at(item) };
    const nested = inside.get(item);
    if (nested) {
      drawing.frames.push(box);
      collect(nested, box.x + PADDING, box.y + TITLE, drawing);
    } else {
      drawing.boxes.push(box);
    }
  }
  addLines(level, left, top, drawing, edges);
}

/** Where an edge leaves or enters a box: its middle; at a frame, above or below the port inside. */
function end(level, key, value, left, top, side) {
  const place = level.index.get(key);
  const { placed, boxes, inside } = level;
  const y = top + placed.y[place] + (side === "out" ? boxes[place].height : 0);
  const nested = inside.get(key);
  if (!nested) return [left + placed.x[place], y];
  const port = nested.index.get(`${side}${value}`);
  return [left + placed.x[place] - boxes[place].width / 2 + PADDING + (port === undefined ? nested.width / 2 : nested.placed.x[port]), y];
}

/** Frames reach from their ports to their own edge. */
function stub(level, key, value, left, top, side) {
  const nested = level.inside.get(key);
  if (!nested || nested.index.get(`${side}${value}`) === undefined) return [];
  const [x, y] = end(level, key, value, left, top, side);
  return side === "in" ? [x, y, x, y + TITLE] : [x, y - PADDING, x, y];
}

/** The lines of one level. Lines of one source share its trunk, the part that runs down the lanes. */
function addLines(level, left, top, drawing, edges) {
  const { placed, index } = level;
  const routes = new Map(placed.routes.map((route) => [route.source, route]));
  const scope = level.items.length ? [level.items[0].start, level.items[level.items.length - 1].end] : [0, 0];
  const all = [...edges, ...level.constants.flatMap(({ item, readers }) => readers.map((to) => ({ value: null, from: item, to })))];
  const trunks = new Map();
  for (const { value, from, to } of all) {
    const source = from ?? `in${value}`;
    const target = to ?? `out${value}`;
    const [start, stop] = [index.get(source), index.get(target)];
    const leave = end(level, source, value, left, top, "out");
    const enter = end(level, target, value, left, top, "in");
    const segments = [...stub(level, source, value, left, top, "out"), ...stub(level, target, value, left, top, "in")];
    const floor = [leave[0], top + placed.bottoms[placed.rank[start]]];
    if (floor[1] > leave[1] + 0.5) segments.push(...leave, ...floor);
    const ceiling = [enter[0], top + placed.tops[placed.rank[stop]]];
    if (enter[1] > ceiling[1] + 0.5) segments.push(...ceiling, ...enter);
    const count = routes.get(start)?.ends.get(stop) ?? 0;
    const trunk = count ? trunkOf(trunks, `${start}:${value}`, drawing, { value, from, scope }) : null;
    if (trunk) extend(trunk, floor, routes.get(start).lanes.slice(trunk.points.length, count), left, top);
    segments.push(...(trunk ? trunk.points[count - 1] : floor), ...ceiling);
    drawing.lines.push({ value, from, to, scope, segments, trunk, lanes: count });
  }
}

function trunkOf(trunks, key, drawing, line) {
  if (!trunks.has(key)) {
    trunks.set(key, { ...line, to: null, segments: [], points: [], ends: [] });
    drawing.trunks.push(trunks.get(key));
  }
  return trunks.get(key);
}

/** Leads a trunk down more lanes; `ends` has the number of its segments' numbers after each lane. */
function extend(trunk, floor, lanes, left, top) {
  for (const lane of lanes) {
    const before = trunk.points[trunk.points.length - 1] ?? floor;
    const [x, high, low] = [left + lane.x, top + lane.top, top + lane.bottom];
    trunk.segments.push(...before, x, high);
    if (low > high) trunk.segments.push(x, high, x, low);
    trunk.points.push([x, low]);
    trunk.ends.push(trunk.segments.length);
  }
}

/** Finds what is in a stretch from top to bottom: things by bands of equal height. */
export class Bands {
  constructor(height = 512) {
    this.height = height;
    this.bands = new Map();
    this.visit = 0;
  }

  add(thing, top, bottom) {
    const entry = { thing, visit: 0 };
    for (let band = Math.floor(top / this.height); band <= Math.floor(bottom / this.height); band++) {
      if (!this.bands.has(band)) this.bands.set(band, []);
      this.bands.get(band).push(entry);
    }
  }

  /** Calls `visit` once for each thing between two heights. */
  between(top, bottom, visit) {
    const now = ++this.visit;
    for (let band = Math.floor(top / this.height); band <= Math.floor(bottom / this.height); band++) {
      for (const entry of this.bands.get(band) ?? []) {
        if (entry.visit === now) continue;
        entry.visit = now;
        visit(entry.thing);
      }
    }
  }
}

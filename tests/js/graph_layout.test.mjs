import assert from "node:assert/strict";
import { test } from "node:test";

import { allKeys, copyKey, countBoxes, edgesOf, itemAt, itemsOf, pathTo, readersOf, repeatKey } from "../../workbench/notebook/graph/blocks.mjs";
import { draw } from "../../workbench/notebook/graph/drawing.mjs";
import { layered } from "../../workbench/notebook/graph/layout.mjs";
import { linesAround, neighbour } from "../../workbench/notebook/graph/navigate.mjs";

/** Equal numbers for equal seeds. */
function random(seed) {
  return () => {
    seed = (seed * 1664525 + 1013904223) % 4294967296;
    return seed / 4294967296;
  };
}

function randomGraph(seed, count, far = 12) {
  const next = random(seed);
  const boxes = Array.from({ length: count }, () => ({ width: 60 + Math.floor(next() * 120), height: 24 + Math.floor(next() * 60) }));
  const edges = [];
  for (let to = 1; to < count; to++) for (let edge = 0; edge < 1 + next() * 2; edge++) edges.push([Math.max(0, to - 1 - Math.floor(next() * far)), to]);
  return { boxes, edges };
}

function assertNoOverlap(boxes, { x, y }) {
  const order = boxes.map((_, index) => index).sort((a, b) => y[a] - y[b]);
  order.forEach((one, place) => {
    for (const other of order.slice(place + 1)) {
      if (y[other] >= y[one] + boxes[one].height) break;
      const away = Math.abs(x[one] - x[other]) - (boxes[one].width + boxes[other].width) / 2;
      assert.ok(away > -1e-6, `boxes ${one} and ${other} overlap by ${-away}`);
    }
  });
}

for (let seed = 0; seed < 8; seed++) {
  test(`boxes never overlap, and every edge leads down (random graph ${seed})`, () => {
    const { boxes, edges } = randomGraph(seed, 150);
    const placed = layered(boxes, edges);
    assertNoOverlap(boxes, placed);
    for (const [from, to] of edges) assert.ok(placed.y[from] + boxes[from].height < placed.y[to], `edge ${from} to ${to}`);
    boxes.forEach((box, index) => {
      assert.ok(placed.x[index] - box.width / 2 >= -1e-6 && placed.x[index] + box.width / 2 <= placed.width + 1e-6);
      assert.ok(placed.y[index] >= 0 && placed.y[index] + box.height <= placed.height + 1e-6);
    });
  });
}

test("a chain is a straight line", () => {
  const boxes = Array.from({ length: 20 }, () => ({ width: 100, height: 30 }));
  const { x, rank } = layered(boxes, boxes.slice(1).map((_, index) => [index, index + 1]));
  assert.deepEqual(rank, boxes.map((_, index) => index));
  assert.equal(new Set(x.map((value) => Math.round(value * 100))).size, 1);
});

test("a diamond does not cross itself", () => {
  const boxes = Array.from({ length: 6 }, () => ({ width: 80, height: 30 }));
  const { x } = layered(boxes, [[0, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 5]]);
  assert.equal(x[1] < x[2], x[3] < x[4]);
});

test("long edges pass ranks in lanes where no box is", () => {
  const boxes = Array.from({ length: 8 }, () => ({ width: 100, height: 30 }));
  const edges = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [0, 7], [1, 6]];
  const placed = layered(boxes, edges);
  const lanes = placed.routes.flatMap((route) => route.lanes);
  assert.equal(lanes.length, 6 + 4);
  for (const lane of lanes) {
    boxes.forEach((box, index) => {
      const besides = Math.abs(lane.x - placed.x[index]) >= box.width / 2;
      assert.ok(besides || lane.bottom <= placed.y[index] || lane.top >= placed.y[index] + box.height, "a lane runs through a box");
    });
  }
});

test("readers far away share the lanes of one source", () => {
  const boxes = Array.from({ length: 200 }, () => ({ width: 60, height: 20 }));
  const edges = boxes.slice(1).flatMap((_, index) => [[index, index + 1], [0, index + 1]]);
  const { routes } = layered(boxes, edges);
  assert.equal(routes[0].lanes.length, 198);
  assert.equal(routes[0].ends.get(199), 198);
});

test("what reads nothing stands right above its reader", () => {
  const boxes = Array.from({ length: 5 }, () => ({ width: 60, height: 20 }));
  assert.deepEqual(layered(boxes, [[0, 1], [1, 2], [2, 4], [3, 4]]).rank, [0, 1, 2, 2, 3]);
});

test("an empty graph has no size", () => {
  const { width, height } = layered([], []);
  assert.deepEqual([width, height], [0, 0]);
});

// blocks

const REPEATS = [{ start: 2, size: 4, copies: 3, inner: [{ start: 1, size: 1, copies: 2, inner: [] }] }];
const CHAIN = Array.from({ length: 16 }, (_, place) => (place ? [place - 1] : []));

test("a repeat is one box until it is expanded, then one box a copy, then what is in it", () => {
  const keys = (items) => items.map(({ key }) => key);
  assert.deepEqual(keys(itemsOf(0, 16, REPEATS, new Set())), ["u0", "u1", "r2x4", "u14", "u15"]);
  const copies = itemsOf(0, 16, REPEATS, new Set(["r2x4"]));
  assert.deepEqual(keys(copies), ["u0", "u1", "c2x4", "c6x4", "c10x4", "u14", "u15"]);
  const inside = itemsOf(0, 16, REPEATS, new Set(["r2x4", "c6x4"]));
  assert.deepEqual(keys(inside[3].items), ["u6", "r7x1", "u9"]);
  assert.equal(countBoxes(inside), 9);
});

test("the path to a box names what has to be expanded, from the outside in", () => {
  assert.deepEqual(pathTo(8, REPEATS), [repeatKey(2, 4), copyKey(6, 4), repeatKey(7, 1)]);
  assert.deepEqual(pathTo(1, REPEATS), []);
  for (let place = 0; place < 16; place++) {
    const items = itemsOf(0, 16, REPEATS, new Set(pathTo(place, REPEATS)));
    assert.equal(itemAt(items, place).key, `u${place}`);
  }
});

test("all keys expand everything", () => {
  assert.equal(countBoxes(itemsOf(0, 16, REPEATS, new Set(allKeys(REPEATS)))), 16);
});

test("a value enters a block once, however many read it inside", () => {
  const reads = [[], [0], [0, 1], [0, 2], [3]];
  const items = [{ type: "unit", key: "u0", start: 0, end: 1 }, { type: "copy", key: "c", start: 1, end: 4 }, { type: "unit", key: "u4", start: 4, end: 5 }];
  const { edges, incoming } = edgesOf(items, reads, readersOf(reads));
  assert.deepEqual(edges.map(({ value, from, to }) => [value, from?.key, to?.key]), [[0, "u0", "c"], [3, "c", "u4"]]);
  assert.deepEqual(incoming, []);
  const inside = edgesOf([items[1]], reads, readersOf(reads));
  assert.deepEqual([inside.incoming, inside.outgoing], [[0], [3]]);
});

const graph = (reads) => ({ reads, readers: readersOf(reads), size: () => ({ width: 100, height: 40 }) });

test("boxes lie inside the frames of their blocks, and frames do not overlap other boxes", () => {
  const reads = CHAIN.map((own, place) => (place === 15 ? [14, 0] : own));
  const items = itemsOf(0, 16, REPEATS, new Set(allKeys(REPEATS)));
  const drawing = draw(items, graph(reads));
  assert.equal(drawing.boxes.length, 16);
  assert.equal(drawing.frames.length, 3);
  for (const frame of drawing.frames) {
    for (const box of drawing.boxes) {
      const inside = frame.item.start <= box.item.start && box.item.end <= frame.item.end;
      const within = box.x >= frame.x && box.y >= frame.y && box.x + box.width <= frame.x + frame.width && box.y + box.height <= frame.y + frame.height;
      const apart = box.x >= frame.x + frame.width || box.x + box.width <= frame.x || box.y >= frame.y + frame.height || box.y + box.height <= frame.y;
      assert.ok(inside ? within : apart);
    }
  }
});

test("the pieces of every line join end to end, from one box to the other", () => {
  const reads = CHAIN.map((own, place) => (place > 4 ? [...own, 0] : own));
  const drawing = draw(itemsOf(0, 16, REPEATS, new Set(["r2x4", "c6x4"])), graph(reads));
  for (const line of drawing.lines) {
    const pieces = [];
    const segments = [...(line.trunk && line.lanes ? line.trunk.segments.slice(0, line.trunk.ends[line.lanes - 1]) : []), ...line.segments];
    for (let index = 0; index < segments.length; index += 4) pieces.push(segments.slice(index, index + 4));
    const ends = new Map();
    for (const [x1, y1, x2, y2] of pieces) for (const key of [`${x1.toFixed(2)},${y1.toFixed(2)}`, `${x2.toFixed(2)},${y2.toFixed(2)}`]) ends.set(key, (ends.get(key) ?? 0) + 1);
    assert.equal([...ends.values()].filter((count) => count === 1).length, 2, `line ${line.from?.key} to ${line.to?.key}`);
  }
});

test("the arrow keys follow the edges, into collapsed blocks too", () => {
  const known = graph(CHAIN);
  const drawing = { ...draw(itemsOf(0, 16, REPEATS, new Set()), known) };
  drawing.items = itemsOf(0, 16, REPEATS, new Set());
  const go = (direction, key) => neighbour(direction, drawing.boxes.find(({ item }) => item.key === key).item, drawing, known, itemAt)?.item.key;
  assert.equal(go("down", "u1"), "r2x4");
  assert.equal(go("down", "r2x4"), "u14");
  assert.equal(go("up", "r2x4"), "u1");
  assert.equal(go("up", "u0"), undefined);
});

test("the lines of a box are lit through the frames around it, and no others", () => {
  const items = itemsOf(0, 16, REPEATS, new Set(["r2x4", "c6x4"]));
  const known = graph(CHAIN);
  const drawing = draw(items, known);
  const names = (item) => [...linesAround(item, drawing.lines, known)].map(({ value, from, to }) => `${value}:${from?.key ?? "border"}>${to?.key ?? "border"}`).sort();
  assert.deepEqual(names(itemAt(items, 6)), ["5:border>u6", "5:c2x4>c6x4", "6:u6>r7x1"]);
  assert.deepEqual(names(itemAt(items, 10)), ["13:c10x4>u14", "9:c6x4>c10x4", "9:u9>border"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { fit, inSight, resized, reveal, start, toDrawing, zoomAt } from "../../workbench/notebook/graph/camera.mjs";
import { coloursOf, contrast, heat, mix, onScale, stateOf, taskColours } from "../../workbench/notebook/graph/colors.mjs";
import { factsOf } from "../../workbench/notebook/graph/facts.mjs";
import { Matches } from "../../workbench/notebook/graph/matches.mjs";
import { indexed, paint } from "../../workbench/notebook/graph/paint.mjs";
import { Scene } from "../../workbench/notebook/graph/scene.mjs";
import { Search, faultOf, matching } from "../../workbench/notebook/graph/search.mjs";
import { carried, rowOf, selectionOf } from "../../workbench/notebook/graph/selection.mjs";
import { Shortener, SvgSurface } from "../../workbench/notebook/graph/surfaces.mjs";

// camera

const DRAWING = { width: 400, height: 4000 };
const VIEW = { width: 800, height: 600 };

test("zooming keeps the point under the pointer", () => {
  const before = { scale: 0.8, x: 30, y: 70 };
  const after = zoomAt(before, 1.7, 321, 123);
  const [x, y] = toDrawing(before, 321, 123);
  const [x2, y2] = toDrawing(after, 321, 123);
  assert.ok(Math.abs(x - x2) < 1e-9 && Math.abs(y - y2) < 1e-9);
});

test("all of a drawing is in sight after fit, and a long one begins readable", () => {
  const camera = fit(DRAWING, VIEW);
  assert.ok(toDrawing(camera, 0, 0)[1] <= 0 && toDrawing(camera, 0, VIEW.height)[1] >= DRAWING.height);
  assert.ok(start(DRAWING, VIEW).scale >= 0.55);
});

test("a box that is revealed is in sight, and one that was in sight does not move", () => {
  const camera = { scale: 1, x: 0, y: 0 };
  const moved = reveal(camera, { x: 300, y: 3000, width: 100, height: 40 }, VIEW);
  assert.ok(moved.y <= 3000 && moved.y + VIEW.height >= 3040);
  assert.deepEqual(reveal(camera, { x: 100, y: 100, width: 100, height: 40 }, VIEW), camera);
});

test("a box that is revealed does not lie below the small map", () => {
  const corner = { width: 150, height: 150 };
  const camera = { scale: 1, x: 0, y: 0 };
  const below = { x: 660, y: 500, width: 80, height: 40 };
  assert.equal(reveal(camera, below, VIEW, { corner }).y, 540 - (VIEW.height - corner.height));
  assert.deepEqual(reveal(camera, { ...below, x: 500 }, VIEW, { corner }), camera, "beside it there is room");
  const tall = { x: 700, y: 50, width: 200, height: 540 };
  assert.equal(reveal(camera, tall, VIEW, { corner }).y, 50, "its top stays in sight");
  const far = reveal(camera, { ...below, y: 3000 }, VIEW, { corner });
  assert.ok(3040 - far.y <= VIEW.height - corner.height);
});

test("what is in the middle stays there when the view gets another size", () => {
  const camera = { scale: 0.5, x: 40, y: 900 };
  const small = { width: 300, height: 240 };
  const after = resized(camera, VIEW, small);
  assert.deepEqual(toDrawing(after, small.width / 2, small.height / 2), toDrawing(camera, VIEW.width / 2, VIEW.height / 2));
});

test("the drawing cannot be lost", () => {
  const camera = inSight({ scale: 1, x: 99999, y: -99999 }, DRAWING, VIEW);
  assert.ok(camera.x < DRAWING.width && camera.y + VIEW.height > 0);
});

// colours

const ROW = { row: 0, time_us: 10, task: 0, untunable: "" };
const PALETTE = {
  raised: "#ffffff", surface: "#eeeeee", neutral: "#888888", good: "#00aa00", bad: "#aa0000", warn: "#aaaa00", accent: "#0000ff",
  border: "#cccccc", outline: "#bbbbbb", edge: "#999999", text: "#000000", soft: "#333333", muted: "#555555", plain: "#cccccc", off: "#dddddd", bg: "#ffffff",
  accentSoft: "#ddddff", focusEdge: "#bb8800",
  heat: ["#000000", "#ffffff"], series: Array.from({ length: 9 }, (_, index) => `#00000${index}`),
};

test("the hottest row is the end of the scale, and small ones are told apart", () => {
  assert.equal(heat(100, 100), 1);
  assert.ok(heat(1, 100) >= 0.1);
  assert.equal(heat(null, 100), 0);
  assert.equal(onScale(["#000000", "#808080", "#ffffff"], 1), "#ffffff");
  assert.equal(mix("#000000", "#ffffff", 0.5), "#808080");
});

test("contrast is that of the guidelines", () => {
  assert.equal(contrast("#000000", "#ffffff"), 21);
  assert.equal(contrast("#777777", "#777777"), 1);
  assert.ok(Math.abs(contrast("#767676", "#ffffff") - 4.54) < 0.01);
});

test("a state is that of the final, else of the search, else why there is none", () => {
  assert.equal(stateOf({ untunable: "dynamic shape" }, undefined), "not tunable");
  assert.equal(stateOf({ untunable: "" }, undefined), "not searched");
  assert.equal(stateOf({ untunable: "" }, { state: "searching", verdict: "" }), "searching");
  assert.equal(stateOf({ untunable: "" }, { state: "finished", verdict: "faster" }), "faster");
});

test("the nine hottest tasks have colours of their own, the others share one", () => {
  const tasks = Array.from({ length: 12 }, (_, index) => ({ time_us: index }));
  const colours = taskColours(tasks);
  assert.equal(colours.size, 9);
  assert.equal(colours.get(11), 0);
  assert.equal(colours.get(2), undefined);
  const known = { hottest: 10, tasks: colours, progress: () => undefined };
  assert.equal(coloursOf("task", [{ ...ROW, task: 2 }], known, PALETTE).band, PALETTE.neutral);
  assert.equal(coloursOf("time", [{ ...ROW, time_us: null }], known, PALETTE).fill, PALETTE.raised);
});

// search

test("a pattern is found whatever the letters' case, line by line", () => {
  assert.deepEqual(matching("^conv", ["Conv\na", "a\nconv1", "deconv"]), [0, 1]);
  assert.match(faultOf("("), /./);
  assert.equal(faultOf("a|b"), "");
});

test("plain text needs no worker, and a broken pattern says so", async () => {
  const search = new Search({ make: () => assert.fail("no worker is needed") });
  assert.deepEqual((await search.find("Conv", ["deconv", "relu"])).found, [0]);
  assert.match((await search.find("(", ["a"])).problem, /no regular expression/);
});

const fakeWorker = (answer) => ({
  terminated: false,
  terminate() {
    this.terminated = true;
  },
  postMessage(message) {
    answer?.(this, message);
  },
});

test("a pattern that takes too long is ended", async () => {
  const worker = fakeWorker();
  const search = new Search({ make: () => worker, patience: 5 });
  assert.match((await search.find("(a+)+$", ["aaaa!"])).problem, /too long/);
  assert.ok(worker.terminated);
});

test("a new search ends the one before, which then says nothing", async () => {
  const search = new Search({ make: () => fakeWorker(), patience: 10_000 });
  const first = search.find("a+", ["a"]);
  const second = search.find("b", ["b"]);
  assert.equal(await first, null);
  assert.deepEqual((await second).found, [0]);
});

test("a page without workers searches plain text and says why no more", async () => {
  const search = new Search({
    make() {
      throw new Error("blocked");
    },
  });
  assert.match((await search.find("a+", ["a"])).problem, /plain text/);
});

// the scene: input, conv + relu in row 0, dropout, softmax in row 1, output; and one constant

const NODES = {
  kind: ["input", "operator", "operator", "operator", "operator", "operator", "output"],
  op: ["", "Conv", "Relu", "Constant", "Dropout", "Soft<max>", ""],
  name: ["x", "/c", "/r", "/k", "/d", "<img src=x onerror=alert(1)>", "y"],
  location: ["", "", "line 3", "", "", "", ""],
  attributes: [{}, { pads: "[1, 1]" }, {}, {}, {}, {}, {}],
  outputs: [["float32 (1, 3)"], ["float32 (1, 4)"], ["float32 (1, 4)"], [], [], [], ["float32 (1, 4)"]],
  weights: [[], ["float32 (4, 3)"], [], [], [], [], []],
  rows: [[], [0], [0], [], [], [1], []],
  state: ["", "called", "called", "eliminated", "eliminated", "called", ""],
  reads: [[], [0], [1], [], [2], [4, 3], [5]],
};
const UNITS = { nodes: [[0], [1, 2], [3], [4], [5], [6]], reads: [[], [0], [], [1], [3, 2], [4]], row: [null, 0, null, null, 1, null], constant: [false, false, true, false, false, false] };
const ROWS = [
  { ...ROW, node_name: "fused_conv", ops: "conv2d, relu", kernel: "fused_conv", time_percent: 80, time_us_iqr: 1, gflops: 2.5, task_id: "t0" },
  { ...ROW, row: 1, time_us: 2.5, node_name: "softmax", ops: "softmax", kernel: "softmax", time_percent: 20, time_us_iqr: null, gflops: null, task: 1, task_id: "t1" },
];
const scene = () => new Scene("operators", { nodes: NODES, units: UNITS, repeats: [] }, ROWS);
const known = (own) => ({ tasks: [{ task: "t0", name: "conv", weight: 1 }, { task: "t1", name: "softmax", weight: 1 }], progress: new Map(), operators: own, kernels: own });

test("constants are left out unless they are asked for", () => {
  const own = scene();
  assert.equal(own.draw(new Set()).boxes.length, 5);
  const all = own.draw(new Set(), true);
  assert.equal(all.boxes.length, 6);
  assert.equal(own.itemOfUnit(all, 2).type, "constant");
});

test("rows lead to the box that computes them", () => {
  const own = scene();
  assert.equal(own.unitOfRow.get(0), 1);
  assert.deepEqual(own.texts()[1].split("\n"), ["Conv", "/c", "Relu", "/r", "fused_conv", "t0"]);
});

test("the details of a fused box name its operators, row, kernel, task and time", () => {
  const own = scene();
  const drawing = own.draw(new Set());
  const facts = factsOf(own, own.itemOfUnit(drawing, 1), null, known(own));
  const said = Object.fromEntries(facts.sections.flatMap(({ pairs }) => pairs.filter(([name]) => name)));
  assert.equal(facts.title, "conv2d, relu");
  assert.equal(said.Kernel, "fused_conv");
  assert.equal(said.Task, "t0");
  assert.equal(said.Time, "10.00 us · 80.0 %");
  assert.equal(said.Speed, "2.50 GFLOP/s");
});

test("the details of an operator name its attributes, weights and neighbours", () => {
  const own = scene();
  const facts = factsOf(own, own.itemOfUnit(own.draw(new Set()), 1), 1, known(own));
  const said = Object.fromEntries(facts.sections.flatMap(({ pairs }) => pairs.filter(([name]) => name)));
  assert.equal(said.pads, "[1, 1]");
  assert.equal(said.Weights, "float32 (4, 3)");
  assert.deepEqual(said.Reads.map(({ text }) => text), ["input x · float32 (1, 3)"]);
  assert.deepEqual(said["Read by"].map(({ text }) => text), ["Relu /r"]);
});

test("an SVG file holds names as text alone", () => {
  const own = scene();
  const drawing = own.draw(new Set());
  const surface = new SvgSurface(new Shortener((text) => text.length * 6));
  const look = () => ({ fill: "#ffffff", band: null, soft: "#333333", footer: "<b>", ticked: true, found: true, dim: false, focused: false, line: null });
  const painted = { palette: PALETTE, about: (item) => own.aboutItem(item), look, lit: new Set(), hovered: null };
  paint(surface, drawing, indexed(drawing), { left: -99, top: -99, right: 9999, bottom: 9999, scale: 1 }, painted);
  const file = surface.file({ width: drawing.width, height: drawing.height, background: "#ffffff", title: `a"'<&` });
  assert.ok(!file.includes("<img") && !file.includes("<b>") && !file.includes("Soft<max>"));
  assert.ok(file.includes("Soft&#60;max&#62;"));
  assert.equal(file.match(/<rect/g).length >= 5, true);
  assert.ok(!/NaN|undefined|Infinity/.test(file));
});

test("text that has no room loses its end, or its beginning where that is what tells", () => {
  const shortener = new Shortener((text) => text.length);
  assert.equal(shortener.fit("abcdefgh", { room: 5, size: 12 }).text, "abcd…");
  assert.equal(shortener.fit("abcdefgh", { room: 5, size: 12, tail: true }).text, "…efgh");
  assert.equal(shortener.fit("abc", { room: 5, size: 12 }).text, "abc");
  assert.equal(shortener.fit("abc", { room: 0.5, size: 12 }).text, "");
});

test("a box with one operator is selected with it, a fused one without, and a row leads from one graph to the other", () => {
  const own = scene();
  const item = (unit) => own.itemOfUnit(own.draw(new Set()), unit);
  assert.deepEqual(selectionOf(own, "operators", item(4)), { graph: "operators", unit: 4, node: 5 });
  assert.deepEqual(selectionOf(own, "operators", item(1)), { graph: "operators", unit: 1, node: null });
  assert.deepEqual(selectionOf(own, "operators", item(1), 2), { graph: "operators", unit: 1, node: 2 });
  assert.deepEqual(selectionOf(own, "kernels", item(4)), { graph: "kernels", unit: 4, node: null });
  assert.deepEqual(selectionOf(own, "operators", { type: "repeat", key: "r1" }), { graph: "operators", key: "r1" });
  assert.equal(rowOf(own, { graph: "operators", unit: 1, node: null }), 0);
  assert.equal(rowOf(own, { graph: "operators", key: "r1" }), null);
  assert.deepEqual(carried({ graph: "operators", unit: 4, node: 5 }, { operators: own, kernels: own }, "kernels"), { graph: "kernels", unit: 4, node: null });
  assert.equal(carried({ graph: "operators", unit: 0, node: 0 }, { operators: own, kernels: own }, "kernels"), null);
});

test("matches are walked through in a circle, and a search for nothing finds nothing", async () => {
  const [own, matches] = [scene(), new Matches()];
  assert.deepEqual(await matches.find("conv", own, false), { words: "1 match", isProblem: false });
  assert.deepEqual([...matches.set], [1]);
  await matches.find("/", own, false);
  const walked = [1, 1, 1, -1].map((by) => matches.step(by));
  assert.deepEqual(walked.map(({ words }) => words), ["1 of 2 matches", "2 of 2 matches", "1 of 2 matches", "2 of 2 matches"]);
  assert.deepEqual(await matches.find("", own, false), { words: "", isProblem: false });
  assert.equal(matches.step(1), null);
});

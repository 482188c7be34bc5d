import assert from "node:assert/strict";
import { test } from "node:test";

import { extendPoints, extendSteps, growable, together, unpack } from "../../workbench/notebook/monitor/arrays.mjs";
import { budget, controls, duration, forecast, modelTime, sparkPoints, standing, times } from "../../workbench/notebook/monitor/words.mjs";

const bufferOf = (...numbers) => new DataView(Float32Array.from(numbers).buffer);
const summary = { trials: 12, limit: 64, failed: 0, per_s: 2.345, spent_s: 5, left_s: 125, total_us: 2000, model_us: 1000 };

test("arrays come back out of the buffers wherever they stand, also from a place that is no multiple of four", () => {
  const bytes = new Uint8Array(9);
  bytes.set(new Uint8Array(Float32Array.of(1.5, 2.5).buffer), 1);
  const odd = new DataView(bytes.buffer, 1, 8);
  const value = unpack({ x: { buffer: 0 }, y: [{ buffer: 1 }], name: "<b>", none: null }, [bufferOf(1, 2, 3), odd]);
  assert.deepEqual([...value.x], [1, 2, 3]);
  assert.deepEqual([...value.y[0]], [1.5, 2.5]);
  assert.deepEqual([value.name, value.none], ["<b>", null]);
});

test("points grow as 32-bit floats and lines as plain arrays", () => {
  const [points, line] = growable([{ x: [1], y: [2] }, { x: Float32Array.of(1), y: [2], line: {} }]);
  assert.ok(points.x instanceof Float32Array && points.y instanceof Float32Array);
  assert.ok(Array.isArray(line.x));
});

test("points come behind those that a trace has", () => {
  const [trace] = growable([{ x: [1], y: [2], marker: { size: 4 } }]);
  extendPoints(trace, { x: Float32Array.of(3, 4), y: [5, 6] });
  assert.deepEqual([[...trace.x], [...trace.y], trace.marker.size], [[1, 3, 4], [2, 5, 6], 4]);
  assert.ok(trace.x instanceof Float32Array);
});

test("the end of a best line moves on and new bests come before it", () => {
  const trace = { x: [1, 5], y: [100, 100] };
  extendSteps(trace, null, 9);
  assert.deepEqual(trace, { x: [1, 9], y: [100, 100] });
  extendSteps(trace, { x: Float32Array.of(11), y: [50] }, 12);
  assert.deepEqual(trace, { x: [1, 11, 12], y: [100, 50, 50] });
  const empty = { x: [], y: [] };
  extendSteps(empty, null, 3);
  assert.deepEqual(empty, { x: [], y: [] });
});

test("lines of one colour are one trace with gaps, at the place of the first; nothing else is put together", () => {
  const line = (color, x, y) => ({ name: color, line: { color }, x, y });
  const [points, alone] = [{ x: [1], y: [2], marker: {} }, line("red", [5], [6])];
  const traces = [points, line("blue", [1, 2], [3, 4]), alone, line("blue", [7], [8]), { ...points }];
  const [first, blue, red, last] = together(traces);
  assert.deepEqual([first === points, red === alone, last === traces[4]], [true, true, true]);
  assert.deepEqual([blue.x, blue.y, blue.name], [[1, 2, Number.NaN, 7, Number.NaN], [3, 4, Number.NaN, 8, Number.NaN], "blue"]);
  assert.deepEqual(traces[1].x, [1, 2]);
});

test("the bar says what is known and nothing else", () => {
  assert.deepEqual(standing(summary), ["12 of 64 trials", "2.3 a second", "5 s spent", "about 2 min 05 s left"]);
  assert.deepEqual(standing({ ...summary, limit: null, per_s: null, spent_s: null, left_s: null, failed: 3 }), ["12 trials", "3 failed"]);
});

test("the forecast tells a gain only where there is one", () => {
  assert.equal(forecast(summary), "model 2.00 ms → 1.00 ms (2.00x)");
  assert.equal(forecast({ ...summary, model_us: 2000 }), "model 2.00 ms, no gain yet");
  assert.equal(forecast({ ...summary, total_us: null }), "");
  assert.equal(modelTime(999.94), "999.9 us");
});

test("durations, gains and small lines", () => {
  assert.deepEqual([0.4, 59.6, 3600, 11_460].map(duration), ["0 s", "1 min 00 s", "1 h 00 min", "3 h 11 min"]);
  assert.deepEqual([times(null), times(1.5)], ["–", "1.50x"]);
  assert.equal(sparkPoints([100, 0], 10, 12), "0.0,1.0 10.0,11.0");
  assert.equal(sparkPoints([100], 10, 12), "");
});

test("a budget is a whole number, or nothing for no limit; all else is no budget", () => {
  assert.deepEqual(["64", " 1,024 ", ""].map(budget), [64, 1024, null]);
  for (const text of ["0", "-3", "1.5", "many", "9999999999"]) assert.equal(budget(text), undefined);
});

test("buttons do only what the search can do now", () => {
  assert.deepEqual(controls("searching", true), { pause: true, resume: false, stop: true });
  assert.deepEqual(controls("paused", true), { pause: false, resume: true, stop: true });
  assert.deepEqual(controls("idle", true), { pause: false, resume: false, stop: false });
  assert.deepEqual(controls("searching", false), { pause: false, resume: false, stop: false });
});

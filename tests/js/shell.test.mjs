import assert from "node:assert/strict";
import { test } from "node:test";

import { budget, duration, engineChoice, forecast, leading, percent, pieces, refusal, stepsNow, ticked, times } from "../../workbench/notebook/shell/words.mjs";

test("what is ticked is said with its share", () => {
  assert.equal(ticked({ count: 5, share: 0.829, measured: true }), "5 tasks · 83 % of the time");
  assert.equal(ticked({ count: 1, share: 0.002, measured: false }), "1 task · < 1 % of the FLOP");
  assert.equal(ticked({ count: 1, share: null, measured: true }), "1 task");
  assert.equal(ticked({ count: 0 }), "nothing ticked");
  assert.equal(ticked(null), "nothing ticked");
});

test("a forecast is that of its factor, or none", () => {
  const selection = { forecasts: [[1.5, 1.38], [2, 1.7]] };
  assert.equal(forecast(selection, 2), 1.7);
  assert.equal(forecast(selection, 3), null);
  assert.equal(forecast(null, 2), null);
});

test("a share that is not known is a dash", () => {
  assert.equal(percent(null), "–");
  assert.equal(percent(NaN), "–");
  assert.equal(percent(0), "0 %");
  assert.equal(percent(1), "100 %");
});

test("times and durations have as many digits as one can use", () => {
  assert.equal(times(1.7), "1.70×");
  assert.equal(times(12.3), "12×");
  assert.equal(duration(0.44), "0.4 s");
  assert.equal(duration(-3), "0.0 s");
  assert.equal(duration(59.6), "1 min 00 s");
  assert.equal(duration(125), "2 min 05 s");
});

test("the button that leads on is resume, after a search apply, else tune", () => {
  assert.equal(leading("stopped", ["resume", "stop", "tune"]), "resume");
  assert.equal(leading("tuned", ["open", "tune", "apply"]), "apply");
  assert.equal(leading("tuned", ["open", "tune"]), "tune");
  assert.equal(leading("applied", ["open", "tune", "apply"]), "tune");
});

test("a budget is a positive number, nothing, or wrong", () => {
  assert.equal(budget("", { whole: true }), null);
  assert.equal(budget(" 64 ", { whole: true }), 64);
  assert.equal(budget("2.5", { whole: false }), 2.5);
  for (const text of ["0", "-1", "x", "Infinity"]) assert.ok(Number.isNaN(budget(text, { whole: false })));
  assert.ok(Number.isNaN(budget("2.5", { whole: true })));
});

test("only the step that runs goes on between two messages", () => {
  const steps = [{ name: "import", seconds: 1 }, { name: "lower", seconds: 2 }];
  assert.deepEqual(stepsNow(steps, 0.5, true).map(({ seconds }) => seconds), [1, 2.5]);
  assert.deepEqual(stepsNow(steps, 0.5, false).map(({ seconds }) => seconds), [1, 2]);
});

test("only the engine of an old TVM is asked for with a Python", () => {
  assert.deepEqual(engineChoice("relay", " /opt/tvm/bin/python "), { engine: "relay", python: "/opt/tvm/bin/python" });
  assert.deepEqual(engineChoice("relax", "/opt/tvm/bin/python"), { engine: "relax", python: "" });
  assert.deepEqual(engineChoice("", ""), { engine: "relax", python: "" });
});

test("the pieces of a file are all of it", () => {
  assert.deepEqual(pieces(5, 2), [[0, 2], [2, 2], [4, 1]]);
  assert.deepEqual(pieces(0, 2), []);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { COLUMNS, compare, factor, operations, remarks } from "../../workbench/notebook/table/columns.mjs";
import { fileName, toCsv, toJson, toTabs } from "../../workbench/notebook/table/export.mjs";
import { describeSelection, describeTicks, readSnapshot, takeStates, tickTasks, totals } from "../../workbench/notebook/table/rows.mjs";

const state = (place, values = {}) => ({ place, state: "", best_us: null, gain: null, ...values });

const snapshot = () => ({
  columns: {
    row: [0, 1, 2, 3],
    node_name: ["conv", "dense", "conv", "runtime"],
    time_us: [60, 20, 15, 5],
    time_percent: [60, 20, 15, 5],
    flop: [120_000, 10_000, 30_000, null],
    task: [0, 1, 0, null],
    nan_count: [0, 12, 0, null],
    inf_count: [0, 3, 0, null],
    untunable: ["", "dynamic shape", "", "VM builtins: not a kernel"],
  },
  tasks: [
    { name: "conv", rows: [0, 2], untunable: "" },
    { name: "dense", rows: [1], untunable: "dynamic shape" },
  ],
  states: [state(0), state(1)],
  header: {},
});

const byNumber = (rows) => new Map(rows.map((row) => [row.row, row]));
const column = (id) => COLUMNS.find((one) => one.id === id);

test("only rows of a task that can be tuned can be ticked", () => {
  const { rows } = readSnapshot(snapshot());
  assert.deepEqual(rows.map((row) => row.tickable), [true, false, true, false]);
});

test("totals are sums over the rows given, and the rate leaves out rows without operations", () => {
  const { rows } = readSnapshot(snapshot());
  assert.deepEqual(totals(rows), { count: 4, tasks: 2, time_us: 100, time_percent: 100, flop: 160_000, gflops: 160_000 / 95 / 1000 });
  assert.deepEqual(totals([]), { count: 0, tasks: 0, time_us: null, time_percent: null, flop: null, gflops: null });
});

test("ticking one row ticks all rows of its task, and the sentence says so", () => {
  const { rows, tasks } = readSnapshot(snapshot());
  const change = tickTasks(tasks, byNumber(rows), new Set(), new Set([2]));
  assert.deepEqual(change.rows, [0, 2]);
  assert.equal(describeTicks(tasks, change), "Ticked conv and the other row of its task.");
});

test("unticking one row unticks its task and leaves the others", () => {
  const { rows, tasks } = readSnapshot(snapshot());
  const change = tickTasks(tasks, byNumber(rows), new Set([0, 1, 2]), new Set([1, 2]));
  assert.deepEqual(change.rows, [1]);
  assert.match(describeTicks(tasks, change), /^Unticked conv/);
});

test("the share that is ticked is of the time, or of the operations where nothing was measured", () => {
  const { rows } = readSnapshot(snapshot());
  assert.equal(describeSelection(rows, new Set([0, 2]), true), "2 rows (1 task) ticked: 75.0 % of the time");
  assert.equal(describeSelection(rows, new Set([0, 2]), false), "2 rows (1 task) ticked: 93.8 % of the FLOP");
  assert.equal(describeSelection(rows, new Set(), true), "Nothing ticked");
});

test("a task's state reaches every row that calls it", () => {
  const { rows, tasks } = readSnapshot(snapshot());
  assert.deepEqual(takeStates(tasks, [state(0, { state: "searching", gain: 1.7 }), state(9)]), [0, 2]);
  assert.equal(column("state").value(rows[2], tasks), "searching");
  assert.equal(column("gain").format(column("gain").value(rows[0], tasks)), "1.70x");
  assert.equal(column("state").value(rows[3], tasks), null);
});

test("what has no value comes last in both directions", () => {
  const values = [3, null, 1, undefined];
  assert.deepEqual([...values].sort((a, b) => compare(a, b)).slice(0, 2), [1, 3]);
  assert.deepEqual([...values].sort((a, b) => -compare(a, b, true)).slice(0, 2), [3, 1]);
});

test("names are ordered as people count", () => {
  assert.deepEqual(["conv10", "conv9", "add"].sort((a, b) => compare(a, b)), ["add", "conv9", "conv10"]);
});

test("broken outputs and the reason why a row cannot be tuned are said in words", () => {
  const { rows } = readSnapshot(snapshot());
  assert.equal(remarks(rows[1]), "NaN 12; Inf 3; cannot be tuned: dynamic shape");
  assert.equal(remarks(rows[0]), "");
});

test("operations and factors are short", () => {
  assert.equal(operations(1_850_000_000), "1.85 G");
  assert.equal(operations(0), "0");
  assert.equal(operations(null), "–");
  assert.equal(factor(123.4), "123x");
});

test("CSV quotes what needs it and leaves no formula", () => {
  const text = toCsv([{ title: "Name" }, { title: "Time(us)" }], [['a,"b"', 1.5], ["=cmd()", null], ["＝x", 0]]);
  assert.equal(text, 'Name,Time(us)\n"a,""b""",1.5\n\'=cmd(),\n\'＝x,0\n');
});

test("the clipboard gets one line a row whatever a name holds", () => {
  assert.equal(toTabs([{ title: "A" }, { title: "B" }], [["x\ty\nz", 2]]), "A\tB\nx y z\t2");
});

test("JSON keeps numbers, unknown values and markup as they are", () => {
  const parsed = JSON.parse(toJson([{ title: "Name" }, { title: "Time(us)" }], [["<img src=x>", 1.25], ["b", undefined]], { model: "m" }));
  assert.deepEqual(parsed, { model: "m", rows: [{ Name: "<img src=x>", "Time(us)": 1.25 }, { Name: "b", "Time(us)": null }] });
});

test("a file's name holds nothing but plain letters", () => {
  assert.equal(fileName("../../étude <x>", "csv"), "etude_x_-profile.csv");
  assert.equal(fileName("模型", "json"), "model-profile.json");
});

test("what is matched ambiguously says so among the remarks", () => {
  assert.equal(remarks({ nan_count: 0, inf_count: 0, ambiguous: true, untunable: "imported" }), "ambiguous match; cannot be tuned: imported");
  assert.equal(column("match").format(75), "75");
});

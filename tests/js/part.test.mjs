import assert from "node:assert/strict";
import { test } from "node:test";

import { count, microseconds, pageTheme, repeat } from "../../workbench/notebook/part.mjs";

const page = ({ body = {}, classes = "", dark = false } = {}) => ({
  body: { dataset: body, className: classes },
  documentElement: { dataset: {}, className: "" },
  defaultView: { matchMedia: () => ({ matches: dark }) },
});

test("a time has at least four digits that count", () => {
  assert.equal(microseconds(1204.4), "1,204");
  assert.equal(microseconds(123.456), "123.5");
  assert.equal(microseconds(12.345678), "12.35");
  assert.equal(microseconds(0.43121), "0.4312");
  assert.equal(microseconds(0), "0");
});

test("what has no value is a dash, not a zero", () => {
  assert.equal(microseconds(null), "–");
  assert.equal(microseconds(NaN), "–");
  assert.equal(count(undefined), "–");
  assert.equal(count(0), "0");
});

test("the theme is the page's, and the system's where the page has none", () => {
  assert.equal(pageTheme(page({ body: { jpThemeLight: "false" } })), "dark");
  assert.equal(pageTheme(page({ body: { jpThemeLight: "true" }, dark: true })), "light");
  assert.equal(pageTheme(page({ classes: "vscode-dark" })), "dark");
  assert.equal(pageTheme(page({ dark: true })), "dark");
  assert.equal(pageTheme(page()), "light");
});

test("a question is asked again, ever more rarely, until it is answered or nobody waits any more", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const [view, asked] = [new AbortController(), []];
  const first = repeat(view.signal, () => asked.push("first"), 100);
  repeat(view.signal, () => asked.push("second"), 100);
  assert.deepEqual(asked, ["first", "second"]);
  first.end();
  t.mock.timers.tick(100);
  assert.deepEqual(asked, ["first", "second", "second"]);
  t.mock.timers.tick(199);
  assert.equal(asked.length, 3);
  t.mock.timers.tick(1);
  assert.equal(asked.length, 4);
  view.abort();
  t.mock.timers.tick(10_000);
  assert.equal(asked.length, 4);
  const times = [];
  repeat(new AbortController().signal, (before) => times.push(before), 100);
  t.mock.timers.tick(100);
  assert.deepEqual(times, [0, 1], "who asks is told how often it was asked before");
});

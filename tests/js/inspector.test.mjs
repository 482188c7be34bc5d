import assert from "node:assert/strict";
import { test } from "node:test";

import {
  because,
  comparable,
  countName,
  fileName,
  linkedLines,
  linksAt,
  nameAt,
  tabOf,
  tabsOf,
  textKey,
  trialName,
  trialNumber,
} from "../../workbench/notebook/inspector/views.mjs";

const info = (view, values = {}) => ({ view, title: view, language: "text", description: "", unavailable: "", remedy: "", ...values });

const GPU_ONLY = { unavailable: "a kernel for llvm has no PTX", remedy: "Look at asm." };

test("the tabs come in one order, whatever the engine offers", () => {
  const titles = tabsOf([info("asm"), info("schedule")]).map((tab) => tab.title);
  assert.deepEqual(titles, ["Schedule", "Decisions", "TIR", "Lowered", "Source", "Assembly", "Resources", "Diff", "Effects", "Re-run"]);
});

test("a tab opens the first of its views that can be had", () => {
  const tabs = tabsOf([info("asm", GPU_ONLY), info("ptx"), info("sass")]);
  assert.equal(tabOf(tabs, "sass").id, "assembly");
  assert.equal(tabOf(tabs, "sass").first, "ptx");
  assert.equal(tabOf(tabs, "sass").unavailable, "");
});

test("a tab without any view says why and what would help", () => {
  const tab = tabOf(tabsOf([info("asm", GPU_ONLY)]), "asm");
  assert.equal(tab.unavailable, "Not here: a kernel for llvm has no PTX. Look at asm.");
  assert.match(tabOf(tabsOf([]), "lowered").unavailable, /^Not here: /);
});

test("a view that no tab knows gets a tab of its own", () => {
  assert.equal(tabOf(tabsOf([info("roofline", { title: "Roofline" })]), "roofline").title, "Roofline");
});

test("what can be had has no reason", () => {
  assert.equal(because(info("tir")), "");
});

test("texts that are the same for all trials are not compared, and are kept once", () => {
  assert.deepEqual(comparable([info("tir"), info("effects"), info("tir_before"), info("asm", GPU_ONLY)]).map((one) => one.view), ["tir"]);
  assert.equal(textKey("t", 1, "effects"), textKey("t", 2, "effects"));
  assert.notEqual(textKey("t", 1, "tir"), textKey("t", 2, "tir"));
});

test("without a choice the best trial is shown, and the untuned kernel while there is none", () => {
  assert.equal(trialNumber({ best: 12 }, null), 12);
  assert.equal(trialNumber({ best: null }, null), 0);
  assert.equal(trialNumber({ best: 12 }, 3), 3);
  assert.equal(trialName({ best: 12 }, 12), "best: trial 12");
  assert.equal(trialName({ best: 0 }, 0), "untuned (the best): trial 0");
});

test("a name is a whole word, and neither a number nor a word of the language", () => {
  const line = "for ff_0, yy in T.grid(64, 7):";
  assert.equal(nameAt(line, 6), "ff_0");
  assert.equal(nameAt(line, line.indexOf("64") + 1), "");
  assert.equal(nameAt(line, 1), "");
  assert.equal(nameAt(line, line.indexOf("(")), "grid");
});

test("a name is counted as a whole word, even one of signs that patterns use", () => {
  assert.equal(countName("ff_0 ff_01 xff_0 (ff_0)", "ff_0"), 2);
  assert.equal(countName("a$b a$bc a.b", "a$b"), 1);
});

test("links give the lines of a name and the names of a line, the smallest first", () => {
  const links = [
    { name: "block conv", first_line: 2, last_line: 9 },
    { name: "loop ff_0", first_line: 4, last_line: 6 },
  ];
  assert.deepEqual(linkedLines(links, "ff_0"), [{ first: 4, last: 6 }]);
  assert.deepEqual(linkedLines(links, "ff"), []);
  assert.deepEqual(linksAt(links, 5), ["loop ff_0", "block conv"]);
  assert.deepEqual(linksAt(links, 1), []);
});

test("a saved text is named after its kernel, trial and language", () => {
  assert.equal(fileName("../fused <b>", 3, { view: "source", language: "cuda" }), "fused_b_-trial3-source.cu");
  assert.equal(fileName("模", 3, { view: "effects", language: "text" }), "kernel-effects.txt");
});

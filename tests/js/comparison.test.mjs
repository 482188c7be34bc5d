import assert from "node:assert/strict";
import { test } from "node:test";

import { bars, changed, ratio, verification } from "../../workbench/notebook/comparison/words.mjs";

test("a ratio has its error where it is known", () => {
  assert.equal(ratio({ ratio: 1.7, ratio_error: 0.041 }), "1.70× ± 0.04");
  assert.equal(ratio({ ratio: 1.7, ratio_error: null }), "1.70×");
  assert.equal(ratio({ ratio: null, ratio_error: null }), "–");
});

test("right, wrong and not verified are three sentences", () => {
  assert.equal(
    verification({ verified: true, max_abs_err: 1.25e-6, max_rel_err: 0, seeds: 3, reason: "" }),
    "Verified on 3 random inputs; largest difference absolute 0.0000013, relative 0.",
  );
  assert.equal(verification({ verified: false, max_abs_err: null, max_rel_err: null, seeds: 1, reason: "conv2d differs." }), "Wrong results: conv2d differs.");
  assert.equal(verification({ verified: null, max_abs_err: null, max_rel_err: null, seeds: 0, reason: "" }), "Not verified.");
});

test("kernels with a schedule stand apart from those without", () => {
  const kernels = [{ kernel: "a", used: "record" }, { kernel: "b", used: "baseline" }];
  const { tuned, untuned } = changed(kernels);
  assert.deepEqual(tuned.map(({ kernel }) => kernel), ["a"]);
  assert.deepEqual(untuned.map(({ kernel }) => kernel), ["b"]);
});

test("the slower of the two times fills the bar", () => {
  assert.deepEqual(bars({ baseline_us: 100, tuned_us: 50 }), { before: 100, after: 50 });
  assert.deepEqual(bars({ baseline_us: 50, tuned_us: 100 }), { before: 50, after: 100 });
  assert.equal(bars({ baseline_us: null, tuned_us: null }), null);
});

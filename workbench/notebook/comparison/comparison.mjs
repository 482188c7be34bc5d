/** Before and after: the whole model on top, then each kernel, what was saved most first. */

import { definePart, element, microseconds } from "../part.mjs";
import { LOOKS, bars, changed, ratio, verification } from "./words.mjs";

const HEADS = ["Kernel", "Calls", "Before(us)", "After(us)", "", "Speed", "Verdict", "Schedule"];

export default definePart("comparison", (part) => {
  const body = element("div", {}, element("div", { class: "wb-empty" }, "Waiting for the comparison …"));
  part.root.append(body);
  let lines = [];
  const showFocus = () => {
    for (const { row, kernel } of lines) row.classList.toggle("wb-focused", kernel.rows.includes(part.model.get("focus")));
  };
  part.on("snapshot", (data) => {
    lines = data.kernels.map((kernel) => ({ kernel, row: line(part, kernel) }));
    body.replaceChildren(...draw(data, new Map(lines.map(({ kernel, row }) => [kernel, row]))));
    showFocus();
  });
  part.watch("focus", showFocus);
});

function draw(data, rowOf) {
  const { tuned, untuned } = changed(data.kernels);
  const rest = element("tbody", { hidden: tuned.length > 0 }, ...untuned.map((kernel) => rowOf.get(kernel)));
  const more = element("button", { class: "wb-button", type: "button", "aria-expanded": String(!tuned.length), hidden: !untuned.length || !tuned.length }, `${untuned.length} unchanged`);
  more.addEventListener("click", () => {
    rest.hidden = !rest.hidden;
    more.setAttribute("aria-expanded", String(!rest.hidden));
  });
  const table = element("table", { "aria-label": "Kernels before and after" },
    element("thead", {}, element("tr", {}, ...HEADS.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...tuned.map((kernel) => rowOf.get(kernel))),
    rest,
  );
  return [heading(data, more), ...remarks(data), element("div", { class: "wb-scroll" }, table)];
}

function heading(data, more) {
  const { total } = data;
  return element("div", { class: "wb-bar" },
    element("span", { class: "wb-title" }, "Before and after"),
    element("span", { class: `wb-chip ${LOOKS[total.verdict] ?? ""}`, title: total.text }, total.verdict),
    element("span", {}, `${microseconds(total.baseline_us)} → ${microseconds(total.tuned_us)} us`),
    element("strong", {}, ratio(total)),
    element("span", { class: `wb-chip ${data.verified ? "wb-good" : data.verified === false ? "wb-bad" : "wb-warn"}` }, data.verified ? "verified" : data.verified === false ? "wrong" : "not verified"),
    element("span", { class: "wb-muted wb-grow" }, data.rounds ? `whole runs, by turns, ${data.rounds} rounds` : ""),
    more,
  );
}

function remarks(data) {
  const words = [verification(data), data.random_weights ? `With random weights: ${data.random_weights}` : "", data.reference ? `Beside onnxruntime: ${data.reference}` : "", data.applied ? "" : "Not applied.", ...data.notes, ...data.failures].filter(Boolean);
  return [element("ul", { class: "wb-remarks" }, ...words.map((text) => element("li", {}, text)))];
}

function line(part, kernel) {
  const name = element("button", { class: "wb-link", type: "button", title: kernel.why, disabled: !kernel.rows.length }, kernel.kernel);
  name.addEventListener("click", () => part.set("focus", kernel.rows[0]));
  const cells = [
    [name, ""],
    [kernel.weight, "wb-number"],
    [withSpread(kernel.baseline_us, kernel.baseline_us_iqr), "wb-number"],
    [withSpread(kernel.tuned_us, kernel.tuned_us_iqr), "wb-number"],
    [bar(kernel), "wb-bars"],
    [ratio(kernel), "wb-number"],
    [element("span", { class: `wb-chip ${LOOKS[kernel.verdict] ?? ""}`, title: kernel.text }, kernel.verdict), ""],
    [kernel.trial === null ? "untuned" : `trial ${kernel.trial}`, ""],
  ];
  return element("tr", {}, ...cells.map(([content, look]) => element("td", { class: look }, content)));
}

function withSpread(value, spread) {
  return spread === null || value === null ? microseconds(value) : `${microseconds(value)} ± ${microseconds(spread)}`;
}

function bar(kernel) {
  const width = bars(kernel);
  if (!width) return null;
  const piece = (look, percent) => {
    const made = element("span", { class: `wb-piece ${look}` });
    made.style.width = `${percent}%`;
    return made;
  };
  return element("span", { class: "wb-pair", "aria-hidden": "true" }, piece("wb-before", width.before), piece("wb-after", width.after));
}

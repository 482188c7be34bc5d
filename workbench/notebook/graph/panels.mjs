/** The elements around the drawing: details, legend, and the question before much is drawn. All names are text. */

import { element, microseconds } from "../part.mjs";
import { STATES, stateOf } from "./colors.mjs";
import { HELP } from "./keys.mjs";

/** The elements of a view, in its root: the bar, the drawing's window beside the details, and the line below them. */
export function shellOf(root, bar) {
  const help = `wb-graph-help-${Math.random().toString(36).slice(2)}`;
  const described = { tabindex: 0, role: "application", "aria-roledescription": "graph", "aria-describedby": help };
  const host = element("div", { class: "wb-graph-window", ...described, "data-lm-suppress-shortcuts": "true" });
  const details = element("aside", { class: "wb-graph-details", "aria-label": "Details of the selection", hidden: true });
  const legend = element("div", { class: "wb-graph-legend wb-grow" });
  const counts = element("div", { class: "wb-muted" });
  const live = element("div", { class: "wb-hidden-text", "aria-live": "polite" });
  const empty = element("div", { class: "wb-empty" }, "Waiting for the graph …");
  root.append(
    bar,
    element("div", { class: "wb-graph-stage" }, host, details),
    element("div", { class: "wb-bar wb-bottom" }, legend, counts),
    element("div", { class: "wb-hidden-text", id: help }, HELP),
    live,
  );
  return { host, details, legend, counts, live, empty };
}

/** Shows facts; a link calls `go`, a button its own handler. */
export function fillDetails(panel, facts, buttons, go) {
  const head = element("div", { class: "wb-graph-head" }, element("div", { class: "wb-title" }, facts.title), element("div", { class: "wb-muted wb-graph-name" }, facts.subtitle));
  const chips = element("div", { class: "wb-graph-chips" }, ...facts.chips.map((chip) => element("span", { class: "wb-chip" }, chip)));
  const actions = element(
    "div",
    { class: "wb-graph-actions" },
    ...buttons.map(([label, handler]) => element("button", { class: "wb-button", type: "button", onclick: handler }, label)),
  );
  panel.replaceChildren(head, ...(facts.chips.length ? [chips] : []), ...(buttons.length ? [actions] : []), ...facts.sections.map((section) => sectionOf(section, go)));
}

function sectionOf({ title, pairs }, go) {
  const list = element("dl", {});
  for (const [name, value] of pairs) {
    if (name) list.append(element("dt", {}, name));
    list.append(element("dd", { class: name ? null : "wb-graph-wide" }, ...(Array.isArray(value) ? value.map((link) => linkOf(link, go)) : [value])));
  }
  return element("section", {}, title ? element("h4", {}, title) : null, list);
}

function linkOf(link, go) {
  if (link.unit === undefined && link.row === undefined) return element("div", { class: "wb-muted" }, link.text);
  return element("button", { class: "wb-graph-link", type: "button", onclick: () => go(link) }, link.text);
}

/** What the colours mean now. */
export function fillLegend(legend, mode, { palette, rows, tasks, colours, hottest, progress }) {
  const swatch = (colour, text, number = null) =>
    element("span", { class: "wb-graph-key" }, element("span", { class: "wb-graph-swatch", style: `background:${colour}` }), text, number === null ? null : element("span", { class: "wb-muted" }, ` ${number}`));
  if (mode === "time") {
    if (!hottest) {
      legend.replaceChildren(element("span", { class: "wb-muted" }, "No times: the rows were not measured."));
      return;
    }
    const bar = element("span", { class: "wb-graph-ramp", style: `background:linear-gradient(90deg, ${palette.heat.join(", ")})` });
    legend.replaceChildren(element("span", { class: "wb-muted" }, "0"), bar, element("span", { class: "wb-muted" }, `${microseconds(hottest)} us`));
  } else if (mode === "task") {
    const shown = [...colours].map(([task, place]) => swatch(palette.series[place], tasks[task].name));
    if (tasks.length > shown.length) shown.push(swatch(palette.neutral, `${tasks.length - shown.length} other tasks`));
    legend.replaceChildren(...shown);
  } else {
    const counts = new Map();
    for (const row of rows) {
      const state = stateOf(row, progress(row));
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    const shown = STATES.filter(([state]) => counts.has(state));
    legend.replaceChildren(...shown.map(([state, colour]) => swatch(palette[colour], state, counts.get(state))));
  }
}

/** Asks before something large is drawn; the answer is true or false. Escape says no. */
export function ask(host, text, yes) {
  host.querySelector(".wb-graph-ask")?.remove();
  return new Promise((resolve) => {
    const before = host.getRootNode().activeElement;
    const answer = (value) => {
      box.remove();
      before?.focus?.({ preventScroll: true });
      resolve(value);
    };
    const show = element("button", { class: "wb-button wb-primary", type: "button", onclick: () => answer(true) }, yes);
    const cancel = element("button", { class: "wb-button", type: "button", onclick: () => answer(false) }, "Cancel");
    const box = element("div", { class: "wb-graph-ask", role: "alertdialog", "aria-label": text }, element("div", {}, text), element("div", { class: "wb-graph-actions" }, show, cancel));
    box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") answer(false);
    });
    host.append(box);
    cancel.focus();
  });
}

/** The controls above the graph. */

import { element } from "../part.mjs";

/**
 * @param {import("../part.mjs").Part} part
 * @param {Record<string, Function>} on  handlers
 */
export function toolbar(part, on) {
  const button = (label, title, handler, attributes = {}) => element("button", { class: "wb-button", type: "button", title, "aria-label": title, onclick: handler, ...attributes }, label);
  const tabs = ["operators", "kernels"].map((name) =>
    button(name === "operators" ? "Operators" : "Kernels", name === "operators" ? "Operators of the model" : "Kernel calls", () => part.set("shown", name)),
  );
  const colours = element(
    "select",
    { class: "wb-select", "aria-label": "What the colours show", onchange: (event) => part.set("colors", event.target.value) },
    ...["time", "task", "state"].map((name) => element("option", { value: name }, `Colour: ${name}`)),
  );
  const search = element("input", {
    class: "wb-input wb-graph-search",
    type: "search",
    placeholder: "Search: text or regular expression",
    "aria-label": "Search names, operators, kernels and tasks: text or a regular expression",
    spellcheck: "false",
    oninput: on.onSearch,
    onkeydown: (event) => {
      if (event.key === "Enter") on.onStep(event.shiftKey ? -1 : 1);
      if (event.key === "Escape" && search.value) {
        search.value = "";
        on.onSearch();
        event.stopPropagation();
      }
    },
  });
  const found = element("span", { class: "wb-muted wb-graph-found", role: "status" });
  const collapse = button("Collapse", "Show repeated blocks as one box", on.onCollapse);
  const expand = button("Expand", "Show every copy of the repeated blocks", on.onExpand);
  const check = element("input", { type: "checkbox", onchange: (event) => on.onConstants(event.target.checked) });
  const constants = element("label", { class: "wb-graph-check", hidden: true, title: "Operators that are computed before the run" }, check, "Constants");
  const bar = element(
    "div",
    { class: "wb-bar" },
    element("span", { class: "wb-graph-tabs", role: "group", "aria-label": "Graph" }, ...tabs),
    colours,
    search,
    found,
    constants,
    element("span", { class: "wb-grow" }),
    element(
      "span",
      { class: "wb-graph-views" },
      collapse,
      expand,
      button("−", "Zoom out", () => on.onZoom(0.8)),
      button("+", "Zoom in", () => on.onZoom(1.25)),
      button("Fit", "Show all", on.onFit),
      button("PNG", "Save a picture of the graph", () => on.onExport("png")),
      button("SVG", "Save the graph as a drawing", () => on.onExport("svg")),
    ),
  );
  const press = (shown) => tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", String(shown === ["operators", "kernels"][index])));
  const pick = (mode) => (colours.value = mode);
  press(part.model.get("shown"));
  pick(part.model.get("colors"));
  part.watch("shown", press);
  part.watch("colors", pick);
  return {
    element: bar,
    query: () => search.value,
    focusSearch: () => search.focus(),
    constants: (there) => (constants.hidden = !there),
    blocks: (there) => {
      collapse.hidden = expand.hidden = !there;
    },
    found(text, isProblem = false) {
      found.textContent = text;
      found.classList.toggle("wb-graph-problem", isProblem);
    },
  };
}

/** The table's controls: search, which rows, which columns, ticking by share, and taking the table along. They know no grid. */

import { element } from "../part.mjs";

const LIST_WIDTH = 300;

export const SHOWN = {
  all: "All rows",
  ticked: "Ticked rows",
  tunable: "Tunable rows",
  broken: "NaN or Inf",
};

/**
 * @param {import("./columns.mjs").Column[]} columns
 * @param {Record<string, (...values: any[]) => void>} act  search, show, column, tickShare, untick, copy, csv, json
 * @param {{search: string, shown: string, share: string}} [before]  what it begins with
 */
export function makeToolbar(columns, act, before) {
  const search = element("input", {
    class: "wb-input wb-search",
    type: "search",
    placeholder: "Search all columns",
    "aria-label": "Search all columns",
    value: before?.search,
    oninput: () => act.search(search.value),
  });
  const show = element(
    "select",
    { class: "wb-select", "aria-label": "Rows to show", onchange: () => act.show(show.value) },
    ...Object.entries(SHOWN).map(([value, words]) => element("option", { value, selected: value === before?.shown }, words)),
  );
  const share = element("input", {
    class: "wb-input wb-share",
    type: "number",
    min: "1",
    max: "100",
    step: "any",
    value: before?.share ?? "80",
    "aria-label": "Share of the time in percent",
    onkeydown: (event) => event.key === "Enter" && act.tickShare(Number(share.value) / 100),
  });
  const tick = element("span", { class: "wb-group", role: "group", "aria-label": "Tick by share" },
    button("Tick until", "Tick the fewest hottest tasks that cover this share of the time", () => act.tickShare(Number(share.value) / 100)),
    share,
    "%",
  );
  const take = element("span", { class: "wb-group", role: "group", "aria-label": "Take the table along as it is shown" },
    button("Copy", "Copy what is shown, for a spreadsheet", act.copy),
    button("CSV", "Save what is shown as CSV", act.csv),
    button("JSON", "Save what is shown as JSON", act.json),
  );
  const bar = element("div", { class: "wb-bar", role: "toolbar", "aria-label": "Table" },
    search, show, makeColumnMenu(columns, act.column),
    tick, button("Untick all", "Untick every row", act.untick),
    element("span", { class: "wb-grow" }), take,
  );
  return { element: bar, typed: () => ({ search: search.value, share: share.value }) };
}

function button(words, about, onclick) {
  return element("button", { class: "wb-button", type: "button", title: about, onclick }, words);
}

/** A button that opens a list of boxes, one a column, above everything else; Escape or a click elsewhere closes it. */
function makeColumnMenu(columns, choose) {
  const list = element("div", { class: "wb-menu-list", role: "group", "aria-label": "Columns to show", popover: "auto" });
  const open = element("button", { class: "wb-button", type: "button", "aria-expanded": "false", title: "Choose the columns" }, "Columns ▾");
  open.popoverTargetElement = list;
  list.addEventListener("beforetoggle", ({ newState }) => {
    open.setAttribute("aria-expanded", String(newState === "open"));
    const { left, bottom } = open.getBoundingClientRect();
    list.style.left = `${Math.max(4, Math.min(left, innerWidth - LIST_WIDTH - 8))}px`;
    list.style.top = `${bottom + 4}px`;
    list.style.maxHeight = `${Math.max(140, innerHeight - bottom - 16)}px`;
  });
  for (const column of columns) {
    const box = element("input", { type: "checkbox", checked: !column.hidden, onchange: () => choose(column.id, box.checked) });
    list.append(element("label", { title: column.about }, box, column.title));
  }
  return element("span", {}, open, list);
}

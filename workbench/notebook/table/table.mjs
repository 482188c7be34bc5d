/** The profile's table: AG Grid between a toolbar and a status line. Python owns rows and ticks; sorting, filters and columns live here. */

import { createGrid } from "ag-grid-community";

import { definePart, download, element, microseconds } from "../part.mjs";
import { COLUMNS } from "./columns.mjs";
import { fileName, toCsv, toJson, toTabs } from "./export.mjs";
import { columnDefinitions, HEADER_HEIGHT, MODULES, ROW_HEIGHT, THEME } from "./grid.mjs";
import { describeSelection, describeTicks, flags, plural, readSnapshot, takeStates, tickTasks, totals } from "./rows.mjs";
import { makeToolbar } from "./toolbar.mjs";

const SCROLL_BAR = 18;

export default definePart("table", (part) => {
  const empty = element("div", { class: "wb-empty" }, "Waiting for the profile …");
  part.root.append(empty);
  let table = null;
  let shown = "";
  part.on("snapshot", ({ states, ...content }) => {
    const known = JSON.stringify([content.columns, content.tasks, content.header]);
    if (known === shown) return table.progress(states); // asked for by another view of this table
    shown = known;
    const before = table?.arrangement();
    table?.end();
    empty.remove();
    table = makeTable(part, readSnapshot({ states, ...content }), before);
  });
  part.on("progress", ({ states }) => table?.progress(states));
  part.on("say", ({ text }) => table?.say(text));
  part.watch("ticked", () => table?.showTicks());
  part.watch("focus", () => table?.showFocus({ scroll: true }));
  part.watch("height", () => table?.fit());
  part.onEnd(() => table?.end());
});

/**
 * @param {import("../part.mjs").Part} part
 * @param {object} [before]  how the user had arranged the table that this one replaces
 */
function makeTable(part, { rows, tasks, header }, before) {
  const byNumber = new Map(rows.map((row) => [row.row, row]));
  const largest = Math.max(0, ...rows.map((row) => row.time_percent ?? 0));
  const hidden = new Map(before?.columns.map(({ colId, hide }) => [colId, hide]));
  const columns = COLUMNS.filter(({ id, optional }) => !optional || rows.some((row) => (row[id] ?? null) !== null)).map((column) => ({
    ...column,
    hidden: hidden.get(column.id) ?? column.hidden,
  }));
  let ticked = new Set(part.model.get("ticked"));
  let focus = part.model.get("focus");
  let shown = before?.shown ?? "all";

  const toolbar = makeToolbar(columns, {
    search: (text) => grid.setGridOption("quickFilterText", text),
    show(which) {
      shown = which;
      grid.onFilterChanged();
    },
    column: (id, visible) => grid.setColumnsVisible([id], visible),
    tickShare: (share) => part.send("tick_share", { share }),
    untick: () => change(tickTasks(tasks, byNumber, ticked, new Set())),
    copy: () => copyText(toTabs(...shownTable())).then(() => say(`Copied ${plural(grid.getDisplayedRowCount(), "row")}.`)),
    csv: () => download(fileName(header.model, "csv"), toCsv(...shownTable()), "text/csv"),
    json: () => download(fileName(header.model, "json"), toJson(...shownTable(), about(header)), "application/json"),
  }, before);
  const place = element("div", { class: "wb-grid" });
  const summary = element("span", { class: "wb-ticked" });
  const said = element("span", { class: "wb-muted wb-grow", role: "status", "aria-live": "polite" });
  const frame = element("section", { "aria-label": `Profile of ${header.model}` },
    heading(header, tasks),
    toolbar.element,
    place,
    element("div", { class: "wb-bar wb-bottom wb-status" }, summary, said, notes(header)),
  );
  part.root.append(frame);

  const grid = createGrid(place, {
    theme: THEME,
    rowData: rows,
    columnDefs: columnDefinitions(columns, () => tasks, () => largest),
    getRowId: ({ data }) => String(data.row),
    rowSelection: {
      mode: "multiRow",
      checkboxes: true,
      headerCheckbox: true,
      selectAll: "filtered",
      enableClickSelection: false,
      hideDisabledCheckboxes: false,
      isRowSelectable: ({ data }) => Boolean(data?.tickable),
    },
    selectionColumnDef: { pinned: "left", width: 40, headerTooltip: "Tick all rows that the filters leave" },
    rowClassRules: {
      "wb-focused": ({ data }) => focus !== null && data.row === focus,
      "wb-untunable": ({ data }) => Boolean(data.untunable),
      "wb-broken": ({ data }) => Boolean(data.nan_count || data.inf_count),
    },
    pinnedBottomRowData: [{ total: totals(rows) }],
    isExternalFilterPresent: () => shown !== "all",
    doesExternalFilterPass: ({ data }) => passes(data, shown, ticked),
    enableBrowserTooltips: true,
    enableCellTextSelection: true,
    suppressDragLeaveHidesColumns: true,
    animateRows: false,
    // One stop of the Tab key, as a grid should be: arrows move inside, and nobody tabs through a thousand cells to get on.
    tabToNextCell: () => false,
    tabToNextHeader: () => false,
    onRowClicked: ({ data, event }) => data.total || onBox(event) || look(data.row),
    onCellKeyDown: ({ data, event }) => event.key === "Enter" && !data.total && look(data.row),
    onSelectionChanged({ source }) {
      if (source.startsWith("api")) return;
      const boxes = new Set(grid.getSelectedNodes().map((node) => node.data.row));
      change(tickTasks(tasks, byNumber, ticked, boxes));
    },
    onModelUpdated: ({ api }) => api.setGridOption("pinnedBottomRowData", [{ total: totals(displayed(api)) }]),
    onGridReady: () => place.querySelector("[role=grid], [role=treegrid]")?.setAttribute("aria-label", `Rows of ${header.model}`),
  }, { modules: MODULES });
  if (before) arrange(before);
  showTicks();
  showFocus({ scroll: true });
  fit();

  /** As the table before was arranged: order, widths, filters, search. */
  function arrange({ columns: states, filters, search }) {
    const same = states.map(({ colId, sort, sortIndex, width, flex }) => ({ colId, sort, sortIndex, width, flex }));
    grid.applyColumnState({ state: same });
    grid.setFilterModel(filters);
    grid.setGridOption("quickFilterText", search);
  }

  /** What the user did to the boxes. */
  function change(changed) {
    say(describeTicks(tasks, changed));
    ticked = new Set(changed.rows);
    part.set("ticked", changed.rows);
    showBoxes();
  }

  function showTicks() {
    ticked = new Set(part.model.get("ticked"));
    showBoxes();
  }

  function showBoxes() {
    const on = [];
    const off = [];
    grid.forEachNode((node) => {
      const wanted = ticked.has(node.data.row);
      if (wanted !== Boolean(node.isSelected())) (wanted ? on : off).push(node);
    });
    if (on.length) grid.setNodesSelected({ nodes: on, newValue: true, source: "api" });
    if (off.length) grid.setNodesSelected({ nodes: off, newValue: false, source: "api" });
    summary.textContent = describeSelection(rows, ticked, !header.unmeasured);
    if (shown === "ticked") grid.onFilterChanged();
  }

  function look(number) {
    part.set("focus", number);
    showFocus({ scroll: false });
  }

  function showFocus({ scroll }) {
    focus = part.model.get("focus") ?? null;
    // Not redrawn: that would take the keyboard's place in the grid away.
    for (const row of place.querySelectorAll(".ag-row[row-id]")) row.classList.toggle("wb-focused", row.getAttribute("row-id") === String(focus));
    const now = grid.getRowNode(String(focus));
    if (scroll && now?.displayed) grid.ensureNodeVisible(now);
  }

  /** As high as its rows, and at most the trait `height`. */
  function fit() {
    const wanted = HEADER_HEIGHT + (rows.length + 1) * ROW_HEIGHT + SCROLL_BAR;
    place.style.height = `${Math.min(wanted, part.model.get("height"))}px`;
  }

  function say(text) {
    said.textContent = text;
  }

  function shownTable() {
    const visible = grid.getAllDisplayedColumns().map((column) => columns.find(({ id }) => id === column.getColId())).filter(Boolean);
    return [visible, displayed(grid).map((row) => visible.map((column) => column.value(row, tasks)))];
  }

  return {
    say,
    showTicks,
    showFocus,
    fit,
    arrangement: () => ({ columns: grid.getColumnState(), filters: grid.getFilterModel(), shown, ...toolbar.typed() }),
    progress(states) {
      const rowNodes = takeStates(tasks, states).map((number) => grid.getRowNode(String(number))).filter(Boolean);
      const live = columns.filter((column) => column.live).map(({ id }) => id);
      grid.refreshCells({ rowNodes, columns: live, force: true });
      const arranged = grid.getColumnState().some(({ colId, sort }) => sort && live.includes(colId));
      if (arranged) grid.refreshClientSideRowModel("sort");
    },
    end() {
      grid.destroy();
      frame.remove();
    },
  };
}

function displayed(grid) {
  const rows = [];
  grid.forEachNodeAfterFilterAndSort((node) => rows.push(node.data));
  return rows;
}

function passes(row, shown, ticked) {
  if (shown === "ticked") return ticked.has(row.row);
  if (shown === "tunable") return row.tickable;
  return flags(row).length > 0;
}

/** True if a click went to a tick box: that is no click on the row. */
function onBox(event) {
  return event?.target instanceof Element && Boolean(event.target.closest(".ag-selection-checkbox, .ag-checkbox"));
}

function heading(header, tasks) {
  const facts = [];
  if (header.total_us !== null) {
    const spread = header.total_us_iqr === null ? "" : ` ± ${microseconds(header.total_us_iqr)}`;
    facts.push(`end to end ${microseconds(header.total_us)}${spread} us`);
  }
  if (header.rows_us !== null) facts.push(`sum of the rows ${microseconds(header.rows_us)} us`);
  if (header.repeats) facts.push(`medians of ${plural(header.repeats, "round")}, ${plural(header.threads, "thread")}`);
  facts.push(plural(tasks.length, "task"));
  return element("div", { class: "wb-bar wb-heading" },
    element("span", { class: "wb-title" }, header.model),
    element("span", { class: "wb-chip" }, header.target),
    element("span", { class: "wb-muted" }, facts.join(" · ")),
    header.unmeasured ? element("span", { class: "wb-chip wb-warn" }, `not measured: ${header.unmeasured}`) : null,
  );
}

function notes(header) {
  const list = element("ul", {}, ...header.notes.map((note) => element("li", {}, note)));
  const words = plural(header.notes.length, "note");
  return element("details", { class: "wb-notes", hidden: !header.notes.length }, element("summary", {}, words), list);
}

function about(header) {
  return { model: header.model, target: header.target, notes: header.notes };
}

/** The clipboard, or where the page may not use it (plain HTTP) the browser's older way. */
async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element("textarea", { class: "wb-hidden-text", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("The browser did not let the page copy. Use CSV instead.");
}

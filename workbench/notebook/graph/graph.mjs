/** The graph of a model: operators or kernels, coloured, searched, expanded, exported. */

import { coalesce, definePart } from "../part.mjs";
import { allKeys, countBoxes, itemAt, itemsOf, pathTo } from "./blocks.mjs";
import { taskColours } from "./colors.mjs";
import { Expansion } from "./expansion.mjs";
import { savePng, saveSvg } from "./export.mjs";
import { factsOf } from "./facts.mjs";
import { anchorAt, boxOf, everything, records } from "./found.mjs";
import { keysOf } from "./keys.mjs";
import { Looks, hintOf } from "./looks.mjs";
import { Matches } from "./matches.mjs";
import { linesAround } from "./navigate.mjs";
import { readPalette } from "./palette.mjs";
import { ask, fillDetails, fillLegend, shellOf } from "./panels.mjs";
import { Scene, rowText, timeText } from "./scene.mjs";
import { carried, onlyNode, rowOf, selectionOf, subjectOf } from "./selection.mjs";
import { pageShortener } from "./surfaces.mjs";
import { toolbar } from "./toolbar.mjs";
import { Window } from "./window.mjs";

const MANY = 3000; // boxes that are shown at once without a question

export default definePart("graph", (part) => new GraphPart(part));

class GraphPart {
  constructor(part) {
    this.part = part;
    this.ready = false;
    this.expansion = new Expansion();
    this.withConstants = false;
    this.progress = new Map();
    /** @type {import("./selection.mjs").Selection | null} */
    this.selection = null;
    this.matches = new Matches();
    this.lit = new Set();
    this.looks = new Looks({ tasks: [], hottest: 0, colours: new Map() });
    this.palette = null;
    this.shortener = pageShortener();
    this.build();
    part.on("snapshot", (message, buffers) => this.take(message, buffers));
    part.on("progress", ({ progress }) => this.takeProgress(progress));
    part.watch("shown", () => this.ready && this.showGraph());
    part.watch("colors", () => this.recolour());
    part.watch("ticked", () => this.recolour());
    part.watch("focus", (row) => this.followRow(row));
    part.watch("focus_node", (node) => this.followNode(node));
    part.onTheme(() => {
      this.palette = null;
      this.recolour();
    });
    part.onEnd(() => this.matches.close());
  }

  build() {
    const { part } = this;
    this.bar = toolbar(part, {
      onSearch: coalesce(() => this.runSearch(), 120),
      onStep: (step) => this.step(step),
      onZoom: (factor) => this.window.zoom(factor),
      onFit: () => this.window.fitAll(),
      onCollapse: () => this.setExpanded(new Set()),
      onExpand: () => this.expandAll(),
      onConstants: (wanted) => {
        this.withConstants = wanted;
        this.redraw();
        this.showSelection();
      },
      onExport: (kind) => this.save(kind),
    });
    Object.assign(this, shellOf(part.root, this.bar.element));
    this.window = new Window({
      host: this.host,
      signal: part.signal,
      shortener: this.shortener,
      scene: () => this.paintScene(),
      onSelect: (hit) => this.choose(hit),
      onOpen: (hit) => this.toggle(hit.item),
    });
    this.host.append(this.empty);
    this.host.addEventListener("keydown", (event) => this.key(event), { signal: part.signal });
  }

  // data

  take({ progress }, [buffer]) {
    const text = new TextDecoder().decode(buffer);
    if (text === this.text) return this.takeProgress(progress); // asked for by another view of this graph
    this.text = text;
    const data = JSON.parse(text);
    this.model = data.model;
    this.tasks = records(data.tasks);
    this.rows = records(data.rows).map((row) => ({ ...row, task_id: row.task === null ? null : this.tasks[row.task].task }));
    const kernelRows = this.rows.filter((row) => row.kernel !== null);
    this.hottest = kernelRows.reduce((most, row) => Math.max(most, row.time_us ?? 0), 0);
    this.colours = taskColours(this.tasks);
    this.looks = new Looks(this);
    this.scenes = { operators: new Scene("operators", data.operators, this.rows), kernels: new Scene("kernels", data.kernels, this.rows) };
    this.kernelRows = kernelRows;
    this.progress.clear();
    this.takeProgress(progress);
    this.ready = true;
    this.empty.hidden = true;
    this.showGraph();
    const [row, node] = [this.part.model.get("focus"), this.part.model.get("focus_node")];
    if (node !== null) this.followNode(node);
    else this.followRow(row);
  }

  takeProgress(progress) {
    for (const item of progress) this.progress.set(item.task, item);
    if (this.ready) this.recolour();
  }

  get shown() {
    return this.part.model.get("shown");
  }

  get scene() {
    return this.scenes[this.shown];
  }

  // drawing

  showGraph() {
    this.bar.constants(this.scene.constants.length > 0 && this.shown === "operators");
    this.host.setAttribute("aria-label", `Graph of the ${this.shown} of ${this.model}`);
    this.matches.clear();
    if (this.selection && this.selection.graph !== this.shown) this.selection = carried(this.selection, this.scenes, this.shown);
    this.redraw();
    this.recolour();
    this.showSelection({ reveal: true });
    this.runSearch();
  }

  /** Lays out anew; `anchor` finds what stays at its place on the screen. */
  redraw(anchor = null) {
    const drawing = this.scene.draw(this.expansion.of(this.shown), this.withConstants && this.shown === "operators");
    this.looks.clear();
    this.drawing = drawing;
    this.window.show(drawing, anchor?.(drawing) ?? null);
    this.describe();
  }

  describe() {
    const { scene } = this;
    const boxes = this.drawing.boxes.length;
    const operators = scene.nodes.kind.filter((kind) => kind === "operator" || kind === "kernel").length;
    const collapsed = this.drawing.boxes.filter(({ item }) => item.type === "repeat").length;
    const hidden = this.withConstants ? 0 : scene.constants.length;
    const what = this.shown === "operators" ? "operators" : "kernel calls";
    const words = [`${operators.toLocaleString("en-US")} ${what} in ${boxes.toLocaleString("en-US")} boxes`];
    if (collapsed) words.push(`${collapsed} repeated ${collapsed === 1 ? "block" : "blocks"} collapsed`);
    if (hidden && this.shown === "operators") words.push(`${hidden.toLocaleString("en-US")} ${hidden === 1 ? "constant" : "constants"} hidden`);
    this.counts.textContent = words.join(" · ");
    this.bar.blocks(scene.repeats.length > 0);
  }

  recolour() {
    this.looks.clear();
    if (!this.ready) return;
    this.window.refresh();
    if (!this.readColours()) return;
    const mode = this.part.model.get("colors");
    fillLegend(this.legend, mode, {
      palette: this.palette,
      rows: this.kernelRows,
      tasks: this.tasks,
      colours: this.colours,
      hottest: this.hottest,
      progress: (row) => this.progress.get(row.task_id),
    });
    if (this.selection) this.fillDetails();
  }

  /** The colours of the style sheet: there are none before the view is in the page. */
  readColours() {
    this.palette ??= readPalette(this.part.root);
    return this.palette !== null;
  }

  /** What is painted with; null as long as there is nothing, or no colours. */
  paintScene() {
    if (!this.ready) return null;
    if (!this.palette) {
      if (!this.readColours()) return null;
      this.recolour();
    }
    const state = this.state();
    return {
      palette: this.palette,
      about: (item) => this.scene.aboutItem(item),
      look: (item) => this.looks.of(item, state),
      hint: (item) => hintOf(this.scene.aboutItem(item), this.progress),
      lit: this.lit,
    };
  }

  /** What decides how boxes look, besides the model. */
  state() {
    const { model } = this.part;
    const { scene, palette, progress, matches, shownItem, selection } = this;
    return { mode: model.get("colors"), ticked: model.get("ticked"), scene, palette, progress, found: matches.set, focused: shownItem?.key, node: selection?.node ?? null };
  }

  save(kind) {
    if (!this.ready) return;
    const picture = { drawing: this.drawing, scene: this.paintScene(), shortener: this.shortener, title: `${this.model} ${this.shown}` };
    if (kind === "svg") saveSvg(picture);
    else savePng(picture).catch((error) => this.part.fail(error));
  }

  // selection

  /** A click on the drawing. */
  choose(hit) {
    if (!hit) return this.select(null);
    return this.select(selectionOf(this.scene, this.shown, hit.item, hit.node ?? null));
  }

  /** Selects, and tells the others by the traits. */
  select(selection, options = {}) {
    this.selection = selection;
    const row = rowOf(this.scene, selection);
    const node = this.shown === "operators" ? (selection?.node ?? null) : null;
    this.telling = true;
    this.part.model.set("focus", row);
    this.part.model.set("focus_node", node);
    this.part.model.save_changes();
    this.telling = false;
    this.showSelection(options);
  }

  followRow(row) {
    if (!this.ready || this.telling) return;
    if (rowOf(this.scene, this.selection) === row) return;
    const found = row === null ? undefined : this.scene.unitOfRow.get(row);
    this.selection = found === undefined ? null : { graph: this.shown, unit: found, node: null };
    this.showSelection({ reveal: true });
  }

  followNode(node) {
    if (!this.ready || this.telling || node === null || this.shown !== "operators" || this.selection?.node === node) return;
    const unit = this.scene.unitOfNode[node];
    this.selection = unit === undefined ? null : { graph: this.shown, unit, node };
    this.showSelection({ reveal: true });
  }

  /** The item that is shown for the selection: the box itself, or the block that hides it. */
  findShown() {
    if (!this.selection) return null;
    if (this.selection.key) return everything(this.drawing).find(({ item }) => item.key === this.selection.key)?.item ?? null;
    return this.scene.itemOfUnit(this.drawing, this.selection.unit) ?? null;
  }

  showSelection({ reveal = false } = {}) {
    this.looks.forget(this.shownItem);
    this.shownItem = this.findShown();
    this.looks.forget(this.shownItem);
    if (!this.shownItem) this.selection = null;
    this.lit = this.shownItem ? linesAround(this.shownItem, this.drawing.lines, this.scene) : new Set();
    const opens = this.details.hidden && this.selection !== null;
    this.details.hidden = !this.selection;
    if (this.selection) this.fillDetails();
    const box = this.shownItem && boxOf(this.drawing, this.shownItem);
    if (box && (reveal || opens)) this.window.reveal(box, { zoom: reveal });
    this.window.refresh();
    if (this.selection) this.live.textContent = this.spoken();
  }

  spoken() {
    const { item, node } = this.subject();
    const { title, subtitle, chips } = factsOf(this.scene, item, node, this.known());
    const about = this.scene.aboutItem(item);
    return [title, subtitle, ...chips, about.rows.length ? `${rowText(about.rows)}, ${timeText(about.rows)}` : ""].filter(Boolean).join(", ");
  }

  known() {
    return { tasks: this.tasks, progress: this.progress, operators: this.scenes.operators, kernels: this.scenes.kernels };
  }

  subject() {
    return subjectOf(this.scene, this.selection, this.shownItem);
  }

  fillDetails() {
    const { item, node } = this.subject();
    const facts = factsOf(this.scene, item, node, this.known());
    const close = ["Close", () => this.select(null)];
    fillDetails(this.details, facts, [...this.blockButtons(), close], (link) => this.go(link));
  }

  blockButtons() {
    const { shownItem: item } = this;
    if (!item) return [];
    const buttons = [];
    if (item.type === "repeat" && this.selection.unit !== undefined) buttons.push(["Expand to it", () => this.revealUnit(this.selection.unit)]);
    if (item.type === "repeat") buttons.push([`Expand into ${item.copies}`, () => this.toggle(item)]);
    if (item.type === "copy") buttons.push([item.items ? "Collapse" : "Expand", () => this.toggle(item)]);
    if (item.repeat) buttons.push(["Collapse all of them", () => this.collapse(item.repeat)]);
    else if (item.type === "unit" && this.around(item)) buttons.push(["Collapse the block", () => this.collapse(this.around(item))]);
    return buttons;
  }

  go(link) {
    if (link.graph && link.graph !== this.shown) this.part.set("shown", link.graph);
    const unit = link.unit ?? this.scene.unitOfRow.get(link.row);
    if (unit === undefined) return;
    this.select({ graph: this.shown, unit, node: this.shown === "operators" ? (link.node ?? null) : null }, { reveal: true });
  }

  // blocks

  around(item) {
    return this.expansion.around(this.shown, item, this.scene.repeats);
  }

  toggle(item) {
    if (item.type === "repeat" || item.type === "copy") this.setExpanded(this.expansion.toggled(this.shown, item), item);
  }

  collapse(key) {
    this.setExpanded(this.expansion.without(this.shown, key), this.shownItem);
  }

  revealUnit(unit) {
    const path = pathTo(this.scene.placeOfUnit.get(unit), this.scene.repeats);
    const node = this.selection?.unit === unit ? this.selection.node : null;
    this.setExpanded(this.expansion.with(this.shown, path), this.shownItem).then((done) => {
      if (done) this.select({ graph: this.shown, unit, node }, { reveal: true });
    });
  }

  expandAll() {
    this.setExpanded(new Set(allKeys(this.scene.repeats)));
  }

  /** Shows other blocks expanded, after a question if that is much; `item` stays where it is on the screen. */
  async setExpanded(keys, item = null) {
    const { scene, shown } = this;
    const boxes = countBoxes(itemsOf(0, scene.kept.length, scene.repeats, keys));
    if (boxes > this.drawing.boxes.length + MANY) {
      const agreed = await ask(this.host, `This shows ${boxes.toLocaleString("en-US")} boxes at once and can take some seconds.`, `Show ${boxes.toLocaleString("en-US")} boxes`);
      if (!agreed || this.shown !== shown) return false;
    }
    this.expansion.set(shown, keys);
    const from = item && boxOf(this.drawing, item);
    this.redraw(from ? (drawing) => anchorAt(drawing, item, from) : null);
    if (this.selection?.key && !this.findShown() && item) {
      const heir = itemAt(this.drawing.items, item.start);
      this.selection = heir && heir.type !== "unit" ? { graph: shown, key: heir.key } : null;
    }
    this.showSelection();
    return true;
  }

  // search

  async runSearch() {
    if (!this.ready) return;
    const { scene } = this;
    const answer = await this.matches.find(this.bar.query(), scene, this.withConstants);
    if (answer === null || scene !== this.scene) return;
    this.looks.clear();
    this.bar.found(answer.words, answer.isProblem);
    this.window.refresh();
  }

  step(by) {
    const match = this.matches.step(by);
    if (!match) return;
    this.bar.found(match.words);
    const node = this.shown === "operators" ? onlyNode(this.scene, match.unit) : null;
    this.select({ graph: this.shown, unit: match.unit, node }, { reveal: true });
  }

  // keyboard

  key(event) {
    if (!this.ready || event.target !== this.host || event.ctrlKey || event.metaKey || event.altKey) return;
    const handler = keysOf(this)[event.key];
    if (!handler) return;
    event.preventDefault();
    event.stopPropagation();
    handler();
  }

  collapseAround() {
    const key = this.shownItem.repeat ?? this.around(this.shownItem);
    if (key) this.collapse(key);
  }

  arrive(box) {
    if (box) this.select(selectionOf(this.scene, this.shown, box.item), { reveal: true });
  }
}

/** The window on a drawing: canvas, camera, pointer and minimap. What is drawn, and what a click means, is told by its owner. */

import { element } from "../part.mjs";
import { centre, fit, inSight, pan, resized, reveal, start, toDrawing, zoomAt } from "./camera.mjs";
import { indexed, paint } from "./paint.mjs";
import { CanvasSurface } from "./surfaces.mjs";

const CLICK = 4; // points that a pointer may move in a click
const TITLE = 24;
const MAP = { width: 132, height: 132 };
const AROUND_MAP = 20; // from its edge to that of the window, and as much to what is drawn beside it
const MOST_STRETCHED = 8;

export class Window {
  /**
   * @param {{ host: HTMLElement, signal: AbortSignal, shortener: object, scene: () => object,
   *   onSelect: (hit: object | null) => void, onOpen: (hit: object) => void }} options
   *   `scene` gives what `paint` needs, null before there is anything; a hit has an `item`, and the `node` of the line that was hit
   */
  constructor({ host, signal, shortener, scene, onSelect, onOpen }) {
    Object.assign(this, { host, signal, scene, onSelect, onOpen });
    this.canvas = element("canvas", { class: "wb-graph-canvas", "aria-hidden": "true" });
    this.map = element("canvas", { class: "wb-graph-map", "aria-hidden": "true" });
    host.append(this.canvas, this.map);
    this.surface = new CanvasSurface(this.canvas.getContext("2d"), shortener);
    this.drawing = { width: 0, height: 0, boxes: [], frames: [], lines: [], trunks: [] };
    this.index = indexed(this.drawing);
    this.camera = { scale: 1, x: 0, y: 0 };
    this.beginning = null; // where a view looks that nobody has moved
    this.view = { width: 0, height: 0 };
    this.placed = false;
    this.hovered = null;
    this.frame = null;
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(host);
    signal.addEventListener("abort", () => {
      observer.disconnect();
      if (this.frame !== null) cancelAnimationFrame(this.frame);
    });
    this.listen();
  }

  /** Shows another drawing; `anchor` gives a box of the old and one of the new that stay at the same place. */
  show(drawing, anchor = null) {
    this.drawing = drawing;
    this.index = indexed(drawing);
    this.hovered = null;
    if (anchor) {
      const { scale, x, y } = this.camera;
      this.camera = inSight({ scale, x: x + anchor.to.x - anchor.from.x, y: y + anchor.to.y - anchor.from.y }, drawing, this.view);
    } else {
      this.placed = false;
    }
    this.refresh();
  }

  /** Draws again after colours, ticks or the selection have changed. */
  refresh() {
    this.mapIsOld = true;
    this.request();
  }

  request() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width === this.view.width && height === this.view.height) return;
    const before = this.view;
    this.view = { width, height };
    if (this.camera === this.beginning) this.placed = false;
    else if (this.placed && width && height && before.width && before.height) this.camera = inSight(resized(this.camera, before, this.view), this.drawing, this.view);
    this.request();
  }

  draw() {
    const { width, height } = this.view;
    const scene = this.scene();
    if (!width || !height || !scene) return;
    if (!this.placed) {
      this.camera = this.beginning = start(this.drawing, this.view);
      this.placed = true;
    }
    const ratio = globalThis.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== high) this.canvas.height = high;
    const context = this.surface.context;
    const { scale, x, y } = this.camera;
    this.surface.font = "";
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = scene.palette.bg;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(scale * ratio, 0, 0, scale * ratio, -x * scale * ratio, -y * scale * ratio);
    const sight = { left: x - 10, top: y - 10, right: x + width / scale + 10, bottom: y + height / scale + 10, scale };
    paint(this.surface, this.drawing, this.index, sight, { ...scene, hovered: this.hovered });
    this.drawMap(scene);
  }

  // the minimap

  mapScale() {
    const across = (MAP.width - 8) / Math.max(this.drawing.width, 1);
    const down = (MAP.height - 8) / Math.max(this.drawing.height, 1);
    const both = Math.min(across, down);
    return { across: Math.min(across, both * MOST_STRETCHED), down: Math.min(down, both * MOST_STRETCHED) };
  }

  mapSize() {
    const { across, down } = this.mapScale();
    return [Math.round(this.drawing.width * across) + 8, Math.round(this.drawing.height * down) + 8];
  }

  /** There is none where all is in sight, or no room for it. */
  hasMap() {
    const { width, height } = this.view;
    const all = this.camera.scale * this.drawing.width <= width && this.camera.scale * this.drawing.height <= height;
    return width >= 360 && height >= 260 && !all;
  }

  /** What the minimap covers of the window's lower right corner. */
  mapCorner() {
    if (!this.hasMap()) return null;
    const [width, height] = this.mapSize();
    return { width: width + AROUND_MAP, height: height + AROUND_MAP };
  }

  drawMap(scene) {
    const { width, height } = this.view;
    const { across, down } = this.mapScale();
    const [wide, high] = this.mapSize();
    this.map.hidden = !this.hasMap();
    if (this.map.hidden) return;
    const ratio = globalThis.devicePixelRatio || 1;
    if (this.mapIsOld || this.mapImage?.width !== wide * ratio || this.mapImage?.height !== high * ratio) this.renderMap(scene, wide, high, ratio);
    if (this.map.width !== this.mapImage.width) this.map.width = this.mapImage.width;
    if (this.map.height !== this.mapImage.height) this.map.height = this.mapImage.height;
    this.map.style.width = `${wide}px`;
    this.map.style.height = `${high}px`;
    const context = this.map.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.mapImage, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 4 * ratio, 4 * ratio);
    context.lineWidth = 1.5;
    context.strokeStyle = scene.palette.accent;
    const { scale, x, y } = this.camera;
    const sight = { x: x * across, y: y * down, width: Math.max(4, (width / scale) * across), height: Math.max(4, (height / scale) * down) };
    context.strokeRect(sight.x, sight.y, sight.width, sight.height);
  }

  renderMap({ palette, look }, wide, high, ratio) {
    this.mapImage = element("canvas");
    this.mapImage.width = wide * ratio;
    this.mapImage.height = high * ratio;
    this.mapIsOld = false;
    const { across, down } = this.mapScale();
    const context = this.mapImage.getContext("2d");
    context.scale(ratio, ratio);
    context.fillStyle = palette.surface;
    context.fillRect(0, 0, wide, high);
    context.translate(4, 4);
    for (const { item, x, y, width, height } of this.drawing.boxes) {
      const { fill, band, ticked, found, focused } = look(item);
      const marked = focused ? palette.accent : found ? palette.focusEdge : ticked ? palette.good : null;
      context.fillStyle = marked ?? band ?? (fill === palette.raised || fill === palette.surface ? palette.outline : fill);
      context.fillRect(x * across, y * down, Math.max(1, width * across), Math.max(marked ? 2 : 1, height * down));
    }
  }

  // moving

  fitAll() {
    this.move(fit(this.drawing, this.view));
  }

  zoom(factor, x = this.view.width / 2, y = this.view.height / 2) {
    this.move(zoomAt(this.camera, factor, x, y));
  }

  pan(x, y) {
    this.move(pan(this.camera, x, y));
  }

  /** Moves until a box is in sight; what is beside the graph may just have changed its size. */
  reveal(box, { zoom = true } = {}) {
    this.resize();
    if (!this.placed) this.draw();
    this.move(reveal(this.camera, box, this.view, { zoom, corner: this.mapCorner() }));
  }

  move(camera) {
    this.camera = inSight(camera, this.drawing, this.view);
    this.placed = this.placed || this.view.width > 0;
    this.request();
  }

  // the pointer

  /** The item at a point of the screen; the number of the operator whose line was hit in a box. */
  hit(screenX, screenY) {
    const scene = this.scene();
    if (!scene) return null;
    const [x, y] = toDrawing(this.camera, screenX, screenY);
    const inside = (box, height = box.height) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + height;
    let found = null;
    this.index.boxes.between(y, y, (box) => inside(box) && (found = box));
    if (found) {
      const line = scene.about(found.item).lines[Math.floor((y - found.y - 6) / 17)];
      return { item: found.item, node: line?.node ?? null };
    }
    const frame = this.drawing.frames.findLast((box) => inside(box, TITLE));
    return frame ? { item: frame.item, node: null } : null;
  }

  listen() {
    const { host, signal, canvas, map } = this;
    const place = (event, target = host) => {
      const { left, top } = target.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      host.focus({ preventScroll: true });
      drag = { at: place(event), far: 0 };
      canvas.setPointerCapture(event.pointerId);
      event.preventDefault();
    }, { signal });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag) {
        drag.far += Math.abs(x - drag.at[0]) + Math.abs(y - drag.at[1]);
        if (drag.far > CLICK) this.pan(x - drag.at[0], y - drag.at[1]);
        if (drag.far > CLICK) canvas.style.cursor = "grabbing";
        drag.at = [x, y];
        return;
      }
      this.hover(this.hit(x, y));
    }, { signal });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = drag && drag.far <= CLICK;
      drag = null;
      canvas.style.cursor = "";
      if (clicked) this.onSelect(this.hit(...place(event)));
    }, { signal });
    canvas.addEventListener("pointercancel", () => (drag = null), { signal });
    canvas.addEventListener("pointerleave", () => this.hover(null), { signal });
    canvas.addEventListener("dblclick", (event) => {
      const hit = this.hit(...place(event));
      if (hit) this.onOpen(hit);
    }, { signal });
    host.addEventListener("wheel", (event) => this.wheel(event, place(event)), { signal, passive: false });
    const jump = (event) => {
      const [x, y] = place(event, map);
      const { across, down } = this.mapScale();
      this.move(centre(this.camera, { x: (x - 4) / across, y: (y - 4) / down, width: 0, height: 0 }, this.view));
    };
    map.addEventListener("pointerdown", (event) => {
      map.setPointerCapture(event.pointerId);
      jump(event);
    }, { signal });
    map.addEventListener("pointermove", (event) => event.buttons && jump(event), { signal });
  }

  /** Ctrl and the wheel zoom. The wheel alone moves, if the graph has the keyboard: else it scrolls the page. */
  wheel(event, [x, y]) {
    const step = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? this.view.height : 1;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp((-event.deltaY * step) / 400), x, y);
    else if (this.host === document.activeElement || this.host.getRootNode().activeElement === this.host) {
      const sideways = event.shiftKey && !event.deltaX;
      this.pan(-(sideways ? event.deltaY : event.deltaX) * step, -(sideways ? 0 : event.deltaY) * step);
    } else return;
    event.preventDefault();
  }

  hover(hit) {
    const item = hit?.item ?? null;
    if (item === this.hovered) return;
    this.hovered = item;
    this.canvas.style.cursor = item ? "pointer" : "";
    this.canvas.title = item ? this.scene().hint(item) : "";
    this.request();
  }
}

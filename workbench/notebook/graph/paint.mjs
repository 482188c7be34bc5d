/**
 * Paints a drawing on a surface: a canvas, or an SVG text. What is painted depends on the scale: names where they can be read, plain boxes where
 * they cannot.
 *
 * @typedef {object} Surface
 * @property {(x: number, y: number, width: number, height: number, style: object) => void} box   style: fill, stroke, line, dash, radius, alpha
 * @property {(text: string, x: number, y: number, style: object) => void} text                   style: colour, size, bold, room, alpha
 * @property {(segments: number[][], style: object) => void} lines                                style: stroke, line, straight, alpha
 *
 * @typedef {object} Look      how a box is shown
 * @property {string} fill
 * @property {string | null} band
 * @property {string} soft      colour of its smaller text
 * @property {string} footer
 * @property {boolean} ticked
 * @property {boolean} focused
 * @property {boolean} found    by the search
 * @property {boolean} dim      not found, while others are
 * @property {number | null} line   of the focused operator in it
 */

import { Bands } from "./drawing.mjs";

export const TEXT_FROM = 0.36; // scale from which text is painted
const ROUND_FROM = 0.16;

/** Finds what of a drawing is in sight. */
export function indexed(drawing) {
  const boxes = new Bands();
  const lines = new Bands();
  for (const box of drawing.boxes) boxes.add(box, box.y, box.y + box.height);
  for (const line of [...drawing.trunks, ...drawing.lines]) {
    for (let index = 0; index < line.segments.length; index += 4) {
      const [, y1, , y2] = line.segments.slice(index, index + 4);
      lines.add({ line, index, points: line.segments.slice(index, index + 4) }, Math.min(y1, y2), Math.max(y1, y2));
    }
  }
  return { boxes, lines };
}

/**
 * @param {Surface} surface
 * @param {import("./drawing.mjs").Drawing} drawing
 * @param {ReturnType<typeof indexed>} index
 * @param {{ top: number, bottom: number, left: number, right: number, scale: number }} window  in the drawing's points
 * @param {{ palette: object, about: (item: object) => object, look: (item: object) => Look, lit: Set<object>, hovered: object | null }} scene
 */
export function paint(surface, drawing, index, window, scene) {
  paintFrames(surface, drawing, window, scene);
  paintLines(surface, index, window, scene);
  if (window.scale < ROUND_FROM) paintFar(surface, index, window, scene);
  else index.boxes.between(window.top, window.bottom, (box) => isIn(box, window) && paintBox(surface, box, window, scene));
}

const isIn = (box, window) => box.x <= window.right && box.x + box.width >= window.left && box.y <= window.bottom && box.y + box.height >= window.top;

function paintFrames(surface, drawing, window, { palette, about, look }) {
  drawing.frames.forEach((frame) => {
    if (!isIn(frame, window)) return;
    const { focused, ticked } = look(frame.item);
    surface.box(frame.x, frame.y, frame.width, frame.height, {
      fill: palette.surface,
      stroke: focused ? palette.accent : ticked ? palette.good : palette.border,
      line: Math.max(focused ? 2 : 1, 0.8 / window.scale),
      radius: 8,
      alpha: 1,
    });
    if (window.scale >= TEXT_FROM * 0.8) {
      surface.text(`▾ ${about(frame.item).lines[0].strong}`, frame.x + 10, frame.y + 16, { colour: palette.muted, size: 12, bold: true, room: frame.width - 20 });
    }
  });
}

function paintLines(surface, index, window, { palette, lit }) {
  const plain = [];
  index.lines.between(window.top, window.bottom, ({ points }) => {
    const [x1, , x2] = points;
    if (Math.max(x1, x2) >= window.left && Math.min(x1, x2) <= window.right) plain.push(points);
  });
  const straight = window.scale < ROUND_FROM;
  surface.lines(plain, { stroke: palette.edge, line: Math.max(1.2, 0.7 / window.scale), straight });
  if (!lit.size) return;
  const bright = [];
  for (const line of lit) {
    const cut = line.trunk && line.lanes ? line.trunk.segments.slice(0, line.trunk.ends[line.lanes - 1]) : [];
    for (const segments of [cut, line.segments]) {
      for (let place = 0; place < segments.length; place += 4) {
        const points = segments.slice(place, place + 4);
        if (Math.max(points[1], points[3]) >= window.top && Math.min(points[1], points[3]) <= window.bottom) bright.push(points);
      }
    }
  }
  surface.lines(bright, { stroke: palette.accent, line: Math.max(2.2, 1.6 / window.scale), straight });
}

/** Very small boxes: rectangles, one path a colour. */
function paintFar(surface, index, window, { look, palette }) {
  const byFill = new Map();
  const marked = [];
  index.boxes.between(window.top, window.bottom, (box) => {
    if (!isIn(box, window)) return;
    const { band, fill, ticked, focused, found, dim } = look(box.item);
    const colour = dim ? palette.border : (band ?? (fill === palette.surface || fill === palette.raised ? palette.border : fill));
    if (!byFill.has(colour)) byFill.set(colour, []);
    byFill.get(colour).push(box);
    if (ticked || focused || found) marked.push([box, focused ? palette.accent : found ? palette.focusEdge : palette.good]);
  });
  for (const [fill, boxes] of byFill) surface.boxes(boxes, fill);
  for (const [box, stroke] of marked) surface.box(box.x, box.y, box.width, box.height, { fill: null, stroke, line: 2 / window.scale, radius: 0, alpha: 1 });
}

function paintBox(surface, box, window, { palette, about, look, hovered }) {
  const { item, x, y, width, height } = box;
  const known = about(item);
  const seen = look(item);
  const alpha = seen.dim ? 0.35 : 1;
  const idle = known.state === "eliminated";
  const round = known.state === "input" || known.state === "output" ? Math.min(height / 2, 14) : 5;
  const stacked = item.type === "repeat" ? 2 : item.type === "copy" ? 1 : 0;
  const outline = seen.focused ? palette.accent : hovered === item ? palette.text : palette.outline;
  for (let sheet = stacked; sheet > 0; sheet--) {
    surface.box(x + 3 * sheet, y + 3 * sheet, width, height, { fill: palette.raised, stroke: palette.outline, line: 1, radius: round, alpha });
  }
  surface.box(x, y, width, height, {
    fill: seen.fill,
    stroke: outline,
    line: Math.max(seen.focused ? 2.4 : 1, (seen.focused ? 2 : 0.7) / window.scale),
    dash: idle || known.state === "builtin" ? [4, 3] : null,
    radius: round,
    alpha,
  });
  if (seen.band) surface.box(x, y + 3, 5, height - 6, { fill: seen.band, stroke: null, line: 0, radius: 2, alpha });
  if (seen.ticked || seen.found) {
    const around = (space, stroke) =>
      surface.box(x - space, y - space, width + 2 * space, height + 2 * space, { fill: null, stroke, line: Math.max(2, 1.4 / window.scale), radius: round + space, alpha: 1 });
    if (seen.ticked) around(3.5, palette.good);
    if (seen.found) around(seen.ticked ? 6.5 : 3.5, palette.focusEdge);
  }
  if (window.scale >= TEXT_FROM) paintText(surface, box, known, seen, { palette, alpha, idle });
}

function paintText(surface, { x, y, width, height }, known, seen, { palette, alpha, idle }) {
  const left = x + (seen.band ? 12 : 9);
  const room = x + width - 8 - left - (seen.ticked ? 14 : 0);
  known.lines.forEach((line, index) => {
    const base = y + 7 + index * 17 + 10;
    if (seen.line !== null && seen.line === line.node && known.lines.length > 1) {
      surface.box(x + 3, base - 12, width - 6, 16, { fill: palette.accentSoft, stroke: null, line: 0, radius: 3, alpha: 1 });
    }
    const faint = idle || line.idle;
    const used = line.strong ? surface.text(line.strong, left, base, { colour: faint ? palette.muted : palette.text, size: 12, bold: true, room, alpha }) : 0;
    if (line.text && room - used > 24) {
      const start = left + used + (used ? 6 : 0);
      surface.text(line.text, start, base, { colour: faint ? palette.muted : seen.soft, size: 11.5, room: left + room - start, tail: used > 0, alpha });
    }
  });
  if (known.footer) surface.text(seen.footer, left, y + height - 8, { colour: seen.soft, size: 11, room: x + width - 8 - left, alpha });
  if (seen.ticked) surface.text("✓", x + width - 17, y + 17, { colour: palette.good, size: 13, bold: true, room: 20, alpha });
}

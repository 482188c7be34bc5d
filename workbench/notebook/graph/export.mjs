/** The whole graph as a file: a picture, or a drawing that can be scaled. */

import { download, element } from "../part.mjs";
import { indexed, paint } from "./paint.mjs";
import { CanvasSurface, SvgSurface } from "./surfaces.mjs";

const MOST_PIXELS = 40e6;
const LONGEST_SIDE = 14_000;
const MARGIN = 20;

/**
 * @typedef {{ drawing: object, scene: object, shortener: object, title: string }} Picture  `scene` is what `paint` needs
 */

function paintWhole(surface, { drawing, scene }, scale) {
  const { width, height } = drawing;
  const whole = { left: -MARGIN, top: -MARGIN, right: width + MARGIN, bottom: height + MARGIN, scale };
  paint(surface, drawing, indexed(drawing), whole, { ...scene, hovered: null });
}

/** Saves an SVG file. */
export function saveSvg(picture) {
  const surface = new SvgSurface(picture.shortener);
  paintWhole(surface, picture, 1);
  const { width, height } = picture.drawing;
  const file = surface.file({ width, height, background: picture.scene.palette.bg, title: picture.title, margin: MARGIN });
  download(`${fileName(picture.title)}.svg`, file, "image/svg+xml");
}

/** Scale of a picture: twice the size on the screen, if a browser can make it. */
export function pictureScale(width, height) {
  return Math.min(2, LONGEST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
}

/** Saves a PNG file; rejects if the browser cannot make it. */
export async function savePng(picture) {
  const width = picture.drawing.width + 2 * MARGIN;
  const height = picture.drawing.height + 2 * MARGIN;
  const scale = pictureScale(width, height);
  const canvas = element("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d");
  context.fillStyle = picture.scene.palette.bg;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(scale, 0, 0, scale, MARGIN * scale, MARGIN * scale);
  paintWhole(new CanvasSurface(context, picture.shortener), picture, scale);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("The picture is too large for this browser. Export SVG instead.");
  download(`${fileName(picture.title)}.png`, blob, "image/png");
}

/** A name for a file: letters, digits and what else is the same everywhere. */
export const fileName = (title) => title.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+|[._-]+$/g, "").slice(0, 80) || "graph";

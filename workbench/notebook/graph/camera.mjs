/** Where a view looks: `x` and `y` are the drawing's point in the upper left corner, `scale` is screen points for one of the drawing. Pure. */

export const SMALLEST = 0.0005;
export const LARGEST = 3;
export const READABLE = 0.55;

const within = (value, low, high) => Math.max(low, Math.min(high, value));

/** The whole drawing, in the middle. */
export function fit(drawing, view, padding = 20) {
  const width = Math.max(drawing.width, 1);
  const height = Math.max(drawing.height, 1);
  const scale = within(Math.min((view.width - 2 * padding) / width, (view.height - 2 * padding) / height, 1.25), SMALLEST, LARGEST);
  return { scale, x: drawing.width / 2 - view.width / 2 / scale, y: drawing.height / 2 - view.height / 2 / scale };
}

/** The whole drawing if it can be read then, else its beginning. */
export function start(drawing, view) {
  const whole = fit(drawing, view);
  if (whole.scale >= READABLE) return whole;
  const across = (view.width - 40) / Math.max(drawing.width, 1);
  const scale = within(across, READABLE, 1);
  const first = drawing.boxes?.reduce((best, box) => (box.y < best.y ? box : best), drawing.boxes[0]);
  const middle = scale === across || !first ? drawing.width / 2 : first.x + first.width / 2;
  return { scale, x: middle - view.width / 2 / scale, y: -20 / scale };
}

/** Zooms by a factor, keeping the point of the drawing that is at a point of the screen. */
export function zoomAt(camera, factor, screenX, screenY) {
  const scale = within(camera.scale * factor, SMALLEST, LARGEST);
  return { scale, x: camera.x + screenX / camera.scale - screenX / scale, y: camera.y + screenY / camera.scale - screenY / scale };
}

/** Moves by points of the screen. */
export const pan = (camera, screenX, screenY) => ({ ...camera, x: camera.x - screenX / camera.scale, y: camera.y - screenY / camera.scale });

/** Moves as little as is needed to see a box, and with `zoom` zooms in if it could not be read; `corner` is what lies over the lower right one. */
export function reveal(camera, box, view, { zoom = true, margin = 48, corner = null } = {}) {
  const small = zoom && camera.scale < READABLE * 0.6;
  return outOf(corner, small ? centre({ ...camera, scale: READABLE * 1.3 }, box, view) : into(camera, box, view, margin), box, view);
}

function into(camera, box, view, margin) {
  const left = camera.x + margin / camera.scale;
  const right = camera.x + (view.width - margin) / camera.scale;
  const top = camera.y + margin / camera.scale;
  const bottom = camera.y + (view.height - margin) / camera.scale;
  const x = box.x < left ? box.x - left : box.x + box.width > right ? Math.min(box.x + box.width - right, box.x - left) : 0;
  const y = box.y < top ? box.y - top : box.y + box.height > bottom ? Math.min(box.y + box.height - bottom, box.y - top) : 0;
  return { ...camera, x: camera.x + x, y: camera.y + y };
}

/** Moves a box up from under the corner, as far as its top stays in sight. */
function outOf(corner, camera, box, view) {
  if (!corner) return camera;
  const right = (box.x + box.width - camera.x) * camera.scale;
  const bottom = (box.y + box.height - camera.y) * camera.scale;
  const edge = view.height - corner.height;
  if (right <= view.width - corner.width || bottom <= edge) return camera;
  return { ...camera, y: Math.max(camera.y, Math.min(camera.y + (bottom - edge) / camera.scale, box.y)) };
}

/** Looks at the middle of a box. */
export function centre(camera, box, view) {
  return {
    scale: camera.scale,
    x: box.x + box.width / 2 - view.width / 2 / camera.scale,
    y: box.y + box.height / 2 - view.height / 2 / camera.scale,
  };
}

/** What is in the middle stays there in a view of another size. */
export const resized = (camera, before, view) => pan(camera, (view.width - before.width) / 2, (view.height - before.height) / 2);

/** Keeps at least a corner of the drawing in sight. */
export function inSight(camera, drawing, view) {
  const edge = 60 / camera.scale;
  return {
    scale: camera.scale,
    x: within(camera.x, edge - view.width / camera.scale, drawing.width - edge),
    y: within(camera.y, edge - view.height / camera.scale, drawing.height - edge),
  };
}

/** The drawing's point at a point of the screen. */
export const toDrawing = (camera, screenX, screenY) => [camera.x + screenX / camera.scale, camera.y + screenY / camera.scale];

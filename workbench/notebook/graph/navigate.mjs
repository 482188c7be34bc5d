/** Where the arrow keys lead: along the edges up and down, to the next box left and right. Pure. */

/**
 * @param {"up" | "down" | "left" | "right"} direction
 * @param {import("./blocks.mjs").Item} item
 * @param {{ boxes: object[], items: object[] }} drawing
 * @param {{ reads: number[][], readers: number[][] }} graph
 * @param {(items: object[], place: number) => object | undefined} itemAt
 * @returns {object | undefined}  the box of the next item
 */
export function neighbour(direction, item, drawing, graph, itemAt) {
  const own = drawing.boxes.find((box) => box.item.key === item.key);
  if (!own) return drawing.boxes[0];
  if (direction === "left" || direction === "right") return beside(own, drawing.boxes, direction);
  const links = direction === "down" ? graph.readers : graph.reads;
  const found = new Map();
  for (let place = Math.max(0, item.start); place < item.end; place++) {
    for (const other of links[place]) {
      if (other >= item.start && other < item.end) continue;
      const target = itemAt(drawing.items, other);
      if (target) found.set(target.key, target);
    }
  }
  const boxes = drawing.boxes.filter((box) => found.has(box.item.key));
  return nearest(own, boxes);
}

const middle = (box) => box.x + box.width / 2;

function nearest(own, boxes) {
  let best;
  for (const box of boxes) {
    const far = Math.abs(middle(box) - middle(own)) + Math.abs(box.y - own.y);
    if (!best || far < best.far) best = { box, far };
  }
  return best?.box;
}

function beside(own, boxes, direction) {
  let best;
  for (const box of boxes) {
    const away = direction === "left" ? middle(own) - middle(box) : middle(box) - middle(own);
    if (box === own || away <= 0) continue;
    if (box.y > own.y + own.height || box.y + box.height < own.y) continue;
    if (!best || away < best.away) best = { box, away };
  }
  return best?.box;
}

/** The lines that lead to an item and from it, whatever frames they pass. */
export function linesAround(item, lines, graph) {
  const into = new Set();
  for (let place = Math.max(0, item.start); place < item.end; place++) {
    for (const read of graph.reads[place]) if (read < item.start || read >= item.end) into.add(read);
  }
  const covers = (start, end) => start <= item.start && item.end <= end;
  return new Set(
    lines.filter((line) => {
      if (line.value === null) return line.from === item || line.to === item;
      if (line.value >= item.start && line.value < item.end) return true;
      if (!into.has(line.value)) return false;
      return line.to ? covers(line.to.start, line.to.end) : !covers(...line.scope);
    }),
  );
}

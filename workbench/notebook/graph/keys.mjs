/** What the keys do while the drawing has the keyboard. */

import { itemAt } from "./blocks.mjs";
import { neighbour } from "./navigate.mjs";

export const HELP =
  "Arrow keys follow the edges. Enter expands or collapses a block, c collapses the one around. Plus and minus zoom, 0 shows all, " +
  "slash searches, n and p go to the next and previous match, g changes between operators and kernels, Escape clears the selection. " +
  "The wheel moves the graph that was clicked; with Ctrl it zooms.";

/** Handlers by key. */
export function keysOf(graph) {
  const { window, bar, drawing, scene, shownItem } = graph;
  const follow = (direction) => () => graph.arrive(shownItem ? neighbour(direction, shownItem, drawing, scene, itemAt) : drawing.boxes[0]);
  return {
    ArrowUp: follow("up"),
    ArrowDown: follow("down"),
    ArrowLeft: follow("left"),
    ArrowRight: follow("right"),
    Home: () => graph.arrive(drawing.boxes[0]),
    End: () => graph.arrive(drawing.boxes[drawing.boxes.length - 1]),
    Enter: () => shownItem && graph.toggle(shownItem),
    Escape: () => graph.select(null),
    "+": () => window.zoom(1.25),
    "=": () => window.zoom(1.25),
    "-": () => window.zoom(0.8),
    0: () => window.fitAll(),
    "/": () => bar.focusSearch(),
    n: () => graph.step(1),
    p: () => graph.step(-1),
    g: () => graph.part.set("shown", graph.shown === "operators" ? "kernels" : "operators"),
    c: () => shownItem && graph.collapseAround(),
  };
}

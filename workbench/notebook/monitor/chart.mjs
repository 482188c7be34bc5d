/** One chart: a figure from Python, new points appended to it, theme, size, and what the pointer does there. */
import { coalesce, element } from "../part.mjs";
import { extendPoints, extendSteps, growable, together, unpack } from "./arrays.mjs";

const CONFIG = { displaylogo: false, responsive: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const RESIZE_MS = 80;
const MOST_PIXEL_RATIO = 4; // plotly's own limit

/** Without WebGL the points are drawn as SVG: slower, but there. */
let webgl = null;
function drawable(traces) {
  webgl ??= document.createElement("canvas").getContext("webgl") !== null;
  return webgl ? traces : traces.map((trace) => (trace.type === "scattergl" ? { ...trace, type: "scatter" } : trace));
}

/**
 * @param {import("../part.mjs").Part} part
 * @param {any} Plotly
 * @param {{label: string, onHover?: (x: number | null, at?: {left: number, top: number}) => void, onClick?: (x: number) => void,
 *          onView?: (range: number[] | null) => void}} options
 */
export function makeChart(part, Plotly, { label, onHover, onClick, onView }) {
  const host = element("div", { class: "wb-monitor-chart", role: "img", "aria-label": label });
  // Points in as many pixels as the screen has: plotly's default is twice that, which costs more than half the time of a drawing without a GPU.
  const config = { ...CONFIG, plotGlPixelRatio: Math.min(Math.max(window.devicePixelRatio, 1), MOST_PIXEL_RATIO) };
  let shown = false;
  let template = {};
  let revision = "";
  /** The traces as Python counts them. */
  let traces = [];

  async function show(figure, buffers, key) {
    const { data, layout } = unpack(figure, buffers);
    const full = { ...layout, template, autosize: true, uirevision: key, datarevision: performance.now() };
    traces = growable(drawable(data));
    await Plotly.react(host, together(traces), full, config);
    revision = key;
    if (!shown) listen();
    shown = true;
  }

  /** Appends points, moves the ends of lines, replaces what is short; draws once. */
  async function extend(change, buffers) {
    if (!shown) return;
    const { append = {}, steps = {}, ends = {}, replace = {} } = unpack(change, buffers);
    for (const [place, added] of Object.entries(append)) extendPoints(traces[place], added);
    for (const [place, end] of Object.entries(ends)) extendSteps(traces[place], steps[place], end);
    for (const [place, arrays] of Object.entries(replace)) Object.assign(traces[place], arrays);
    host.data = together(traces);
    await Plotly.redraw(host);
  }

  function listen() {
    host.on("plotly_hover", ({ points, event }) => {
      const box = host.getBoundingClientRect();
      onHover?.(Math.round(points[0].x), { left: event.clientX - box.left, top: event.clientY - box.top });
    });
    host.on("plotly_unhover", () => onHover?.(null));
    host.on("plotly_click", ({ points }) => onClick?.(Math.round(points[0].x)));
    host.on("plotly_relayout", (change) => {
      const ends = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (ends.every((end) => typeof end === "number")) onView?.(ends);
      else if (change["xaxis.autorange"]) onView?.(null);
    });
  }

  const resize = coalesce(() => shown && host.offsetWidth > 0 && Plotly.Plots.resize(host), RESIZE_MS);
  const observer = new ResizeObserver(resize);
  observer.observe(host);
  part.onEnd(() => {
    observer.disconnect();
    Plotly.purge(host);
  });
  return {
    host,
    show,
    extend,
    key: () => revision,
    async retheme(next) {
      template = next;
      if (shown) await Plotly.relayout(host, { template });
    },
  };
}

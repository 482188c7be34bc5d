/**
 * plotly.js for all monitors of a page. The first one asks its kernel for it, compressed and in one message; the page keeps it, so that no
 * other monitor, and no view that opens later, asks again. Nothing is fetched from anywhere.
 */
import { repeat } from "../part.mjs";

const PLACE = "__tvmWorkbenchPlotly";

/**
 * @param {import("../part.mjs").Part} part
 * @returns {Promise<any>} plotly
 */
export async function loadPlotly(part) {
  while (!part.signal.aborted) {
    window[PLACE] ??= ask(part);
    try {
      return await window[PLACE];
    } catch (error) {
      if (!(error instanceof ViewEnded)) throw error; // else the view that asked has gone: ask again
    }
  }
  throw new ViewEnded();
}

class ViewEnded extends Error {}

function ask(part) {
  const asked = new Promise((resolve, reject) => {
    part.onEnd(() => reject(new ViewEnded("The view has ended.")));
    const repetition = repeat(part.signal, () => part.send("plotly"));
    let evaluated = null;
    part.on("plotly", (_content, buffers) => {
      repetition.end();
      evaluated ??= evaluate(buffers[0]).then(resolve, reject);
    });
  });
  asked.catch(() => {
    if (window[PLACE] === asked) delete window[PLACE];
  });
  return asked;
}

/** Runs the script as a module of its own: there `this` and `define` are nobody's, whatever other libraries the page has loaded. */
async function evaluate(compressed) {
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = await new Response(stream).arrayBuffer();
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const before = { Plotly: window.Plotly, moduleName: window.moduleName };
  try {
    await import(/* webpackIgnore: true */ address);
    return window.Plotly;
  } finally {
    URL.revokeObjectURL(address);
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete window[name];
      else window[name] = value;
    }
  }
}

/** Arrays of numbers between Python's messages and plotly's traces; pure functions, tested without a page. */

/** The value with every `{buffer: n}` in it replaced by the 32-bit floats of that buffer. */
export function unpack(value, buffers) {
  if (Array.isArray(value)) return value.map((item) => unpack(item, buffers));
  if (value === null || typeof value !== "object") return value;
  if (typeof value.buffer === "number") return floats(buffers[value.buffer]);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, unpack(item, buffers)]));
}

/** A copy, since a buffer of a message need not begin at a multiple of four. */
function floats(view) {
  const start = view.byteOffset ?? 0;
  const bytes = view.buffer ?? view;
  return new Float32Array(bytes.slice(start, start + view.byteLength));
}

/** Traces that can grow: points as 32-bit floats; lines as plain arrays, whose end moves. */
export function growable(traces) {
  return traces.map((trace) => {
    const make = trace.line ? Array.from : (numbers) => Float32Array.from(numbers);
    return { ...trace, x: make(trace.x), y: make(trace.y) };
  });
}

/** Appends points to a trace that `growable` made. */
export function extendPoints(trace, { x, y }) {
  trace.x = joined(trace.x, x);
  trace.y = joined(trace.y, y);
}

function joined(before, added) {
  const all = new Float32Array(before.length + added.length);
  all.set(before);
  all.set(added, before.length);
  return all;
}

/** A line that holds its last value: its last point is where it is now, which moves on; before it come new points. */
export function extendSteps(trace, added, end) {
  const holds = trace.x.length > 0;
  if (holds) {
    trace.x.pop();
    trace.y.pop();
  }
  if (added) {
    trace.x.push(...added.x);
    trace.y.push(...added.y);
  }
  if (trace.x.length > 0) {
    trace.x.push(end);
    trace.y.push(trace.y[trace.y.length - 1]);
  }
}

/**
 * What plotly is given: lines of one colour are one trace with gaps, since plotly takes its time for each trace, however short it is. The
 * gaps are at NaN.
 */
export function together(traces) {
  const groups = new Map();
  for (const trace of traces) {
    const look = trace.line ? `${trace.line.color} ${trace.yaxis}` : trace;
    groups.set(look, [...(groups.get(look) ?? []), trace]);
  }
  return [...groups.values()].map((group) => (group.length === 1 ? group[0] : { ...group[0], x: withGaps(group, "x"), y: withGaps(group, "y") }));
}

function withGaps(traces, name) {
  return traces.flatMap((trace) => [...trace[name], Number.NaN]);
}

/** The monitor of a search: its bar, two charts, the lines of the tasks, and failures by class. */
import { coalesce, count, definePart, element, microseconds } from "../part.mjs";
import { makeChart } from "./chart.mjs";
import { makeLines } from "./lines.mjs";
import { loadPlotly } from "./plotly_loader.mjs";
import { controls, forecast, standing } from "./words.mjs";

const HOVER_MS = 90;
const VIEW_MS = 250;
const MOST_WAITING = 8; // updates that wait to be drawn: a page that is further behind takes one snapshot instead of all of them
const TEMPLATES = { light: {}, dark: {} };

export default definePart("monitor", (part) => {
  const canSteer = part.model.get("can_steer");
  const bar = makeBar(part, canSteer);
  const tip = element("div", { class: "wb-monitor-tip", role: "tooltip", hidden: true });
  const charts = element("div", { class: "wb-monitor-charts" }, element("div", { class: "wb-empty" }, "The charts are coming."));
  const shown = element("span", { class: "wb-title" });
  const all = element("button", { class: "wb-button", type: "button", onclick: () => part.set("task", "") }, "All tasks");
  const picker = element("div", { class: "wb-bar" }, shown, all, element("span", { class: "wb-muted wb-grow" }, "Click a kernel's name to see its trials, a point to inspect it."));
  const lines = makeLines(part, {
    canSteer,
    onPick: (task) => part.set("task", task),
    onAsk: (request) => part.send("request", request),
  });
  const failures = element("div", { class: "wb-monitor-failures" });
  const none = element("span", {}, ": none yet");
  part.root.append(bar.element, picker, charts, lines.host, failures);

  const state = { generation: 0, end: 0, waiting: 0, isBehind: false, x: null, latency: null, course: null };
  const askDetail = coalesce(() => state.x !== null && part.send("hover", { x: state.x }), HOVER_MS);
  const askView = coalesce((range) => part.send("view", { range }), VIEW_MS);

  let drawn = null;
  /** One after the other, once plotly.js is there; what belongs to a snapshot that another one has replaced is not drawn any more. */
  function draw(generation, act) {
    const isWanted = () => generation === state.generation && !state.isBehind && state.latency && !part.signal.aborted;
    state.waiting += 1;
    drawn = drawn
      .then(() => (isWanted() ? act() : null))
      .catch(fail)
      .finally(() => (state.waiting -= 1));
  }

  /** Draws no more updates, and asks for a snapshot as soon as the page is free. */
  function skip() {
    state.isBehind = true;
    drawn = drawn.then(() => part.send("stale"));
  }

  function fail(error) {
    if (!part.signal.aborted) part.fail(error);
  }

  async function prepare() {
    const Plotly = await loadPlotly(part);
    state.latency = makeChart(part, Plotly, {
      label: "Latency of each trial",
      onHover: showTip,
      onClick: (x) => part.send("click", { x }),
      onView: askView,
    });
    state.course = makeChart(part, Plotly, { label: "Forecast of the whole model, and trials a second" });
    state.latency.host.append(tip);
    charts.replaceChildren(
      element("figure", { class: "wb-monitor-main" }, element("figcaption", {}, "Latency of each trial", none), state.latency.host),
      element("figure", {}, element("figcaption", {}, "Forecast of the whole model"), state.course.host),
    );
    part.onTheme(retheme);
  }

  async function retheme(theme) {
    await Promise.all([state.latency, state.course].map((chart) => chart?.retheme(TEMPLATES[theme])));
  }

  function showTip(x, at) {
    state.x = x;
    tip.hidden = x === null;
    if (x === null) return;
    const right = at.left > state.latency.host.offsetWidth / 2;
    tip.style.left = right ? "" : `${at.left + 14}px`;
    tip.style.right = right ? `${state.latency.host.offsetWidth - at.left + 14}px` : "";
    tip.style.top = `${at.top + 10}px`;
    tip.replaceChildren(element("div", { class: "wb-muted" }, `trial ${count(x)}`));
    askDetail();
  }

  part.on("detail", ({ x, title, time_us: time, facts, decisions }) => {
    if (x !== state.x || !title) return;
    const failed = facts[0] !== "ok" && facts[0] !== "unmeasured";
    tip.replaceChildren(
      element("div", { class: "wb-title" }, title),
      element("div", { class: failed ? "wb-monitor-failed" : null }, [time === null ? null : `${microseconds(time)} us`, ...facts].filter(Boolean).join(" · ")),
      element("div", { class: "wb-mono wb-muted" }, decisions.join("\n")),
    );
  });

  part.on("snapshot", (content, buffers) => {
    Object.assign(TEMPLATES, content.templates);
    Object.assign(state, { generation: content.generation, end: content.end, isBehind: false });
    lines.clear();
    lines.show(content.lines);
    lines.pick(content.task);
    shown.textContent = content.task ? lines.nameOf(content.task) : "All tasks, in relation to their untuned kernels";
    all.hidden = !content.task;
    none.hidden = content.end > 0;
    showRest(content);
    draw(content.generation, async () => {
      await retheme(part.root.dataset.wbTheme);
      await state.latency.show(content.latency, buffers, content.task || "all");
      await state.course.show(content.forecast, buffers, "course");
      part.root.dataset.wbEnd = content.end;
    });
  });

  part.on("update", (content, buffers) => {
    if (content.generation !== state.generation) return;
    if (content.start !== state.end) return part.send("stale");
    state.end = content.end;
    none.hidden = content.end > 0;
    if (content.lines) lines.show(content.lines);
    showRest(content);
    if (!content.latency || state.isBehind) return;
    if (state.waiting > MOST_WAITING) return skip();
    draw(content.generation, async () => {
      await state.latency.extend(content.latency, buffers);
      part.root.dataset.wbEnd = content.end;
      await turn(); // the page shows the points before it draws the other chart
      await state.course.extend(content.forecast, buffers);
    });
  });

  function showRest({ summary, errors }) {
    if (summary) bar.show(summary);
    if (errors) showFailures(failures, errors);
  }

  drawn = prepare();
  drawn.catch(fail);
});

/** Resolves when the page has had its turn. */
const turn = () => new Promise((resolve) => setTimeout(resolve));

function makeBar(part, canSteer) {
  const chip = element("span", { class: "wb-chip" });
  const text = element("span", {});
  const model = element("span", { class: "wb-title" });
  const doing = element("span", { class: "wb-muted wb-grow wb-monitor-doing" });
  const buttons = Object.fromEntries(
    [["pause", "Pause"], ["resume", "Resume"], ["stop", "Stop"]].map(([request, label]) => [
      request,
      element("button", { class: "wb-button", type: "button", hidden: !canSteer, onclick: () => ask(request) }, label),
    ]),
  );
  let state = "idle";
  const asked = new Set();

  function ask(request) {
    asked.add(request);
    arrange();
    part.send("request", { request });
  }

  function arrange() {
    const possible = controls(state, canSteer);
    for (const [request, button] of Object.entries(buttons)) button.disabled = !possible[request] || asked.has(request);
    buttons.pause.hidden = !canSteer || possible.resume;
    buttons.resume.hidden = !canSteer || !possible.resume;
  }

  part.on("done", ({ request }) => {
    asked.delete(request);
    arrange();
  });
  arrange();
  return {
    element: element("div", { class: "wb-bar" }, chip, text, model, doing, ...Object.values(buttons)),
    show(summary) {
      state = summary.state;
      chip.textContent = { idle: "no search runs", searching: "searching", paused: "paused" }[state] ?? state;
      chip.className = `wb-chip ${{ searching: "wb-active", paused: "wb-warn" }[state] ?? ""}`;
      text.textContent = standing(summary).join(" · ");
      model.textContent = forecast(summary);
      doing.textContent = summary.doing;
      arrange();
    },
  };
}

function showFailures(host, errors) {
  const open = new Set([...host.querySelectorAll("details[open]")].map((item) => item.dataset.class));
  const items = errors.map(({ class: name, count: number, task, text }) =>
    element(
      "details",
      { "data-class": name, open: open.has(name) },
      element("summary", {}, element("span", { class: "wb-chip wb-bad" }, name.replaceAll("_", " ")), ` ${number ? count(number) : ""} `, element("span", { class: "wb-muted" }, `first: ${task}`)),
      element("pre", { class: "wb-mono", tabindex: "0" }, text || "no text"),
    ),
  );
  host.replaceChildren(...items);
}

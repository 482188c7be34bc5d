/** The inspector's controls: which task, which trial, which tab. They show what they are given and say what was chosen. */

import { element, microseconds } from "../part.mjs";
import { trialName, trialNumber } from "./views.mjs";

/** @param {(task: string) => void} choose */
export function taskChooser(choose) {
  const select = element("select", { class: "wb-select wb-tasks", "aria-label": "Task", onchange: () => choose(select.value) });
  return {
    element: select,
    show(tasks, chosen) {
      const options = [...tasks.values()].map((task) => element("option", { value: task.task, title: task.task }, describeTask(task)));
      if (!tasks.has(chosen)) options.unshift(element("option", { value: "", disabled: true }, "Choose a task"));
      select.replaceChildren(...options);
      select.value = tasks.has(chosen) ? chosen : "";
    },
  };
}

function describeTask(task) {
  const facts = [task.name];
  if (task.time_percent !== null) facts.push(`${task.time_percent.toFixed(1)} %`);
  if (task.baseline_us && task.best_us) facts.push(`${(task.baseline_us / task.best_us).toFixed(2)}x`);
  return facts.join(" · ");
}

/**
 * Best, untuned, or any number.
 *
 * @param {string} label
 * @param {(trial: number | null) => void} choose  null is the best
 */
export function trialChooser(label, choose) {
  const best = element("button", { class: "wb-button", type: "button", onclick: () => choose(null) }, "Best");
  const untuned = element("button", { class: "wb-button", type: "button", title: "The untuned kernel: trial 0", onclick: () => choose(0) }, "Untuned");
  const number = element("input", {
    class: "wb-input wb-trial",
    type: "number",
    min: "0",
    step: "1",
    "aria-label": `${label}: number of the trial`,
    onchange: () => submit(),
    onkeydown: (event) => event.key === "Enter" && submit(),
  });
  const submit = () => /^\d+$/.test(number.value) && choose(Number(number.value));
  const count = element("span", { class: "wb-muted" });
  return {
    element: element("span", { class: "wb-group", role: "group", "aria-label": label }, best, untuned, number, count),
    show(task, chosen) {
      const shown = trialNumber(task, chosen);
      const none = task?.best === null || task?.best === undefined;
      best.disabled = none;
      best.title = none ? "No trial of this task was measured yet" : `Trial ${task.best}${task.best_us ? `, ${microseconds(task.best_us)} us` : ""}`;
      best.setAttribute("aria-pressed", String(!none && shown === task.best));
      untuned.disabled = number.disabled = !task;
      untuned.setAttribute("aria-pressed", String(Boolean(task) && shown === 0));
      if (document.activeElement !== number) number.value = task ? String(shown) : "";
      number.title = trialName(task, shown);
      count.textContent = task?.trials ? `of ${task.trials.toLocaleString("en-US")}` : "";
    },
  };
}

/**
 * Tabs by the pattern of WAI-ARIA: arrows move, the chosen one alone is in the order of the Tab key. One that has nothing stays and says why.
 *
 * @param {(view: string) => void} choose
 */
export function tabList(choose, panel) {
  const list = element("div", { class: "wb-tabs", role: "tablist", "aria-label": "Views" });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = [...list.children];
    const at = buttons.indexOf(document.activeElement);
    const next = Number.isFinite(step) ? (at + step + buttons.length) % buttons.length : step < 0 ? 0 : buttons.length - 1;
    buttons[next].focus();
    buttons[next].click();
  });
  return {
    element: list,
    show(tabs, chosen) {
      const focused = list.contains(document.activeElement);
      list.replaceChildren(...tabs.map((tab) => element("button", {
        type: "button",
        role: "tab",
        class: `wb-tab ${tab.unavailable ? "wb-none" : ""}`,
        "aria-selected": String(tab.id === chosen),
        "aria-controls": panel,
        tabindex: tab.id === chosen ? "0" : "-1",
        title: tab.unavailable || tab.infos[0]?.description || null,
        onclick: () => choose(tab.own ? tab.id : tab.first),
      }, tab.title)));
      if (focused) list.querySelector('[aria-selected="true"]')?.focus();
    },
  };
}

/** Small buttons of which one is pressed: the views of one tab. */
export function viewSwitch(infos, chosen, choose) {
  return element("span", { class: "wb-group", role: "group", "aria-label": "Which text" },
    ...infos.map((info) => element("button", {
      class: "wb-button",
      type: "button",
      "aria-pressed": String(info.view === chosen),
      title: info.unavailable || info.description,
      onclick: () => choose(info.view),
    }, info.title)),
  );
}

// The page's keys: to the next task and back, to the search, and what keys there are. None is taken from who types or chooses.
import { el } from "./text.js";

const KEYS = [["j", "the next task; opens it where the one before was open"], ["k", "the task before"], ["Enter", "open or close the task"], ["/", "search the tasks"], ["Esc", "close the task; leave the search"], ["?", "these keys"]];

/** Let keys move in the list of tasks; a button that shows what they are, and where they can be turned off. */
export function keyboard(list) {
  const active = el("input", { type: "checkbox", checked: true });
  const help = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"),
    el("dl", { class: "legend" }, KEYS.map(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
    el("p", {}, el("label", {}, active, " keys are on")), el("button", { onclick: () => help.close() }, "close"));
  document.body.append(help);
  const show = () => help.showModal();
  const actions = { j: () => list.step(1), k: () => list.step(-1), "/": () => list.search.focus(), Escape: () => list.close(), "?": show };
  addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, key)) return;
    if (target.closest("input, select, textarea, dialog")) {
      if (key === "Escape" && target === list.search) target.blur();
    } else if (active.checked) {
      event.preventDefault();
      actions[key]();
    }
  });
  return el("button", { class: "keys", onclick: show }, "keys: ?");
}

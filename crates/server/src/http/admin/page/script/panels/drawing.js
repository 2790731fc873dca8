// Traffic that is drawn: the requests in each eighth of a window, for two windows.

import { byId, element } from "../dom.js";

const SLOTS = 16;
const SLOTS_PER_WINDOW = 8;

/** The most requests of a slot. */
const HIGHEST = 60;

const FIRST = [0, 0, 0, 0, 0, 0, 10, 50, 50, 10, 0, 0, 0, 5, 5, 5];

/** Starts the drawing; `onChange` is called after a stroke. */
export function startDrawing(onChange) {
  const area = byId("slots");
  const slots = FIRST.map((value, at) => slot(value, at));
  area.append(...slots);
  const set = (at, value) => {
    slots[at].value = Math.max(0, Math.min(HIGHEST, value));
    level(slots[at]);
  };
  slots.forEach((one) => one.addEventListener("input", () => level(one)));
  slots.forEach((one) => one.addEventListener("change", onChange));
  let isDrawing = false;
  const draw = (event) => {
    const box = area.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * SLOTS);
    const height = 1 - (event.clientY - box.top - 4) / (box.height - 8);
    if (at >= 0 && at < SLOTS) set(at, Math.round(height * HIGHEST));
  };
  area.addEventListener("pointerdown", (event) => {
    isDrawing = true;
    area.setPointerCapture(event.pointerId);
    draw(event);
    event.preventDefault();
  });
  area.addEventListener("pointermove", (event) => isDrawing && draw(event));
  area.addEventListener("pointerup", () => {
    isDrawing = false;
    onChange();
  });
  area.addEventListener("pointercancel", () => (isDrawing = false));
  return { counts: () => slots.map((one) => Number(one.value)) };
}

function slot(value, at) {
  const window = Math.floor(at / SLOTS_PER_WINDOW) + 1;
  const label = `Requests in eighth ${(at % SLOTS_PER_WINDOW) + 1} of window ${window}`;
  const input = element("input", { type: "range", min: 0, max: HIGHEST, value, "aria-label": label });
  if (at === SLOTS_PER_WINDOW) input.className = "begins";
  level(input);
  return input;
}

const level = (input) => input.style.setProperty("--level", `${(100 * input.value) / HIGHEST}%`);

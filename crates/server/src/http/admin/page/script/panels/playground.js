// One limit under every algorithm, on the same traffic, side by side.

import { call } from "../api.js";
import { columnChart } from "../charts.js";
import { byId, element, setText } from "../dom.js";
import { count, percent, span } from "../format.js";
import { startDrawing } from "./drawing.js";

const NOTES = {
  boundary: "One client sends the limit at the end of a window of the clock, and again at the start of the next.",
  burst: "One client sends twice the limit at once, in every third window.",
  steady: "One client sends evenly, at 1.5 times the limit.",
  poisson: "100 clients send at random, at mean rates from 0.2 to 1.1 of the limit.",
  drawn: "One client sends what you draw.",
};

const PERIODS = { s: "second", min: "minute", h: "hour" };

/** How long the requests take to pass by. */
const PLAY_MS = 1800;

export function startPlayground() {
  const panel = { run: 0, drawing: startDrawing(() => byId("play-traffic").value === "drawn" && run(panel)), hasRun: false };
  const describe = () => {
    const traffic = byId("play-traffic").value;
    setText(byId("play-note"), NOTES[traffic]);
    byId("draw").hidden = traffic !== "drawn";
  };
  describe();
  byId("play-traffic").addEventListener("change", () => {
    describe();
    run(panel);
  });
  byId("play-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(panel);
  });
  return { show: () => panel.hasRun || run(panel) };
}

async function run(panel) {
  panel.hasRun = true;
  panel.run += 1;
  const number = panel.run;
  const traffic = byId("play-traffic").value;
  const source = traffic === "drawn" ? { drawn: panel.drawing.counts() } : { traffic };
  const list = byId("algorithm-list");
  list.dataset.state = "running";
  try {
    const compared = await call("POST", "/api/compare", { limit: byId("play-limit").value.trim(), ...source });
    if (panel.run !== number) return;
    setText(byId("play-problem"), "");
    play(list, compared, () => panel.run === number);
  } catch (error) {
    if (panel.run === number) setText(byId("play-problem"), error.message);
  }
}

/** Shows the requests one after the other, under all algorithms at once. */
function play(list, compared, isCurrent) {
  const rows = compared.algorithms.map((result, at) => algorithmRow(result, compared, at));
  list.replaceChildren(...rows.map((row) => row.node));
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const begun = performance.now();
  const frame = (now) => {
    if (!isCurrent()) return;
    const part = isStill ? 1 : Math.min(1, (now - begun) / PLAY_MS);
    rows.forEach((row) => row.show(part));
    if (part < 1) requestAnimationFrame(frame);
    else list.dataset.state = "done";
  };
  frame(begun);
}

function algorithmRow(result, { limit, timeline }, at) {
  const { passed, delayed } = timeline.algorithms[at];
  const refused = timeline.requests.map((all, step) => all - passed[step] - delayed[step]);
  const chart = columnChart(["allowed", "delayed", "refused"], 0.08);
  const columns = timeline.requests.length;
  const borders = timeline.windows_begin_us.filter((begin) => begin > 0).map((begin) => (begin * columns) / timeline.span_us);
  const figures = element("div", { class: "verdict-line" });
  const node = element("li", { class: "card algorithm" }, element("h3", { class: "rule-name" }, result.algorithm), chart.svg, figures);
  const admitted = element("b", {});
  figures.append(element("p", {}, admitted), ...conclusions(result, limit));
  const show = (part) => {
    const until = Math.round(part * columns);
    // The full height from the start: columns that grow later must not shrink the others.
    const cut = (values) => values.map((value, step) => (step < until ? value : 0));
    const rest = timeline.requests.map((value, step) => (step < until ? 0 : value));
    const [now, later, no] = [passed, delayed, refused].map(cut);
    chart.draw([now, later, no], columns, `${result.algorithm}: ${result.admitted} admitted, ${result.refused} refused`, borders, rest);
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    setText(admitted, `${count(sum(now) + sum(later))} admitted, ${count(sum(no))} refused`);
  };
  return { node, show };
}

function conclusions(result, limit) {
  const [, most, period] = limit.match(/^(\d+)\/([^ ]+)/) ?? [undefined, undefined, undefined];
  const window = period ? `in any ${PERIODS[period] ?? period}` : "in any window";
  const over = most === undefined ? 0 : result.max_in_window - Number(most);
  const bound = over > 0
    ? element("p", { class: "is-over" }, `${count(result.max_in_window)} ${window}: ${count(over)} over the limit`)
    : element("p", { class: "is-within" }, `${count(result.max_in_window)} ${window}: within the limit`);
  const wrong = result.wrong_percent === 0 ? "exact" : `${percent(result.wrong_percent, 100)} decided wrongly`;
  const wait = result.longest_delay_ms > 0 ? ` · waits up to ${span(result.longest_delay_ms)}` : "";
  return [bound, element("p", {}, `${wrong} · ${count(result.bytes_per_client)} bytes a client${wait}`)];
}

// Column charts as inline SVG.

import { svgElement } from "./dom.js";

const HEIGHT = 100;

/** The least height of a column that is not zero, so that one refusal among thousands is visible. */
const LEAST = 6;

/**
 * Creates a chart of stacked columns, the first series at the bottom. `kinds` are the classes of the series. `draw` takes
 * the series, the number of columns, the label, where to draw borders, and values that only count for the height.
 */
export function columnChart(kinds, gap = 0.18) {
  const paths = kinds.map((kind) => svgElement("path", { class: kind }));
  const base = svgElement("path", { class: "base" });
  const borders = svgElement("path", { class: "border" });
  const svg = svgElement("svg", { class: "spark", preserveAspectRatio: "none", role: "img" }, base, ...paths, borders);
  const draw = (series, columns, label, borderAt = [], others = []) => {
    svg.setAttribute("viewBox", `0 0 ${columns} ${HEIGHT}`);
    svg.setAttribute("aria-label", label);
    base.setAttribute("d", `M0 ${HEIGHT}H${columns}`);
    borders.setAttribute("d", borderAt.map((at) => `M${at} 0V${HEIGHT}`).join(""));
    stack(series, columns, gap, others).forEach((d, at) => paths[at].setAttribute("d", d));
  };
  return { svg, draw };
}

/** Returns a path for each series. Shorter series end at the right: the past is unknown. */
function stack(series, columns, gap, others) {
  const total = (at) => series.reduce((sum, values) => sum + (values[at] ?? 0), others[at] ?? 0);
  const length = Math.max(...series.map((values) => values.length), 0);
  let highest = 1;
  for (let at = 0; at < length; at += 1) highest = Math.max(highest, total(at));
  const paths = series.map(() => []);
  for (let at = 0; at < length; at += 1) {
    const x = columns - length + at + gap / 2;
    let top = HEIGHT;
    series.forEach((values, which) => {
      const value = values[at] ?? 0;
      if (value === 0) return;
      const height = Math.min(top, Math.max(LEAST, (value / highest) * HEIGHT));
      top -= height;
      paths[which].push(`M${x.toFixed(2)} ${top.toFixed(1)}h${(1 - gap).toFixed(2)}v${height.toFixed(1)}h-${(1 - gap).toFixed(2)}z`);
    });
  }
  return paths.map((parts) => parts.join(""));
}

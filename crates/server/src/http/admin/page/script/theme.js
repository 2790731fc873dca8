// Light and dark colours: those of the system, until the button chooses.

import { byId, svgElement } from "./dom.js";

const NAME = "tollgate-theme";
const SUN = "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10M12 1v3M12 20v3M1 12h3M20 12h3M4.200 4.200l2.100 2.100M17.700 17.700l2.100 2.100M4.200 19.800l2.100-2.100M17.700 6.300l2.100-2.100";
const MOON = "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z";

export function startTheme() {
  const button = byId("theme");
  const icon = svgElement("path", { fill: "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "stroke-linejoin": "round" });
  button.append(svgElement("svg", { viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, icon));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem(NAME) ?? (system.matches ? "dark" : "light");
  const apply = () => {
    const theme = chosen();
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
    icon.setAttribute("d", theme === "dark" ? SUN : MOON);
  };
  button.addEventListener("click", () => {
    localStorage.setItem(NAME, chosen() === "dark" ? "light" : "dark");
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

// The tabs of the panels, chosen by click, arrow keys or the address.

import { byId } from "./dom.js";

/** Starts the tabs. `onShow` has a function for the panels that load something when they are shown. */
export function startTabs(onShow) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const panelOf = (tab) => tab.getAttribute("aria-controls");
  let shown;
  const show = (tab) => {
    for (const other of tabs) {
      const isShown = other === tab;
      other.setAttribute("aria-selected", String(isShown));
      other.tabIndex = isShown ? 0 : -1;
      byId(panelOf(other)).hidden = !isShown;
    }
    const isNew = shown !== panelOf(tab);
    shown = panelOf(tab);
    if (isNew) onShow[shown]?.();
  };
  const choose = (tab) => {
    show(tab);
    history.replaceState(null, "", `#${panelOf(tab)}`);
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const fromAddress = () => {
    const named = tabs.find((tab) => `#${panelOf(tab)}` === location.hash);
    // Other addresses, such as that of the skip link, stay on the panel.
    if (named !== undefined || shown === undefined) show(named ?? tabs[0]);
  };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 };
      if (steps[event.key] === undefined) return;
      event.preventDefault();
      const next = tabs[steps[event.key] % tabs.length];
      next.focus();
      choose(next);
    });
  });
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
  return { shown: () => shown };
}

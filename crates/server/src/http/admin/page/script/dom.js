// Builds and updates elements. Text is always set as text: no function here parses markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Creates an element. A `class` and other attributes are set as such; children are elements or text. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svgElement(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Creates an element for a text that a client or an operator chose. */
export function foreign(text, name = "bdi", kind = "") {
  return element(name, { class: `foreign ${kind}`.trim() }, String(text));
}

/** Sets a text only if it differs, so that a selection and a screen reader are not disturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Makes the children of `parent` those of `items`, in this order; elements of known keys stay. */
export function reconcile(parent, items, keyOf, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (child === undefined) {
      child = create(item);
      child.dataset.key = key;
    }
    known.delete(key);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const left of known.values()) left.remove();
}

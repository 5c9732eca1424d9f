// Elements from code. Text is always text: nothing here reads markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * `h('a', {href: '/'}, 'home')`. `on…` listens, `class` and other names are attributes, `true` is an empty one,
 * `false`, `null` and `undefined` leave it out; `value`, `checked` and other properties go by `.name`.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.startsWith('.')) Object.assign(element, { [name.slice(1)]: value });
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** One of the custom elements. @param {string} tag @param {Record<string, any>} [attributes] @param {...(Child | Child[])} children */
export function el(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (h(/** @type {any} */ (tag), attributes, ...children));
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Puts these in place of what is there. @param {Element} parent @param {...(Child | Child[])} children */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

/** Sets or removes an attribute, only where it differs. @param {Element} element @param {string} name @param {any} value */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Changes text, only where it differs. @param {Element} element @param {string} text */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keeps a list of elements in step with rows by their key: what stays is the same element, so focus and
 * scrolling stay too.
 * @template R
 * @param {Element} parent
 * @param {R[]} rows
 * @param {(row: R) => string} keyOf
 * @param {(row: R) => HTMLElement} make
 * @param {(element: HTMLElement, row: R) => void} draw
 */
export function keyed(parent, rows, keyOf, make, draw) {
  /** @type {Map<string, HTMLElement>} */
  const old = new Map();
  const wanted = new Set(rows.map(keyOf));
  // What goes, goes first: what comes after it then need not move, and keeps its focus.
  for (const child of /** @type {HTMLElement[]} */ ([...parent.children])) {
    const key = child.dataset.key ?? '';
    if (wanted.has(key) && !old.has(key)) old.set(key, child);
    else child.remove();
  }
  let before = parent.firstElementChild;
  for (const row of rows) {
    const key = keyOf(row);
    let element = old.get(key);
    if (element) old.delete(key);
    else {
      element = make(row);
      element.dataset.key = key;
    }
    draw(element, row);
    if (element === before) before = before.nextElementSibling;
    else parent.insertBefore(element, before);
  }
}

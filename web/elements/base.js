// What all elements share: a shadow root with styles that a strict content security policy allows, drawing once
// per change, the language, and the one timer that moves every countdown.

import { language, languageEvents } from '../i18n/index.js';

/**
 * A style sheet from text. Made by script it needs no `unsafe-inline`.
 * @param {TemplateStringsArray} text
 * @param {string[]} values
 */
export function css(text, ...values) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(String.raw(text, ...values));
  return sheet;
}

const SHARED = css`
  :host { box-sizing: border-box; font-family: var(--tenure-font, system-ui, sans-serif); color: var(--tenure-ink); }
  :host([hidden]), [hidden] { display: none !important; }
  *, *::before, *::after { box-sizing: inherit; }
  .figures { font-variant-numeric: tabular-nums; }
  .unseen {
    position: absolute; inline-size: 1px; block-size: 1px; margin: -1px; padding: 0; overflow: hidden;
    clip-path: inset(50%); white-space: nowrap; border: 0;
  }
  svg { display: block; flex: none; fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linecap: round;
    stroke-linejoin: round; }
  button { font: inherit; color: inherit; }
  :focus-visible { outline: 2px solid var(--tenure-focus); outline-offset: 2px; }
`;

/** An element whose attributes are its state. */
export class TenureElement extends HTMLElement {
  /** @type {CSSStyleSheet[]} */
  static sheets = [];
  #isDue = false;
  #isBuilt = false;
  #onLanguage = () => this.request();

  constructor() {
    super();
    /** @type {ShadowRoot} */
    this.root = this.attachShadow({ mode: 'open' });
    const { sheets } = /** @type {typeof TenureElement} */ (this.constructor);
    this.root.adoptedStyleSheets = [SHARED, ...sheets];
  }

  connectedCallback() {
    if (!this.#isBuilt) {
      this.#isBuilt = true;
      this.build();
    }
    languageEvents.addEventListener('change', this.#onLanguage);
    this.update();
  }

  disconnectedCallback() {
    languageEvents.removeEventListener('change', this.#onLanguage);
  }

  attributeChangedCallback() {
    this.request();
  }

  /** Draws soon, once for however many changes. */
  request() {
    if (this.#isDue || !this.isConnected) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      if (this.isConnected) this.update();
    });
  }

  /** Makes what is inside, once. */
  build() {}

  /** Brings what is inside up to the attributes. */
  update() {}

  get language() {
    return language();
  }

  /**
   * @param {string} name
   * @param {string} [otherwise]
   */
  text(name, otherwise = '') {
    return this.getAttribute(name) ?? otherwise;
  }

  /**
   * @param {string} name
   * @param {number} otherwise
   */
  number(name, otherwise) {
    const value = Number(this.getAttribute(name) ?? NaN);
    return Number.isFinite(value) ? value : otherwise;
  }

  /**
   * An event that leaves the shadow and bubbles, as native ones do.
   * @param {string} name
   * @param {unknown} [detail]
   * @returns {boolean} Nobody prevented what it announces.
   */
  tell(name, detail) {
    return this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true }));
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * Says it only if that is news: writing the same text again would be read out again.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | undefined | null | false} value
 */
export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * @param {string} name
 * @param {CustomElementConstructor} constructor
 */
export function define(name, constructor) {
  // A page may load the elements twice, from two places.
  if (!customElements.get(name)) customElements.define(name, constructor);
}

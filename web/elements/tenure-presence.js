// <tenure-presence>: the people who work here.
//
//   people  JSON: [{"id","name","away"?}]; also a property, as an array
//   me      my own id: mine comes first and stands out
//   max     how many are shown before the rest is a number (5)
//
// Parts: list, person, more.

import { t } from '../i18n/index.js';
import { css, define, make, setAttribute, TenureElement, write } from './base.js';

/** @typedef {{id: string, name: string, away?: boolean}} Someone */

const SHEET = css`
  :host { display: inline-block; }
  ul { display: flex; align-items: center; margin: 0; padding: 0; list-style: none; }
  li {
    display: grid; place-items: center; min-inline-size: 2rem; block-size: 2rem; padding-inline: 0.25rem;
    margin-inline-start: -0.375rem; border-radius: 1rem; border: 2px solid var(--tenure-raised);
    font-size: var(--tenure-text-xs); font-weight: 600;
    background: light-dark(oklch(0.9 0.045 var(--_hue)), oklch(0.36 0.055 var(--_hue)));
    color: light-dark(oklch(0.36 0.07 var(--_hue)), oklch(0.92 0.04 var(--_hue)));
  }
  li:first-child { margin-inline-start: 0; }
  li.me { outline: 2px solid var(--tenure-accent); outline-offset: -1px; }
  li.away { opacity: 0.55; border-style: dashed; border-color: var(--tenure-line-strong); }
  li[part=more] { background: var(--tenure-done-fill); color: var(--tenure-ink-soft); padding-inline: 0.5rem; }
  p { margin: 0; font-size: var(--tenure-text-s); color: var(--tenure-ink-soft); }
`;

export class TenurePresence extends TenureElement {
  static sheets = [SHEET];
  static observedAttributes = ['people', 'me', 'max'];
  #list = make('ul', { part: 'list' });
  #none = make('p');

  /** @type {Someone[]} */
  get people() {
    try {
      return JSON.parse(this.text('people', '[]'));
    } catch {
      return [];
    }
  }

  set people(people) {
    setAttribute(this, 'people', JSON.stringify(people));
  }

  build() {
    this.root.append(this.#list, this.#none);
  }

  update() {
    const me = this.text('me');
    const people = [...this.people].sort((a, b) => Number(b.id === me) - Number(a.id === me));
    const max = this.number('max', 5);
    this.#list.hidden = people.length === 0;
    this.#none.hidden = people.length > 0;
    write(this.#none, t('presence.none'));
    setAttribute(this.#list, 'aria-label', t('presence.label'));
    const shown = people.length > max + 1 ? people.slice(0, max) : people;
    const rest = people.slice(shown.length);
    this.#list.replaceChildren(...shown.map((one) => this.#person(one, one.id === me)));
    if (rest.length === 0) return;
    const more = make('li', { part: 'more', class: 'figures', title: rest.map(({ name }) => name).join(', ') }, `+${rest.length}`);
    more.append(make('span', { class: 'unseen' }, ` ${t('presence.more', { n: rest.length })}`));
    this.#list.append(more);
  }

  /**
   * @param {Someone} someone
   * @param {boolean} isMe
   */
  #person({ id, name, away }, isMe) {
    const classes = [isMe && 'me', away && 'away'].filter(Boolean).join(' ');
    const spoken = isMe ? `${name} (${t('lock.mine.plain')})` : name;
    const person = make('li', { part: 'person', class: classes, title: spoken });
    person.append(make('span', { 'aria-hidden': 'true' }, initials(name)), make('span', { class: 'unseen' }, spoken));
    // A hue of their own that stays the same, between those that mean something.
    person.style.setProperty('--_hue', String(hue(id)));
    return person;
  }
}

/** @param {string} name */
function initials(name) {
  const words = name.trim().split(/\s+/);
  const first = (/** @type {string | undefined} */ word) => [...(word ?? '')][0] ?? '';
  return (first(words[0]) + (words.length > 1 ? first(words.at(-1)) : '')).toLocaleUpperCase();
}

/** @param {string} id */
function hue(id) {
  let sum = 7;
  for (const char of id) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % 9973;
  return [230, 265, 300, 330, 120, 210, 285, 100][sum % 8] ?? 230;
}

define('tenure-presence', TenurePresence);

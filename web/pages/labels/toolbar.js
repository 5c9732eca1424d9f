// What to draw with, as what; back and forth; and under the canvas how near one looks.

import { t } from '../../i18n/index.js';
import { h, keyed, set, write } from '../lib/dom.js';
import { classInput } from './panel.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {import('./stage.js').Tool} Tool
 */

const STEP = 1.25;

/** @type {[Tool, Key, string][]} */
const TOOLS = [['select', 'labels.tool.select', 'v'], ['rectangle', 'labels.tool.rectangle', 'r'], ['polygon', 'labels.tool.polygon', 'p']];

/** The tool of a key. @param {string} key @returns {Tool | undefined} */
export const toolOf = (key) => TOOLS.find(([, , letter]) => letter === key)?.[0];

/**
 * @param {object} given
 * @param {(tool: Tool) => void} given.onTool
 * @param {(name: string) => void} given.onClass
 * @param {() => void} given.onUndo
 * @param {() => void} given.onRedo
 */
export function toolbar({ onTool, onClass, onUndo, onRedo }) {
  const tools = h('div', { class: 'row tools' });
  const words = h('span');
  const field = classInput(onClass, () => { field.value = field.defaultValue; });
  const undo = h('button', { class: 'button', type: 'button', onclick: onUndo }, '↶');
  const redo = h('button', { class: 'button', type: 'button', onclick: onRedo }, '↷');
  const element = h('div', { class: 'toolbar', role: 'toolbar' }, tools, h('div', { class: 'row tools' }, undo, redo), h('label', { class: 'inline-field' }, words, field));
  return {
    element,
    /** @param {{tool: Tool, name: string, canUndo: boolean, canRedo: boolean}} now */
    draw({ tool, name, canUndo, canRedo }) {
      set(element, 'aria-label', t('labels.tools'));
      keyed(tools, TOOLS, ([one]) => one, ([one, , key]) => h('button', { class: 'button', type: 'button', 'aria-keyshortcuts': key.toUpperCase(), onclick: () => onTool(one) }), (button, [one, text]) => {
        write(button, t(text));
        set(button, 'aria-pressed', String(one === tool));
      });
      write(words, t('labels.class.new'));
      field.defaultValue = name;
      if (document.activeElement !== field) field.value = name;
      for (const [button, text, can] of /** @type {[HTMLButtonElement, string, boolean][]} */ ([[undo, t('labels.undo'), canUndo], [redo, t('labels.redo'), canRedo]])) {
        set(button, 'aria-label', text);
        set(button, 'title', text);
        button.disabled = !can;
      }
    },
  };
}

/** @param {import('./stage.js').Stage} stage */
export function zoomBar(stage) {
  const out = h('button', { class: 'button', type: 'button', onclick: () => stage.zoom(1 / STEP) }, '−');
  const fit = h('button', { class: 'button', type: 'button', onclick: () => stage.fit() });
  const near = h('button', { class: 'button', type: 'button', onclick: () => stage.zoom(STEP) }, '+');
  return {
    element: h('div', { class: 'row tools' }, out, fit, near),
    draw() {
      set(out, 'aria-label', t('labels.zoom.out'));
      write(fit, t('labels.zoom.fit'));
      set(near, 'aria-label', t('labels.zoom.in'));
    },
  };
}

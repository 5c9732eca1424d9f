// How the grid looks. Each state has a shape of its own: outline, dot and bold edge, dashes, hatching, a tick.

import { css } from './base.js';

export default css`
  :host { display: block; --_gap: 4px; }

  [part=toolbar] { display: flex; flex-wrap: wrap; align-items: center; gap: var(--tenure-2) var(--tenure-4); margin-block-end: var(--tenure-3); }
  [part=legend] { display: flex; flex-wrap: wrap; gap: var(--tenure-1); margin-inline-end: auto; }
  [part=legend] button {
    display: inline-flex; align-items: center; gap: 0.5rem; min-block-size: 2.25rem; padding: 0 0.625rem;
    border: 1px solid transparent; border-radius: var(--tenure-radius); background: transparent; cursor: pointer;
    font-size: var(--tenure-text-s); color: var(--tenure-ink-soft); transition: background var(--tenure-quick);
  }
  [part=legend] button:hover { background: var(--tenure-sunken); }
  [part=legend] button[aria-pressed=true] { border-color: var(--tenure-ink); color: var(--tenure-ink); background: var(--tenure-raised); }
  [part=legend] b { font-weight: 600; color: var(--tenure-ink); font-variant-numeric: tabular-nums; }
  .swatch { inline-size: 1.25rem; block-size: 1.25rem; flex: none; cursor: inherit; }

  form, .views { display: flex; align-items: center; gap: var(--tenure-2); }
  .views { gap: 0; }
  label { font-size: var(--tenure-text-s); color: var(--tenure-ink-soft); }
  input, form button, .views button {
    min-block-size: 2.25rem; border: 1px solid var(--tenure-line-strong); border-radius: var(--tenure-radius);
    background: var(--tenure-raised); color: var(--tenure-ink); font: inherit; font-size: var(--tenure-text-s);
  }
  input { inline-size: 5.5rem; padding: 0 0.625rem; font-variant-numeric: tabular-nums; }
  /* The label says it; on a phone there is only room for one of them. */
  input::placeholder { color: transparent; }
  form button, .views button { padding: 0 0.75rem; cursor: pointer; }
  .views button:first-child { border-start-end-radius: 0; border-end-end-radius: 0; }
  .views button:last-child { border-start-start-radius: 0; border-end-start-radius: 0; border-inline-start-width: 0; }
  .views button[aria-pressed=true] { background: var(--tenure-ink); color: var(--tenure-surface); border-color: var(--tenure-ink); }

  [part=viewport] {
    position: relative; overflow: auto; overscroll-behavior: contain; scrollbar-gutter: stable;
    max-block-size: var(--tenure-grid-height, min(32rem, 70vh)); padding-block: 3px; padding-inline-end: 6px;
    border-radius: var(--tenure-radius-s);
  }
  /* So few rows that the page can scroll them. */
  [part=viewport].whole { max-block-size: none; overflow: visible; padding-inline-end: 0; }
  [part=grid] { position: relative; contain: layout style; }
  [role=row] {
    position: absolute; inset-inline: 3px; inset-block-start: 0; block-size: var(--_row); contain: size layout style;
    display: grid; gap: var(--_gap); padding-block-end: var(--_gap);
    grid-template-columns: 3.25rem repeat(var(--_columns), minmax(0, 1fr));
  }
  [role=rowheader] {
    display: grid; align-content: center; font-size: var(--tenure-text-xs); color: var(--tenure-ink-soft);
    font-variant-numeric: tabular-nums;
  }

  .cell {
    position: relative; display: grid; place-items: center; border-radius: var(--tenure-radius-s); user-select: none;
    border: 1px solid var(--tenure-line-strong); background: var(--tenure-raised); color: var(--tenure-ink);
    font-size: var(--tenure-text-s); font-variant-numeric: tabular-nums; cursor: pointer; -webkit-tap-highlight-color: transparent;
  }
  .cell[role=gridcell] { scroll-margin-block: var(--tenure-grid-above, 0.5rem) var(--tenure-grid-below, 0.5rem); }
  .cell:focus-visible { outline-offset: 1px; z-index: 1; }
  @media (hover: hover) {
    .cell[data-state=free]:hover { border-color: var(--tenure-accent-ink); box-shadow: inset 0 0 0 1px var(--tenure-accent-ink); }
  }

  .cell[data-state=mine], .cell[data-state=elsewhere] {
    background: var(--tenure-accent); border: 2px solid var(--tenure-accent-ink); color: var(--tenure-on-accent); font-weight: 600;
  }
  .cell[data-state=elsewhere] {
    background: var(--tenure-accent-soft); border-style: dashed; color: var(--tenure-accent-ink);
  }
  .cell[data-state=mine]::after, .cell[data-state=elsewhere]::after {
    content: ""; position: absolute; inset-block-start: 3px; inset-inline-end: 3px; inline-size: 6px; block-size: 6px;
    border-radius: 50%; background: currentColor;
  }

  .cell[data-state=other] {
    border-color: var(--tenure-amber); color: var(--tenure-amber-ink); cursor: default;
    background: repeating-linear-gradient(-45deg, var(--tenure-amber-soft) 0 4px,
      color-mix(in oklch, var(--tenure-amber-soft) 80%, var(--tenure-amber)) 4px 5px);
  }
  .cell[data-state=other]::before, .cell[data-state=other]::after { content: ""; position: absolute; inset-inline-end: 4px; }
  .cell[data-state=other]::after {
    inset-block-start: 7px; inline-size: 7px; block-size: 5px; border-radius: 1px; background: currentColor;
  }
  .cell[data-state=other]::before {
    inset-block-start: 3px; margin-inline-end: 1px; inline-size: 5px; block-size: 5px; border: 1.25px solid currentColor;
    border-block-end: 0; border-radius: 3px 3px 0 0;
  }

  .cell[data-state=sold] {
    background: var(--tenure-done-fill); border-color: transparent; color: var(--tenure-done-ink); cursor: default;
  }
  .cell[data-state=sold]::after {
    content: ""; position: absolute; inset-block-start: 3px; inset-inline-end: 5px; inline-size: 4px; block-size: 8px;
    border: solid currentColor; border-width: 0 1.5px 1.5px 0; transform: rotate(40deg);
  }
  .swatch.cell::after { inset: 50% auto auto 50% !important; translate: -50% -50%; }
  .swatch.cell[data-state=other]::after { translate: -50% -30%; }
  .swatch.cell[data-state=other]::before { inset: 50% auto auto 50%; translate: -50% -105%; margin: 0; }
  .swatch.cell[data-state=sold]::after { translate: -50% -60%; }

  .block { grid-template-columns: minmax(0, 1fr); justify-items: center; align-content: center; gap: 0.25rem; padding-inline: 0.5rem; font-weight: 600; }
  .block small {
    max-inline-size: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
    font-weight: 400; font-size: var(--tenure-text-xs); color: var(--tenure-ink-soft);
  }
  .block i { inline-size: 100%; block-size: 4px; border-radius: 2px; background: var(--tenure-done-fill); overflow: hidden; }
  .block i::after {
    content: ""; display: block; block-size: 100%; background: var(--tenure-accent); transform-origin: left;
    transform: scaleX(var(--_free));
  }
  .block.has-mine { border: 2px solid var(--tenure-accent); }

  /* Nobody knows: dotted, and nothing stands out as if it could be had. What it says can still be read. */
  :host([uncertain]) .cell[role=gridcell] { border: 2px dotted var(--tenure-unsure); cursor: default; }
  :host([uncertain]) .cell[data-state=free][role=gridcell] { background: var(--tenure-unsure-soft); color: var(--tenure-unsure-ink); box-shadow: none; }
  :host([uncertain]) .cell[data-state=mine][role=gridcell] { background: var(--tenure-accent-soft); color: var(--tenure-accent-ink); }

  [part=empty] { display: flex; align-items: center; gap: var(--tenure-3); margin: 0; padding: var(--tenure-6) 0; color: var(--tenure-ink-soft); }
  [part=empty] button { min-block-size: 2.25rem; padding: 0 0.75rem; border: 1px solid var(--tenure-line-strong); border-radius: var(--tenure-radius); background: transparent; cursor: pointer; }
  [part=said] { min-block-size: 1.25rem; margin: var(--tenure-1) 0 0; font-size: var(--tenure-text-s); color: var(--tenure-ink-soft); }

  /* Ten columns on a phone: the row labels go, since every cell says its number, and the gaps shrink. */
  @container (max-width: 34rem) {
    [role=row] { grid-template-columns: repeat(var(--_columns), minmax(0, 1fr)); gap: 3px; inset-inline: 2px; }
    [role=rowheader] { display: none; }
    .cell { font-size: 0.6875rem; letter-spacing: -0.02em; }
    .cell[data-state=mine], .cell[data-state=elsewhere] { letter-spacing: -0.05em; }
    /* One line; what does not fit is reached by finger, and by key. */
    [part=legend] { inline-size: 100%; margin: 0; flex-wrap: nowrap; overflow-x: auto; scrollbar-width: none; overscroll-behavior-x: contain; }
    [part=legend] button { flex: none; gap: 0.25rem; padding: 0 0.25rem; font-size: var(--tenure-text-xs); }
    [part=legend] button:focus-visible { outline-offset: -2px; }
    [part=legend] .swatch { inline-size: 1.125rem; block-size: 1.125rem; }
    form { flex: 1; min-inline-size: 0; }
    label { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
    input { flex: 1; min-inline-size: 0; inline-size: 100%; padding: 0 0.5rem; text-overflow: ellipsis; }
    .views button, form button { padding: 0 0.625rem; }
    input::placeholder { color: var(--tenure-ink-soft); opacity: 1; }
    [part=toolbar] { gap: var(--tenure-1) var(--tenure-2); margin-block-end: var(--tenure-2); }
    [part=viewport] { scrollbar-gutter: auto; }
  }
  @container (max-width: 60rem) {
    .block { padding-inline: 0.125rem; }
    .block small { font-size: 0.6875rem; }
  }
  .frame { container-type: inline-size; }
  @media (pointer: coarse) {
    [part=legend] button, input, form button, .views button { min-block-size: var(--tenure-target); }
    form button { min-inline-size: var(--tenure-target); }
  }
`;

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// A comparison side by side. On a narrow screen the sides are below each other.

import { el } from './dom.js';

// parts splits a line into what is equal at the beginning, what differs, and what is equal at the end.
function parts(text, other) {
  let start = 0;
  while (start < Math.min(text.length, other.length) && text[start] === other[start]) start++;
  let end = 0;
  while (end < Math.min(text.length, other.length) - start && text.at(-1 - end) === other.at(-1 - end)) end++;
  return [text.slice(0, start), text.slice(start, text.length - end), text.slice(text.length - end)];
}

function side(text, other, number, kind) {
  const cell = el('div', { class: 'side', 'data-kind': number ? kind : 'none' }, el('span', { class: 'line', 'aria-hidden': 'true' }, number ? String(number) : ''));
  if (!number) return cell;
  const sign = { removed: '− ', added: '+ ' }[kind] ?? '  ';
  const code = el('code', {}, sign);
  if (kind === 'same' || !other) code.append(text ?? '');
  else {
    const [start, middle, end] = parts(text ?? '', other);
    code.append(start, middle ? el('mark', {}, middle) : '', end);
  }
  cell.append(code);
  return cell;
}

function row(r) {
  return el('div', { class: 'pair' + (r.gap ? ' gap' : ''), 'data-equal': r.equal ? 'true' : undefined },
    side(r.before, r.after, r.left, r.equal ? 'same' : 'removed'), side(r.after, r.before, r.right, r.equal ? 'same' : 'added'));
}

// drawComparison draws the objects that differ. from and to name the sides, heading is the level of
// the headings.
export function drawComparison(comparison, from, to, equal, heading) {
  const objects = comparison.objects.map((object) => el('section', { class: 'card diff' },
    el(heading, {}, object.name),
    object.fields && el('ul', { class: 'owners' }, object.fields.map((field) => el('li', {}, field))),
    object.note && el('p', { class: 'note' }, object.note),
    object.rows.length > 0 && el('div', { class: 'sides', tabindex: '0', role: 'region', 'aria-label': `${object.name}: ${from} and ${to}` },
      el('div', { class: 'pair titles' }, el('div', {}, from), el('div', {}, to)), object.rows.map(row))));
  return el('div', {}, comparison.note && el('p', { class: 'notice' }, comparison.note),
    objects.length > 0 ? objects : el('p', { class: 'empty' }, equal));
}

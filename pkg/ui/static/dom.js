// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// What all views share: elements, times, states. Texts of the cluster are not trusted, so they
// become text nodes and nothing else.

// el makes an element. Properties are attributes, or listeners if they are functions.
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false && child !== ''));
  return element;
}

const steps = [[60, 's'], [60, 'm'], [24, 'h'], [365, 'd'], [Infinity, 'y']];

// age returns the time since a time in short, as kubectl shows it.
export function age(since) {
  let value = Math.max(0, (Date.now() - Date.parse(since)) / 1000);
  for (const [size, unit] of steps) {
    if (value < size || size === Infinity) return Math.floor(value) + unit;
    value /= size;
  }
  return '';
}

// time makes an element with an age, which refreshAges keeps up to date.
export function time(since, prefix = '', suffix = '') {
  if (!since || since.startsWith('0001-')) return undefined;
  return el('time', { datetime: since, title: new Date(since).toLocaleString(), 'data-prefix': prefix, 'data-suffix': suffix }, prefix + age(since) + suffix);
}

export function refreshAges() {
  for (const element of document.querySelectorAll('time')) {
    const text = element.dataset.prefix + age(element.dateTime) + element.dataset.suffix;
    if (element.textContent !== text) element.textContent = text;
  }
}

// icon makes the sign of a state. The state is also written in words beside it.
export function icon(state) {
  return el('span', { class: 'sign', 'data-state': state, 'aria-hidden': 'true' });
}

// badge makes a small label.
export function badge(text, tone) {
  return el('span', { class: 'badge', 'data-tone': tone }, text);
}

// replace shows children in place of what an element has, and keeps the focus on the element with
// the same data-key.
export function replace(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children.flat().filter(Boolean));
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const linkTo = (id, tab = '') => '#/app/' + id.split('/').map(encodeURIComponent).join('/') + (tab ? '/' + tab : '');

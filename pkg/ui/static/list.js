// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The list of all objects. Rows are kept and changed one by one, and only so many are drawn as fit
// a few screens, so thousands of objects cost little.

import { badge, el, icon, linkTo, replace, time } from './dom.js';

// page is the number of rows that are drawn at once.
const page = 100;

const order = { person: 0, waits: 1, deleting: 2, ready: 3 };

const filters = [
  { key: 'all', text: 'All', matches: () => true },
  { key: 'ready', text: 'Ready', state: 'ready', matches: (app) => app.state === 'ready' },
  { key: 'notready', text: 'Not ready', state: 'waits', matches: (app) => app.state !== 'ready' },
  { key: 'person', text: 'Needs a person', state: 'person', matches: (app) => app.state === 'person' },
  { key: 'drifted', text: 'Drifted', state: 'drifted', matches: (app) => app.drifted },
  { key: 'suspended', text: 'Suspended', state: 'suspended', matches: (app) => app.suspended },
];

const sorts = {
  state: (a, b) => order[a.state] - order[b.state],
  name: () => 0,
  age: (a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0),
};

const byName = (a, b) => compare(a.namespace, b.namespace) || compare(a.word, b.word) || compare(a.name, b.name);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export class ListView {
  constructor() {
    this.apps = new Map();
    this.kinds = [];
    this.rows = new Map();
    this.lastId = '';
    this.complete = false;
    this.build();
  }

  build() {
    const changed = () => this.changeQuery();
    this.search = el('input', { type: 'search', placeholder: 'Search name, message, chart', 'aria-label': 'Search', id: 'search', autocomplete: 'off', spellcheck: 'false', input: changed });
    this.kind = el('select', { 'aria-label': 'Kind', change: changed }, el('option', { value: '' }, 'All kinds'));
    this.namespace = el('select', { 'aria-label': 'Namespace', change: changed }, el('option', { value: '' }, 'All namespaces'));
    this.sort = el('select', { 'aria-label': 'Order', change: changed },
      el('option', { value: 'state' }, 'Problems first'), el('option', { value: 'name' }, 'By name'), el('option', { value: 'age' }, 'Newest first'));
    this.tiles = el('div', { class: 'tiles', role: 'group', 'aria-label': 'Filter by state' }, filters.map((filter) => this.tile(filter)));
    this.notices = el('div', { role: 'status' });
    this.count = el('p', { class: 'count', role: 'status' });
    this.body = el('ul', { class: 'rows', 'aria-label': 'Objects' });
    this.end = el('div', { class: 'end' });
    new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting) && this.drawn < this.matching) {
        this.limit += page;
        this.draw();
      }
    }, { rootMargin: '800px' }).observe(this.end);
    this.element = el('div', { class: 'list' },
      el('h1', {}, 'Objects'), this.notices, this.tiles,
      el('div', { class: 'tools', role: 'search' }, this.search, this.kind, this.namespace, this.sort),
      this.count, this.body, this.end);
  }

  tile(filter) {
    filter.number = el('span', { class: 'number' }, '0');
    filter.button = el('button', { type: 'button', class: 'tile', 'data-state': filter.state, 'aria-pressed': 'false', click: () => this.setFilter(filter.key) },
      filter.number, el('span', { class: 'name' }, filter.state && icon(filter.state), filter.text));
    return filter.button;
  }

  // show draws the list with the filters of a query.
  show(parent, query) {
    const values = new URLSearchParams(query ?? '');
    this.query = query ?? '';
    this.remember();
    this.filter = filters.some((f) => f.key === values.get('state')) ? values.get('state') : 'all';
    this.search.value = values.get('q') ?? '';
    this.wanted = { kind: values.get('kind') ?? '', namespace: values.get('ns') ?? '' };
    this.sort.value = sorts[values.get('sort')] ? values.get('sort') : 'state';
    this.limit = page;
    parent.replaceChildren(this.element);
    this.draw();
    if (this.opened) this.rows.get(this.opened)?.querySelector('a').focus();
    this.opened = undefined;
  }

  // remember keeps the filters for the way back from an object.
  remember() {
    sessionStorage.setItem('list', this.query ? '?' + this.query : '');
  }

  isQuery(query) {
    return this.query === (query ?? '');
  }

  setFilter(key) {
    this.filter = this.filter === key ? 'all' : key;
    this.changeQuery();
  }

  // changeQuery writes the filters into the URL, so that it can be shared and comes back.
  changeQuery() {
    this.wanted = { kind: this.kind.value, namespace: this.namespace.value };
    const values = new URLSearchParams();
    const set = (name, value, usual) => value !== usual && values.set(name, value);
    set('state', this.filter, 'all');
    set('q', this.search.value, '');
    set('kind', this.wanted.kind, '');
    set('ns', this.wanted.namespace, '');
    set('sort', this.sort.value, 'state');
    this.query = values.toString();
    history.replaceState(null, '', '#/' + (this.query ? '?' + this.query : ''));
    this.remember();
    this.limit = page;
    this.draw();
  }

  // take takes a message of the stream. Messages of one version are drawn together.
  take(message) {
    if (message.reset) {
      this.stale = new Set(this.apps.keys());
    }
    for (const id of message.removed ?? []) this.apps.delete(id);
    for (const app of message.apps ?? []) {
      this.apps.set(app.id, app);
      this.stale?.delete(app.id);
    }
    if (message.kinds) this.kinds = message.kinds;
    if (message.last && this.stale) {
      for (const id of this.stale) this.apps.delete(id);
      this.stale = undefined;
    }
    if (message.context !== undefined) this.error = message.error;
    this.complete ||= message.last && this.kinds.every((kind) => kind.synced || kind.error);
    if (!this.scheduled && message.last) {
      this.scheduled = requestAnimationFrame(() => {
        this.scheduled = undefined;
        this.draw();
      });
    }
  }

  failed(error) {
    this.refused = error.message;
    this.drawNotices();
  }

  draw() {
    if (!this.element.isConnected) return;
    this.drawOptions(this.kind, this.kinds.map((kind) => [kind.kind, kind.word]), this.wanted.kind);
    const namespaces = [...new Set([...this.apps.values()].map((app) => app.namespace))].filter(Boolean).sort();
    this.drawOptions(this.namespace, namespaces.map((name) => [name, name]), this.wanted.namespace);
    this.drawNotices();
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...this.apps.values()].filter((app) => {
      if (this.wanted.kind && app.kind !== this.wanted.kind) return false;
      if (this.wanted.namespace && app.namespace !== this.wanted.namespace) return false;
      const text = `${app.word}/${app.name} ${app.namespace} ${app.reason} ${app.message} ${app.chart ?? ''}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    for (const filter of filters) {
      filter.number.textContent = found.filter(filter.matches).length.toLocaleString('en');
      filter.button.setAttribute('aria-pressed', String(filter.key === this.filter));
    }
    const shown = found.filter(filters.find((filter) => filter.key === this.filter).matches);
    const first = sorts[this.sort.value];
    shown.sort((a, b) => first(a, b) || byName(a, b));
    this.drawRows(shown);
  }

  drawOptions(select, options, wanted) {
    // A filter of the URL stays selectable before its objects are known.
    if (wanted && !options.some(([value]) => value === wanted)) options.push([wanted, wanted]);
    const text = JSON.stringify(options);
    if (select.dataset.options !== text) {
      select.dataset.options = text;
      select.replaceChildren(select.firstElementChild, ...options.map(([value, name]) => el('option', { value }, name)));
    }
    select.value = wanted;
  }

  drawNotices() {
    const notices = [];
    if (this.refused) notices.push(this.refused);
    if (this.error) notices.push(this.error);
    for (const kind of this.kinds) {
      if (kind.error) notices.push(`${kind.word}: ${kind.error}`);
    }
    const text = notices.join('\n');
    if (this.noticesText === text) return;
    this.noticesText = text;
    replace(this.notices, notices.map((notice) => el('p', { class: 'notice' }, notice)));
  }

  drawRows(shown) {
    const drawn = shown.slice(0, this.limit);
    this.matching = shown.length;
    this.drawn = drawn.length;
    const kept = new Set(drawn.map((app) => app.id));
    for (const [id, row] of this.rows) {
      if (!kept.has(id)) {
        row.remove();
        this.rows.delete(id);
      }
    }
    let before = this.body.firstElementChild;
    for (const app of drawn) {
      let row = this.rows.get(app.id);
      if (!row) {
        row = el('li', {});
        this.rows.set(app.id, row);
      }
      if (row.app !== app) {
        row.app = app;
        this.drawRow(row, app);
      }
      if (row === before) before = before.nextElementSibling;
      else this.body.insertBefore(row, before);
    }
    this.count.textContent = this.countText(shown.length);
    this.body.hidden = shown.length === 0;
  }

  countText(shown) {
    if (this.refused) return '';
    if (!this.complete && this.apps.size === 0) return 'Loading…';
    if (this.apps.size === 0) return 'There are no objects yet.';
    if (shown === 0) return 'No object matches.';
    const of = shown === this.apps.size ? '' : ` of ${this.apps.size.toLocaleString('en')}`;
    return `${shown.toLocaleString('en')}${of} ${this.apps.size === 1 ? 'object' : 'objects'}`;
  }

  drawRow(row, app) {
    row.dataset.state = app.state;
    replace(row, el('a', { class: 'row', href: linkTo(app.id), 'data-key': app.id, click: () => (this.opened = app.id) },
      icon(app.state),
      el('span', { class: 'what' },
        el('span', { class: 'name' }, app.name),
        el('span', { class: 'kind' }, app.word + (app.namespace ? ' in ' + app.namespace : ''))),
      el('span', { class: 'says' },
        el('span', { class: 'labels' }, badge(app.stateText, app.state), app.drifted && badge('Drifted', 'drifted'), app.suspended && badge('Suspended', 'suspended')),
        el('span', { class: 'message' }, app.message || app.reason)),
      el('span', { class: 'chart' }, app.chart && el('span', {}, app.chart), app.revision && el('span', { class: 'dim' }, 'revision ' + app.revision)),
      el('span', { class: 'age' }, time(app.created))));
  }

  // key handles a key without a modifier, and returns whether it has a meaning.
  key(key) {
    if (key === '/') this.search.select();
    else if (key === 'n') this.setFilter('notready');
    else if (key === 'j') this.move(1);
    else if (key === 'k') this.move(-1);
    else return false;
    return true;
  }

  // move moves the focus to another row.
  move(by) {
    const at = document.activeElement.closest?.('.rows li');
    const next = at ? (by > 0 ? at.nextElementSibling : at.previousElementSibling) : this.body.firstElementChild;
    next?.querySelector('a').focus();
  }
}

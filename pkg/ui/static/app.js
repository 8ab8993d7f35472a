// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The page of one object. Parts are drawn again only if their data changed.

import { badge, el, icon, linkTo, replace, time } from './dom.js';
import { drawComparison } from './compare.js';
import { get, post } from './net.js';

const tabs = [
  { key: 'overview', text: 'Overview' },
  { key: 'drift', text: 'Drift' },
  { key: 'revisions', text: 'Revisions' },
  { key: 'events', text: 'Events' },
];

// healths are the states of kstatus in those of the page.
const healths = { Current: 'ready', InProgress: 'waits', Terminating: 'deleting', Failed: 'person', NotFound: 'person', Unknown: 'unknown' };

// bad are the conditions whose status True says that something is wrong.
const bad = ['Stalled', 'Failed', 'ReleaseFailed', 'Drifted', 'Remediated'];
const neutral = ['Reconciling', 'Suspended', 'UpgradeHeld'];

function toneOf(condition) {
  if (neutral.includes(condition.type)) return condition.status === 'True' ? 'waits' : 'unknown';
  const wrong = bad.includes(condition.type) ? 'True' : 'False';
  if (condition.status === 'Unknown') return 'unknown';
  return condition.status === wrong ? 'person' : 'ready';
}

export class AppView {
  constructor(id, tab, app) {
    this.id = id;
    this.tab = tabs.some((t) => t.key === tab) ? tab : 'overview';
    this.drawn = {};
    this.compared = new Map();
    const [kind, namespace, name] = id.split('/');
    this.first = app ?? { word: kind.split('.')[0], namespace, name };
  }

  show(parent) {
    this.head = el('div', { class: 'head' });
    this.notice = el('div', { role: 'status' });
    this.outcome = el('div', { role: 'status' });
    this.actions = el('div', { class: 'actions' });
    this.buttons = tabs.map((tab) => el('a', {
      role: 'tab', id: 'tab-' + tab.key, href: linkTo(this.id, tab.key), 'aria-controls': 'panel', click: (event) => {
        event.preventDefault();
        this.select(tab.key);
      }, keydown: (event) => this.tabKey(event),
    }, tab.text));
    this.panel = el('div', { role: 'tabpanel', id: 'panel', tabindex: '-1' });
    parent.replaceChildren(el('article', { class: 'app' },
      el('a', { class: 'back', href: '#/', click: (event) => this.back(event) }, '← All objects'),
      this.head, this.actions, this.outcome, this.notice, el('div', { role: 'tablist', 'aria-label': "Parts of the object's page" }, this.buttons), this.panel));
    this.drawHead(this.first);
    this.select(this.tab);
  }

  // back goes to the list with its filters, if the list was the page before.
  back(event) {
    event?.preventDefault();
    location.hash = '#/' + (sessionStorage.getItem('list') ?? '');
  }

  select(tab) {
    this.tab = tabs.some((t) => t.key === tab) ? tab : 'overview';
    history.replaceState(null, '', linkTo(this.id, this.tab === 'overview' ? '' : this.tab));
    tabs.forEach(({ key }, i) => {
      this.buttons[i].setAttribute('aria-selected', String(key === this.tab));
      this.buttons[i].tabIndex = key === this.tab ? 0 : -1;
    });
    this.panel.setAttribute('aria-labelledby', 'tab-' + this.tab);
    this.drawn = { head: this.drawn.head, actions: this.drawn.actions };
    this.draw();
    if (this.tab === 'drift') this.readDrift();
  }

  tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    const at = tabs.findIndex((tab) => tab.key === this.tab);
    const next = (at + by + tabs.length) % tabs.length;
    this.select(tabs[next].key);
    this.buttons[next].focus();
    event.preventDefault();
  }

  key(key) {
    if (key === 'u' || key === 'Escape') this.back();
    else if (tabs[key - 1]) this.select(tabs[key - 1].key);
    else return false;
    return true;
  }

  take(page) {
    this.page = page;
    this.failed();
    this.drawHead(page.app);
    this.drawActions(page.actions ?? []);
    this.draw();
    if (this.tab === 'drift') this.readDrift();
  }

  // failed shows why the object cannot be read; nothing without an error.
  failed(error) {
    replace(this.notice, error && el('p', { class: 'notice' }, error.message));
    if (error && !this.page) replace(this.panel);
  }

  // changed reports whether data differs from what is drawn of a part.
  changed(part, data) {
    const text = JSON.stringify(data);
    if (this.drawn[part] === text) return false;
    this.drawn[part] = text;
    return true;
  }

  drawHead(app) {
    if (!this.changed('head', app)) return;
    replace(this.head,
      el('p', { class: 'over' }, app.word + (app.namespace ? ' in ' + app.namespace : '')),
      el('h1', {}, app.name),
      app.stateText && el('p', { class: 'state', 'data-state': app.state },
        icon(app.state), el('strong', {}, app.stateText), app.drifted && badge('Drifted', 'drifted'), app.suspended && badge('Suspended', 'suspended')),
      el('p', { class: 'facts' },
        app.chart && el('span', {}, app.chart), app.revision && el('span', {}, 'revision ' + app.revision), time(app.created, 'created ', ' ago')));
  }

  // drawActions offers actions, if the server allows them.
  drawActions(actions) {
    if (!this.changed('actions', actions)) return;
    replace(this.actions, actions.map((action) => el('button', {
      type: 'button', 'data-key': action, click: () => (action === 'suspend' ? this.askReason() : this.act(action)),
    }, action[0].toUpperCase() + action.slice(1))));
  }

  // askReason asks why the object is suspended.
  askReason() {
    const reason = el('input', { id: 'reason', maxlength: '200', autocomplete: 'off' });
    const form = el('form', { class: 'card reason', submit: (event) => {
      event.preventDefault();
      this.act('suspend', reason.value);
    } }, el('label', { for: 'reason' }, 'Why is it suspended? (optional)'), reason, el('button', { type: 'submit' }, 'Suspend'),
    el('button', { type: 'button', class: 'quiet', click: () => replace(this.outcome) }, 'Cancel'));
    replace(this.outcome, form);
    reason.focus();
  }

  async act(action, reason = '') {
    replace(this.outcome, el('p', { class: 'note' }, 'Sending…'));
    try {
      const answer = await post('api/action?id=' + encodeURIComponent(this.id), { action, reason });
      replace(this.outcome, el('p', { class: 'note' }, answer.changed ? `Sent: ${action}.` : `Nothing to change for ${action}.`),
        (answer.warnings ?? []).map((warning) => el('p', { class: 'notice' }, warning)));
    } catch (error) {
      replace(this.outcome, el('p', { class: 'notice' }, error.message));
    }
  }

  draw() {
    if (!this.page) {
      replace(this.panel, el('p', { class: 'dim' }, 'Loading…'));
      return;
    }
    const { why, conditions, tree, history, historyError, events, eventsError } = this.page;
    if (this.tab === 'overview' && this.changed('panel', [why, conditions, tree])) {
      replace(this.panel, el('div', { class: 'overview' }, this.why(why),
        el('section', { class: 'card tree' }, el('h2', {}, 'Objects'), el('ul', {}, this.node(tree))),
        el('section', { class: 'card' }, el('h2', {}, 'Conditions'), this.conditions(conditions))));
    }
    if (this.tab === 'revisions' && this.changed('panel', [history, historyError])) replace(this.panel, this.revisions(history, historyError));
    if (this.tab === 'events' && this.changed('panel', [events, eventsError])) replace(this.panel, this.events(events, eventsError));
    if (this.tab === 'drift' && this.changed('panel', '')) replace(this.panel, el('p', { class: 'dim', role: 'status' }, 'Comparing the live objects with their desired state…'));
  }

  why(why) {
    if (why.error) return el('section', { class: 'card why' }, el('h2', {}, 'Why'), el('p', { class: 'notice' }, why.error));
    const notes = (why.notes ?? []).map((note) => el('p', { class: 'note' }, note));
    if (why.verdict === 'ready') return notes.length ? el('section', { class: 'card why', 'data-state': 'ready' }, notes) : undefined;
    const last = why.steps.length - 1;
    const steps = why.steps.map((step, i) => el('li', { class: i === last ? 'cause' : undefined },
      el('p', { class: 'object' }, i === last && last > 0 && el('span', { class: 'tag' }, 'Cause'), step.kind + '/' + step.name),
      step.text && step.text !== why.steps[i - 1]?.text && el('p', {}, step.text)));
    return el('section', { class: 'card why', 'data-state': why.verdict },
      el('h2', {}, why.verdict === 'person' ? 'Why it needs a person' : 'What it waits for'),
      el('ol', { class: 'steps' }, steps),
      why.commands && el('div', { class: 'next' }, el('h3', {}, 'Next'), why.commands.map((command) => this.command(command))), notes);
  }

  command(text) {
    const button = el('button', {
      type: 'button', class: 'quiet', 'data-key': 'copy ' + text, 'aria-label': 'Copy the command ' + text, click: async () => {
        await navigator.clipboard.writeText(text);
        button.textContent = 'Copied';
        setTimeout(() => (button.textContent = 'Copy'), 1500);
      },
    }, 'Copy');
    return el('div', { class: 'command' }, el('code', {}, text), button);
  }

  conditions(conditions) {
    if (conditions.length === 0) return el('p', { class: 'dim' }, 'The operator has not reported about the object yet.');
    return el('ul', { class: 'conditions' }, conditions.map((c) => el('li', {},
      el('p', {}, icon(toneOf(c)), el('strong', {}, c.type), el('span', { class: 'dim' }, c.status + ' · ' + c.reason), time(c.since)),
      c.message && el('p', { class: 'text' }, c.message))));
  }

  node(node) {
    const name = node.kind + '/' + node.name;
    return el('li', {},
      el('div', { class: 'node' }, icon(healths[node.health] ?? 'unknown'),
        node.id && node.id !== this.id ? el('a', { href: linkTo(node.id), 'data-key': node.id }, name) : el('span', { class: 'object' }, name),
        el('span', { class: 'dim' }, node.health, time(node.created, ' · ')),
        node.message && el('span', { class: 'text' }, node.message)),
      node.children && el('ul', {}, node.children.map((child) => this.node(child)), node.leftOut && el('li', { class: 'dim' }, 'More objects: kubectl demoapp tree')));
  }

  revisions(history, error) {
    const notice = error && el('p', { class: 'notice' }, error + '; the list has only what the status tells');
    if (history.length === 0) return el('div', {}, notice, el('p', { class: 'empty' }, 'The object has no release.'));
    const lines = history.map((line, i) => {
      const before = history.slice(i + 1).find((other) => other.revision && other.revision < line.revision);
      const state = line.failed ? 'person' : line.deployed ? 'ready' : 'past';
      const place = el('div', { class: 'compared' });
      return el('li', { 'data-state': state }, el('div', { class: 'moment' }, icon(state),
        el('h2', {}, line.revision ? 'Revision ' + line.revision : line.action),
        line.deployed && badge('Deployed', 'ready'), line.failed && badge(line.outcome, 'person'), time(line.time, '', ' ago')),
      el('p', {}, [line.revision && line.action, !line.failed && line.outcome, line.chart].filter(Boolean).join(' · ')),
      el('p', { class: 'dim' }, [line.reason, line.by && 'by ' + line.by].filter(Boolean).join(' · ')),
      line.changed && el('ul', { class: 'chips' }, line.changed.map((path) => el('li', {}, path))),
      before && line.revision && el('button', {
        type: 'button', 'data-key': 'compare ' + line.revision, 'aria-expanded': 'false',
        click: (event) => this.compare(event.currentTarget, place, before.revision, line.revision),
      }, 'Compare with revision ' + before.revision), place);
    });
    return el('div', {}, notice, el('ol', { class: 'timeline' }, lines));
  }

  async compare(button, place, from, to) {
    const open = button.getAttribute('aria-expanded') === 'true';
    button.setAttribute('aria-expanded', String(!open));
    if (open) {
      replace(place);
      return;
    }
    const key = from + ' ' + to;
    try {
      // Recorded revisions do not change.
      if (!this.compared.has(key)) this.compared.set(key, await get(`api/revisions?id=${encodeURIComponent(this.id)}&from=${from}&to=${to}`));
      replace(place, drawComparison(this.compared.get(key), 'revision ' + from, 'revision ' + to, 'The revisions are equal.', 'h3'));
    } catch (error) {
      replace(place, el('p', { class: 'notice' }, error.message));
    }
  }

  // readDrift compares again after each change, one comparison at a time.
  async readDrift() {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    let drawn;
    try {
      const comparison = await get('api/drift?id=' + encodeURIComponent(this.id));
      const equal = `No drift: ${comparison.compared} ${comparison.compared === 1 ? 'object is' : 'objects are'} as desired.`;
      drawn = [JSON.stringify(comparison), () => drawComparison(comparison, 'live', 'desired', equal, 'h2')];
    } catch (error) {
      drawn = [error.message, () => el('p', { class: 'notice' }, error.message)];
    }
    this.reading = false;
    if (this.tab === 'drift' && this.changed('panel', drawn[0])) replace(this.panel, drawn[1]());
    if (this.again) {
      this.again = false;
      if (this.tab === 'drift' && this.panel.isConnected) this.readDrift();
    }
  }

  events(events, error) {
    if (error) return el('p', { class: 'notice' }, error);
    if (events.length === 0) return el('p', { class: 'empty' }, 'There are no recent events.');
    return el('ul', { class: 'events' }, events.map((event) => el('li', {},
      icon(event.warning ? 'waits' : 'past'),
      el('div', {}, el('p', {}, el('strong', {}, event.reason), event.warning && badge('Warning', 'waits'),
        el('span', { class: 'dim' }, event.object, event.count > 1 && ` · ${event.count} times`)), el('p', { class: 'text' }, event.message)),
      time(event.time))));
  }
}

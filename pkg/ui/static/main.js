// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The frame of the page: the route in the fragment of the URL, one stream for the view that is
// shown, and the keyboard.

import { AppView } from './app.js';
import { el, refreshAges } from './dom.js';
import { ListView } from './list.js';
import { Stream, takeToken } from './net.js';

const main = document.getElementById('main');
const help = document.getElementById('help');
const texts = { connecting: 'Connecting', live: 'Live', lost: 'Reconnecting', refused: 'Not connected' };

const list = new ListView();
let view;
let stream;

function showState(state, error) {
  document.getElementById('live').dataset.state = state;
  document.getElementById('live-text').textContent = texts[state];
  if (state === 'refused') view.failed(error);
}

function setStream(path, message) {
  stream?.close();
  showState('connecting');
  stream = new Stream(path, { message, state: showState });
  return stream;
}

function openList(query) {
  view = list;
  document.title = 'Objects · DemoApp';
  list.show(main, query);
  const lastId = list.lastId;
  const opened = setStream('api/apps', (_, message) => {
    list.take(message);
    showWhere(message);
    list.lastId = opened.lastId;
  });
  opened.lastId = lastId;
}

function showWhere(message) {
  if (message.context === undefined) return;
  const scope = message.namespace ? 'namespace ' + message.namespace : 'all namespaces';
  document.getElementById('where').replaceChildren(el('strong', {}, message.context), ' · ' + scope);
}

function openApp(id, tab) {
  if (view instanceof AppView && view.id === id) {
    view.select(tab);
    return;
  }
  const app = new AppView(id, tab, list.apps.get(id));
  view = app;
  document.title = id.split('/').pop() + ' · DemoApp';
  app.show(main);
  setStream('api/app?id=' + encodeURIComponent(id), (event, message) => {
    if (event === 'app') app.take(message);
    else app.failed(new Error(message.error));
  });
  window.scrollTo(0, 0);
}

function route() {
  const [path, query] = location.hash.slice(1).split('?');
  const parts = path.split('/').map(decodeURIComponent);
  if (parts[1] === 'app' && parts.length >= 5) openApp(parts.slice(2, 5).join('/'), parts[5]);
  else if (view !== list || !list.isQuery(query)) openList(query);
}

function onKey(event) {
  const typing = event.target.closest?.('input, select, textarea, dialog');
  if (event.key === 'Escape' && typing?.matches('input')) {
    typing.blur();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '?') help.showModal();
  else if (!view.key(event.key)) return;
  event.preventDefault();
}

takeToken();
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById('help-button').addEventListener('click', () => help.showModal());
document.addEventListener('keydown', onKey);
window.addEventListener('hashchange', () => {
  takeToken();
  route();
});
setInterval(refreshAges, 5000);
route();

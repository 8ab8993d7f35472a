// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Requests with the token, and streams of server-sent events. EventSource cannot send a header, so
// the stream is read with fetch.

const storageKey = 'demoapp-ui-token';

// takeToken moves the token from the URL into the storage of this origin, which has the port. So
// other tabs have it, and the URL in the history does not.
export function takeToken() {
  const match = location.hash.match(/^#token=([A-Za-z0-9]+)$/);
  if (!match) return;
  localStorage.setItem(storageKey, match[1]);
  history.replaceState(null, '', location.pathname + '#/');
}

const headers = () => ({ Authorization: 'Bearer ' + (localStorage.getItem(storageKey) ?? '') });

// errorOf returns the error that an answer names.
async function errorOf(response) {
  const answer = await response.json().catch(() => ({}));
  const error = new Error(answer.error || response.statusText);
  error.status = response.status;
  return error;
}

// get reads a value.
export async function get(path, signal) {
  const response = await fetch(path, { headers: headers(), signal });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

// post asks for a change.
export async function post(path, value) {
  const response = await fetch(path, {
    method: 'POST', headers: { ...headers(), 'Content-Type': 'application/json' }, body: JSON.stringify(value),
  });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

const firstDelay = 500;
const maxDelay = 15000;
// The server sends a comment at least every 15 seconds.
const deadAfter = 40000;

// Stream follows a path. It reconnects with a growing delay, and rests while the tab is hidden,
// because a browser has few connections to a server.
export class Stream {
  constructor(path, { message, state }) {
    Object.assign(this, { path, message, state, lastId: '', delay: firstDelay, closed: false });
    this.onVisible = () => (document.hidden ? this.rest() : this.connect());
    document.addEventListener('visibilitychange', this.onVisible);
    if (!document.hidden) this.connect();
  }

  close() {
    this.closed = true;
    document.removeEventListener('visibilitychange', this.onVisible);
    this.rest();
  }

  rest() {
    clearTimeout(this.retry);
    clearTimeout(this.watchdog);
    this.abort?.abort();
    this.abort = undefined;
  }

  async connect() {
    if (this.closed || this.abort) return;
    clearTimeout(this.retry);
    const abort = (this.abort = new AbortController());
    let failure;
    try {
      await this.read(abort);
    } catch (error) {
      failure = error;
    }
    clearTimeout(this.watchdog);
    if (this.closed || this.abort !== abort) return;
    this.abort = undefined;
    if (failure?.status && failure.status !== 503) {
      this.state('refused', failure);
      return;
    }
    this.state('lost', failure);
    this.retry = setTimeout(() => this.connect(), this.delay);
    this.delay = Math.min(this.delay * 2, maxDelay);
  }

  async read(abort) {
    const alive = () => {
      clearTimeout(this.watchdog);
      this.watchdog = setTimeout(() => abort.abort(), deadAfter);
    };
    alive();
    const sent = headers();
    if (this.lastId) sent['Last-Event-ID'] = this.lastId;
    const response = await fetch(this.path, { headers: sent, signal: abort.signal });
    if (!response.ok) throw await errorOf(response);
    this.delay = firstDelay;
    this.state('live');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      blocks.forEach((block) => this.take(block));
    }
  }

  // take handles one event of the stream.
  take(block) {
    const event = {};
    for (const line of block.split('\n')) {
      const colon = line.indexOf(': ');
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
    }
    if (event.data === undefined) return;
    this.message(event.event, JSON.parse(event.data));
    if (event.id) this.lastId = event.id;
  }
}

// What a request asks for: read from a query or an event's data, and carried out.
import { setTimeout as pause } from 'node:timers/promises';

export interface Work {
  sleepS: number;
  burnS: number;
}

/** What was asked for is not allowed; the message says what is. */
export class Refused extends Error {}

const MOST_S = new Map([['sleep', 20], ['burn', 5]]);
const DURATION = /^([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s)$/;

export function workOfQuery(query: unknown): Work {
  // A parameter named `query` takes the place of them all in this runtime.
  if (typeof query !== 'object' || query === null) throw new Refused('there is no parameter "query"; known are sleep and burn');
  return workOf(query);
}

export function workOfData(data: unknown): Work {
  if (data === undefined || data === null || data === '') return workOf({});
  if (typeof data !== 'object' || Array.isArray(data)) {
    throw new Refused('the event\'s data must be a JSON object, such as {"sleep": "1s"}');
  }
  return workOf(data);
}

function workOf(texts: object): Work {
  const asked = new Map<string, number>();
  for (const [name, text] of Object.entries(texts)) {
    const most = MOST_S.get(name);
    if (most === undefined) throw new Refused(`there is no parameter ${JSON.stringify(name)}; known are sleep and burn`);
    if (Array.isArray(text)) throw new Refused(`${name} is given ${text.length} times; once is allowed`);
    const form = typeof text === 'string' ? DURATION.exec(text) : null;
    const seconds = form ? Number(form[1]) / (form[2] === 'ms' ? 1000 : 1) : NaN;
    if (!(seconds <= most)) {
      throw new Refused(`${name} must be from 0s to ${most}s, such as 20ms or 1.5s, not ${JSON.stringify(text)}`);
    }
    asked.set(name, seconds);
  }
  return { sleepS: asked.get('sleep') ?? 0, burnS: asked.get('burn') ?? 0 };
}

/** Sleeps, then burns; returns how long each was, in seconds. */
export async function carryOut(asked: Work): Promise<{ sleptS: number; burnedS: number }> {
  let sleptS = 0;
  if (asked.sleepS > 0) {
    const began = performance.now();
    // Timers have whole milliseconds and may fire a little early.
    do await pause(Math.max(1, asked.sleepS * 1000 - (performance.now() - began)));
    while (performance.now() - began < asked.sleepS * 1000);
    sleptS = (performance.now() - began) / 1000;
  }
  return { sleptS, burnedS: asked.burnS > 0 ? burn(asked.burnS) : 0 };
}

/** Computes until the process has used so much processor time; nobody else is answered meanwhile. */
function burn(mostS: number): number {
  const began = process.cpuUsage();
  let state = 1;
  for (;;) {
    for (let i = 0; i < 4096; i += 1) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
    }
    const { user, system } = process.cpuUsage(began);
    if (user + system >= mostS * 1e6 || state === 0) return (user + system) / 1e6;
  }
}

// One instance of the function, as faas-js-runtime calls it.
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { CloudEvent, HTTP } from 'cloudevents';
import type { Context, StructuredReturn } from 'faas-js-runtime';
import { Refused, Work, carryOut, workOfData, workOfQuery } from './work';

const STRUCTURED = 'application/cloudevents+json';
const name = nameOf(process.env);
let wasAsked = false;
let inFlight = 0;

/** Answers one request. */
export async function handle(context: Context, event?: CloudEvent<unknown>): Promise<StructuredReturn> {
  const cold = !wasAsked;
  wasAsked = true;
  const headers = { 'x-instance': name, 'x-cold-start': String(cold) };
  inFlight += 1;
  try {
    const isEvent = meansEvent(context);
    if (isEvent) refuseIncomplete(context);
    const body = await answer(isEvent ? workOfData(event?.data) : workOfQuery(context.query ?? {}), cold);
    return isEvent ? inEvent(body, headers) : { statusCode: 200, headers, body };
  } catch (wrong) {
    if (!(wrong instanceof Refused)) throw wrong;
    return { statusCode: 400, headers, body: { error: wrong.message } };
  } finally {
    inFlight -= 1;
  }
}

/** The runtime ends the process once this is done: what has begun is answered first, and given the time to be sent. */
export async function shutdown(): Promise<void> {
  while (inFlight > 0) await pause(10);
  await pause(50);
}

async function answer(asked: Work, cold: boolean): Promise<object> {
  const { sleptS, burnedS } = await carryOut(asked);
  return {
    runtime: 'typescript', instance: name, cold,
    uptime_s: process.uptime(), slept_s: sleptS, burned_s: burnedS,
  };
}

/** Whether a request means to be a CloudEvent. The runtime takes one that it cannot read for a plain request. */
function meansEvent({ headers }: Context): boolean {
  return 'ce-specversion' in headers || (headers['content-type'] ?? '').startsWith(STRUCTURED);
}

/** The library makes up an id that is missing, and takes any version. */
function refuseIncomplete({ body, cloudevent, headers }: Context): void {
  if (!cloudevent) throw new Refused('not a CloudEvent: it cannot be read');
  const isStructured = (headers['content-type'] ?? '').startsWith(STRUCTURED);
  const sent = isStructured ? JSON.parse(body as string) : { id: headers['ce-id'], specversion: headers['ce-specversion'] };
  if (!sent.id) throw new Refused('not a CloudEvent: id is required');
  if (sent.specversion !== '1.0') throw new Refused(`CloudEvents of version 1.0 are answered, not ${sent.specversion}`);
}

function inEvent(data: object, headers: Record<string, string>): StructuredReturn {
  const message = HTTP.binary(new CloudEvent({
    type: 'towtank.function.answer', source: '/functions/typescript', datacontenttype: 'application/json', data,
  }));
  return { statusCode: 200, headers: { ...(message.headers as Record<string, string>), ...headers }, body: message.body as string };
}

function nameOf(variables: NodeJS.ProcessEnv): string {
  if (variables.INSTANCE) return variables.INSTANCE;
  if (variables.HOSTNAME && variables.KUBERNETES_SERVICE_HOST) return variables.HOSTNAME;
  return `typescript-${randomBytes(8).toString('hex')}`;
}

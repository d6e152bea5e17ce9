// One GET again and again: a closed load of VUS users, or RATE arrivals a second.
import http from 'k6/http';

const { TARGET, VUS, DURATION, RATE, ITERATIONS } = __ENV;
const users = Number(VUS);

const closed = ITERATIONS
  ? { executor: 'per-vu-iterations', vus: users, iterations: Number(ITERATIONS), gracefulStop: '1s' }
  : { executor: 'constant-vus', vus: users, duration: DURATION, gracefulStop: '1s' };
const open = {
  executor: 'constant-arrival-rate', rate: Number(RATE), timeUnit: '1s', duration: DURATION,
  preAllocatedVUs: users, maxVUs: users, gracefulStop: '1s',
};

export const options = {
  scenarios: { get: RATE ? open : closed },
  discardResponseBodies: true,
  systemTags: ['status'],
  summaryTrendStats: ['med', 'p(99)', 'p(99.9)'],
};

export default function () {
  http.get(TARGET);
}

export function handleSummary({ metrics }) {
  const values = (name) => (metrics[name] ? metrics[name].values : {});
  return {
    stdout: JSON.stringify({
      requests: values('http_reqs').count || 0,
      failed: values('http_req_failed').passes || 0,
      dropped: values('dropped_iterations').count || 0,
      duration: values('http_req_duration'),
    }),
  };
}

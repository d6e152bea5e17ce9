// The shop journey of benchmarks/scenarios/shop.py: home once, then tasks by weight, without waits.
import http from 'k6/http';

const { TARGET, VUS, DURATION, ITERATIONS } = __ENV;
const shop = TARGET.replace(/\/$/, '');
const PRODUCTS = [
  '0PUK6V6EV0', '1YMWWN1N4O', '2ZYFJ3GM2N', '66VCHSJNUP', '6E92ZMYYFZ', '9SIQT8TOJO', 'L9ECAV7KIM',
  'LS4PSXUNUM', 'OLJCESPC7Z',
];
const CURRENCIES = ['EUR', 'USD', 'JPY', 'CAD', 'GBP', 'TRY'];
const TASKS = [[1, home], [2, currency], [10, product], [2, add], [3, cart], [1, checkout]];
const TOTAL = TASKS.reduce((sum, [weight]) => sum + weight, 0);
const TEXT = { responseType: 'text' };

export const options = {
  scenarios: {
    shop: ITERATIONS
      ? { executor: 'per-vu-iterations', vus: Number(VUS), iterations: Number(ITERATIONS), gracefulStop: '1s' }
      : { executor: 'constant-vus', vus: Number(VUS), duration: DURATION, gracefulStop: '1s' },
  },
  discardResponseBodies: true,
  noCookiesReset: true,
  systemTags: ['status', 'name'],
  summaryTrendStats: ['med', 'p(99)'],
};

const at = (name) => ({ tags: { name } });
const textAt = (name) => ({ ...TEXT, tags: { name } });
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const PRODUCT = at('product');
const PRODUCT_FORM = textAt('product-form');
const CART_FORM = textAt('cart-form');
const AT = ['home', 'currency', 'cart', 'add-to-cart', 'checkout'].reduce((all, n) => ({ ...all, [n]: at(n) }), {});

// the value of a hidden field; a search for text is the cheapest way that k6 has
function field(body, name) {
  const mark = `name="${name}" value="`;
  const from = body.indexOf(mark) + mark.length;
  return body.substring(from, body.indexOf('"', from));
}

function home() { http.get(`${shop}/`, AT.home); }
function currency() { http.post(`${shop}/setCurrency`, { currency_code: pick(CURRENCIES) }, AT.currency); }
function product() { http.get(`${shop}/product/${pick(PRODUCTS)}`, PRODUCT); }
function cart() { http.get(`${shop}/cart`, AT.cart); }

function add() {
  const { body } = http.get(`${shop}/product/${pick(PRODUCTS)}`, PRODUCT_FORM);
  if (!body) return; // nobody answered: k6 has counted it
  const form = {
    csrf_token: field(body, 'csrf_token'),
    product_id: field(body, 'product_id'),
    quantity: String(1 + Math.floor(Math.random() * 5)),
  };
  http.post(`${shop}/cart`, form, AT['add-to-cart']);
}

function checkout() {
  add();
  const { body } = http.get(`${shop}/cart`, CART_FORM);
  if (!body) return;
  const form = { csrf_token: field(body, 'csrf_token'), email: 'someone@example.com' };
  http.post(`${shop}/cart/checkout`, form, AT.checkout);
}

let arrived = false;

export default function () {
  if (!arrived) {
    home();
    arrived = true;
  }
  let drawn = Math.random() * TOTAL;
  for (const [weight, task] of TASKS) {
    drawn -= weight;
    if (drawn < 0) return task();
  }
}

export function handleSummary({ metrics }) {
  return {
    stdout: JSON.stringify({
      requests: metrics.http_reqs ? metrics.http_reqs.values.count : 0,
      failed: metrics.http_req_failed ? metrics.http_req_failed.values.passes : 0,
    }),
  };
}

// Script for k6: requests at a constant rate, however slow the answers are (open loop), each answer checked.
//
// Environment (benchstudy.families.http_concurrency.command writes it):
//   BENCHSTUDY_HTTP_URL       "{{n}}" in it becomes a number that is unique to a request
//   BENCHSTUDY_HTTP_FIRST     the first of those numbers
//   BENCHSTUDY_HTTP_STATUS    the status a good answer has
//   BENCHSTUDY_HTTP_RATE      requests per second, may be a fraction
//   BENCHSTUDY_HTTP_DURATION  seconds
//   BENCHSTUDY_HTTP_TIMEOUT   seconds that an answer may take
//   BENCHSTUDY_HTTP_VUS       maximum of requests in flight; an arrival without a free VU is dropped and counted
// and optionally
//   BENCHSTUDY_HTTP_HEADERS   "Name: value" lines; in the environment, so that a secret is in no argument list
//   BENCHSTUDY_HTTP_LENGTH    bytes of a good answer's body
//   BENCHSTUDY_HTTP_TEXT      what a good answer's body contains

import http from 'k6/http';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';

const setting = (name, otherwise) => __ENV[`BENCHSTUDY_HTTP_${name}`] || otherwise;
const number = (name) => Number(setting(name));
const HEADERS = setting('HEADERS', '').split('\n').filter((line) => line !== '');

const RATE = number('RATE');
const DURATION_S = number('DURATION');
const VUS = number('VUS');
const TIMEOUT_S = number('TIMEOUT');
const FIRST = number('FIRST');
const STATUS = number('STATUS');
const LENGTH = setting('LENGTH') === undefined ? null : number('LENGTH');
const TEXT = setting('TEXT', null);
const ADDRESS = setting('URL').split('{{n}}');

// k6 takes whole numbers of arrivals in so long: the shortest time in which the rate is one. Rates a minute and with
// three decimals are, to the last digit that a double of them has.
const UNIT_S = [1, 60, 1000, 60000].find((unit) => {
  const arrivals = RATE * unit;
  return Math.abs(arrivals - Math.round(arrivals)) <= 1e-9 * arrivals;
});
if (UNIT_S === undefined) throw new Error(`k6 cannot send exactly ${RATE} requests per second`);
// k6 keeps each value, so a fine distribution costs nothing while load is made. Steps of 0.1 %, finer at the end.
const PERCENTS = Array.from({ length: 1001 }, (_, tenth) => tenth / 10).concat([99.95, 99.99, 99.999]);

export const options = {
  scenarios: {
    load: {
      executor: 'constant-arrival-rate',
      rate: Math.round(RATE * UNIT_S),
      timeUnit: `${UNIT_S}s`,
      duration: `${DURATION_S * 1000}ms`,
      preAllocatedVUs: VUS,
      maxVUs: VUS,
      gracefulStop: `${TIMEOUT_S * 1000 + 1000}ms`,
    },
  },
  // A tag on each sample is work for the generator, and nothing reads them.
  systemTags: [],
  summaryTrendStats: ['count', 'min', 'max', 'avg', 'med'].concat(PERCENTS.map((percent) => `p(${percent})`)),
  discardResponseBodies: LENGTH === null && TEXT === null,
  insecureSkipTLSVerify: false,
};

const latency = new Trend('latency', true);
const lateness = new Trend('lateness', true);
const afterwards = new Counter('good_after_load');
const wrong = {
  status: new Counter('errors_status'),
  length: new Counter('errors_length'),
  text: new Counter('errors_text'),
  timeout: new Counter('errors_timeout'),
  connect: new Counter('errors_connect'),
};

const PARAMETERS = {
  headers: Object.fromEntries(
    HEADERS.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    })
  ),
  redirects: 0,
  timeout: `${TIMEOUT_S * 1000}ms`,
  responseType: LENGTH === null && TEXT === null ? 'none' : TEXT === null ? 'binary' : 'text',
};
const TIMED_OUT = [1050, 1211];
// The script's clock has whole milliseconds, and so has the start of the scenario: less than this is not seen.
const BLUR_MS = 2;

// k6 needs no answer to decide whether a request failed; `judge` does.
http.setResponseCallback(null);

export default function () {
  const scenario = exec.scenario;
  const arrival = scenario.iterationInTest;
  const late = Date.now() - scenario.startTime - (arrival * 1000) / RATE;
  const response = http.get(ADDRESS.join(FIRST + arrival), PARAMETERS);
  const { blocked, connecting, tls_handshaking, duration } = response.timings;
  lateness.add(late);
  const fault = judge(response);
  // From when it was meant to start, so that a generator that falls behind cannot make the server look fast. A refused
  // connection takes k6 0 ms, which is no latency.
  const waited = (late >= BLUR_MS ? late : 0) + Math.max(blocked, connecting + tls_handshaking) + duration;
  if (fault !== 'connect') latency.add(waited);
  if (fault !== null) wrong[fault].add(1);
  // Throughput is of the time in which requests were started, or one slow answer at the end would lower it.
  else if (Date.now() - scenario.startTime > DURATION_S * 1000) afterwards.add(1);
}

function judge(response) {
  if (response.status === 0) return TIMED_OUT.includes(response.error_code) ? 'timeout' : 'connect';
  if (response.status !== STATUS) return 'status';
  if (TEXT !== null) {
    if (!response.body.includes(TEXT)) return 'text';
    // Length is in bytes, and a text has characters: only what the server announced can be compared.
    if (LENGTH !== null && Number(response.headers['Content-Length']) !== LENGTH) return 'length';
  } else if (LENGTH !== null && response.body.byteLength !== LENGTH) return 'length';
  return null;
}

// For metrics that benchstudy does not read, k6's usual figures are enough.
const FINE = ['latency', 'http_req_duration'];
const COARSE = ['count', 'min', 'max', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)'];

function shortened(metrics) {
  const kept = {};
  for (const [name, metric] of Object.entries(metrics)) {
    const values = Object.entries(metric.values);
    const few = metric.type === 'trend' && !FINE.includes(name);
    kept[name] = { ...metric, values: Object.fromEntries(values.filter(([key]) => !few || COARSE.includes(key))) };
  }
  return kept;
}

// Milliseconds to the nanosecond; the rest of a double is noise. Not of the rate, which is the study's.
const rounded = (name, value) => (typeof value === 'number' && name !== 'rate' ? Number(value.toFixed(6)) : value);

export function handleSummary(data) {
  const load = { rate: RATE, duration_s: DURATION_S, vus: VUS, status: STATUS, length: LENGTH, text: TEXT !== null };
  const made = data.metrics.iterations ? data.metrics.iterations.values.count : 0;
  return {
    'k6-summary.json': JSON.stringify(
      { benchstudy: 'k6', format: 1, load, metrics: shortened(data.metrics), state: data.state },
      rounded
    ),
    stdout: `${made} requests, see k6-summary.json\n`,
  };
}

-- Script for wrk 4: requests as the environment says, each answer checked, one line of JSON at the end.
--
-- Environment (benchstudy.families.http_concurrency.command writes it):
--   BENCHSTUDY_HTTP_PATH     "{{n}}" in it becomes a number that is unique to a request
--   BENCHSTUDY_HTTP_FIRST    the first of those numbers
--   BENCHSTUDY_HTTP_STATUS   the status a good answer has
--   BENCHSTUDY_HTTP_THREADS, BENCHSTUDY_HTTP_CONNECTIONS   what wrk is given with -t and -c; the threads of all of
--                            them where several clients load, so that no number comes twice
-- and optionally
--   BENCHSTUDY_HTTP_HEADERS  "Name: value" lines; in the environment, so that a secret is in no argument list
--   BENCHSTUDY_HTTP_LENGTH   bytes of a good answer's body
--   BENCHSTUDY_HTTP_TEXT     what a good answer's body contains
--   BENCHSTUDY_HTTP_CHECK    "none" skips the check of responses (wrk itself then counts statuses above 399), which
--                            saves about a microsecond per response

local function setting(name)
   local value = os.getenv("BENCHSTUDY_HTTP_" .. name)
   return value ~= "" and value or nil
end

local threads_asked = tonumber(setting("THREADS"))
local connections = tonumber(setting("CONNECTIONS"))
local wanted_status = tonumber(setting("STATUS"))
local wanted_length = tonumber(setting("LENGTH") or "")
local wanted_text = setting("TEXT")

wrk.path = setting("PATH")
for header in (setting("HEADERS") or ""):gmatch("[^\n]+") do
   local name, value = header:match("^([^:]+):%s*(.-)%s*$")
   if name then wrk.headers[name] = value end
end

-- What a thread counts. Globals, because wrk lets the main state read only those.
statuses, wrong_status, wrong_length, wrong_text = {}, 0, 0, 0

-- --- requests ----------------------------------------------------------------------------------------------

local marker = "{{n}}"

-- wrk renders a request once when there is no `request`, which is the fastest.
if wrk.path:find(marker, 1, true) then
   local before, after, number

   function init()
      local whole = wrk.format()
      local from, to = whole:find(marker, 1, true)
      before, after = whole:sub(1, from - 1), whole:sub(to + 1)
      -- wrk asks each thread's state for requests, but first takes one from thread 0 that it never sends.
      number = tonumber(setting("FIRST")) + thread_index
   end

   function request()
      local rendered = before .. string.format("%d", number) .. after
      number = number + threads_asked
      return rendered
   end
end

-- --- answers -----------------------------------------------------------------------------------------------

if setting("CHECK") ~= "none" then
   function response(status, _, body)
      statuses[status] = (statuses[status] or 0) + 1
      if status ~= wanted_status then
         wrong_status = wrong_status + 1
      elseif wanted_length and #body ~= wanted_length then
         wrong_length = wrong_length + 1
      elseif wanted_text and not body:find(wanted_text, 1, true) then
         wrong_text = wrong_text + 1
      end
   end
end

-- --- summary -----------------------------------------------------------------------------------------------

local threads = {}

function setup(thread)
   thread:set("thread_index", #threads)
   threads[#threads + 1] = thread
end

-- wrk keeps how many answers took each number of microseconds, and before it reports adds answers that it thinks a
-- stalled connection would have had ("correction" for coordinated omission). That is undone here, exactly, from the
-- longest time down: each count was added at all whole intervals below it. Without an interval, wrk added none. Returns
-- counts by microsecond, or nil where wrk does not keep them as version 4 does.
local function recorded(latency, interval)
   local has_ffi, ffi = pcall(require, "ffi")
   if not has_ffi then return nil end
   local held = ffi.cast("uint64_t **", ffi.cast("void *", latency))[0]
   local shortest, longest = tonumber(held[2]), tonumber(held[3])
   if shortest ~= latency.min or longest ~= latency.max or tonumber(held[1]) <= longest then return nil end
   local counts, total = {}, 0
   for us = shortest, longest do
      local count = tonumber(held[4 + us])
      counts[us] = count
      total = total + count
   end
   if total ~= tonumber(held[0]) then return nil end
   if not interval then return counts, shortest, longest end
   -- Added ones can lie below the shortest, where wrk itself overlooks them.
   for us = longest, interval * 2, -1 do
      local count = counts[us] or 0
      local below = us - interval
      while count > 0 and below > interval do
         if counts[below] then counts[below] = counts[below] - count end
         below = below - interval
      end
   end
   return counts, shortest, longest
end

-- Bins of one microsecond up to 128, above that 64 to each power of two: no wider than 1.6 %.
local function bin_width(us)
   local width = 1
   while us >= width * 128 do width = width * 2 end
   return width
end

-- The counts as JSON; nil unless they are whole: an answer later than wrk's timeout is counted, but not timed.
local function digest(counts, shortest, longest, expected)
   local total, sum, squares, least, greatest = 0, 0, 0, nil, 0
   local bins, upper = {}, -1
   for us = shortest, longest do
      local count = counts[us]
      if count < 0 then return nil end
      if count > 0 then
         least, greatest = least or us, us
         total, sum, squares = total + count, sum + count * us, squares + count * us * us
         if us >= upper then
            local width = bin_width(us)
            local lower = us - us % width
            upper = lower + width
            bins[#bins + 1] = { lower, upper, 0 }
         end
         bins[#bins][3] = bins[#bins][3] + count
      end
   end
   if total == 0 or total ~= expected then return nil end
   local mean = sum / total
   local sd = total > 1 and math.sqrt(math.max(0, (squares - total * mean * mean) / (total - 1))) or 0
   local percentiles, seen, us = {}, 0, shortest - 1
   local function at(percent)
      local rank = math.max(1, math.ceil(percent / 100 * total - 1e-9))
      while seen < rank do
         us = us + 1
         seen = seen + counts[us]
      end
      percentiles[#percentiles + 1] = string.format("[%g,%d]", percent, us)
   end
   for percent = 0, 99 do at(percent) end
   for tenth = 1, 9 do at(99 + tenth / 10) end
   at(99.99)
   at(100)
   for index, bin in ipairs(bins) do bins[index] = string.format("[%d,%d,%d]", bin[1], bin[2], bin[3]) end
   return string.format(
      '{"count":%d,"mean":%.6f,"sd":%.6f,"min":%d,"max":%d,"percentiles":[%s],"bins":[%s]}',
      total, mean, sd, least, greatest, table.concat(percentiles, ","), table.concat(bins, ",")
   )
end

function done(summary, latency)
   local by_status, wrong = {}, { status = 0, length = 0, text = 0 }
   for _, thread in ipairs(threads) do
      for status, count in pairs(thread:get("statuses")) do by_status[status] = (by_status[status] or 0) + count end
      for what in pairs(wrong) do wrong[what] = wrong[what] + thread:get("wrong_" .. what) end
   end
   local shown = {}
   for status, count in pairs(by_status) do shown[#shown + 1] = string.format('"%d":%d', status, count) end
   table.sort(shown)
   -- The interval that wrk corrected with, by its own whole-number arithmetic; none with fewer answers than connections.
   local each = math.floor(summary.requests / connections)
   local interval = each > 0 and math.floor(summary.duration / each) or nil
   local own, counts, shortest, longest = "null", nil, nil, nil
   if summary.requests > 0 then counts, shortest, longest = recorded(latency, interval) end
   local errors = summary.errors
   if counts then own = digest(counts, shortest, longest, summary.requests - errors.timeout) or "null" end
   io.write(string.format(
      '{"benchstudy":"wrk","format":1,"threads":%d,"connections":%d,"duration_us":%d,"requests":%d,"bytes":%d,'
         .. '"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d},"checked":%s,"statuses":{%s},'
         .. '"wrong":{"status":%d,"length":%d,"text":%d},"latency_us":%s}\n',
      #threads, connections, summary.duration, summary.requests, summary.bytes,
      errors.connect, errors.read, errors.write, errors.timeout, errors.status,
      response and "true" or "false", table.concat(shown, ","),
      wrong.status, wrong.length, wrong.text, own
   ))
end

-- Sends batches of pipelined requests, and prints the results as one line of JSON, because wrk's own
-- output is rounded and ends at 99 %. There is no response(), which would disable wrk's fast path.

function init(args)
  local depth = tonumber(args[1]) or 1
  if depth > 1 then
    local batch = string.rep(wrk.format(), depth)
    request = function() return batch end
  end
end

local NAMED = { p50 = 50, p90 = 90, p99 = 99, p99_9 = 99.9 }
local SHARES = {} -- of the samples, in percent: the rows of the histogram
for i = 1, 198 do SHARES[i] = i / 2 end
for i = 1, 18 do SHARES[#SHARES + 1] = 99 + i / 20 end
for i = 1, 10 do SHARES[#SHARES + 1] = 99.9 + i / 100 end

-- In pipelined runs, wrk counts more samples than it has, and returns 0 for ranks beyond them. So all
-- percentiles are scaled by the share of its count that exists. Iterating over the samples instead would
-- take minutes, because each access starts at the first one.
local function share_counted(latency)
  local low, high = 0, 1
  for _ = 1, 40 do
    local middle = (low + high) / 2
    if latency:percentile(100 * middle) > 0 then low = middle else high = middle end
  end
  return low
end

local function at(latency, counted, percent)
  return percent < 100 and latency:percentile(percent * counted) or latency.max
end

local function percentiles(latency, counted)
  local words = {}
  for name, percent in pairs(NAMED) do
    words[#words + 1] = string.format('"%s":%d,', name, at(latency, counted, percent))
  end
  return table.concat(words)
end

local function histogram(latency, counted, requests)
  local rows, value, written = {}, 0, 0
  local function close_row(until_here)
    if until_here > written then
      rows[#rows + 1] = string.format("[%d,%d]", value, until_here - written)
      written = until_here
    end
  end
  local before = 0
  for _, percent in ipairs(SHARES) do
    local found = at(latency, counted, percent)
    if found > value then close_row(before) end
    value, before = found, math.floor(requests * percent / 100 + 0.5)
  end
  close_row(requests)
  return "[" .. table.concat(rows, ",") .. "]"
end

function done(summary, latency, requests)
  local e = summary.errors
  local counted = summary.requests > 0 and share_counted(latency) or 0
  local rows, words, mean = "[]", "", 0
  if counted > 0 then
    rows = histogram(latency, counted, summary.requests)
    words, mean = percentiles(latency, counted), latency.mean / counted
  end
  io.write(string.format(
    'bolide-wrk: {"requests":%d,"seconds":%.6f,"bytes":%d,"errors":{"connect":%d,"read":%d,'
      .. '"write":%d,"timeout":%d,"wrong_status":%d},"latency_us":{%s"mean":%.3f,"max":%d},'
      .. '"histogram":%s}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, e.connect, e.read, e.write,
    e.timeout, e.status, words, mean, latency.max, rows))
end

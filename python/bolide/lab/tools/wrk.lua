-- Batches of pipelined requests, and the results as one line of JSON: wrk's page rounds, and stops
-- at 99 %. There is no response(): it would take wrk off its fast path.

function init(args)
  local depth = tonumber(args[1]) or 1
  if depth > 1 then
    local batch = string.rep(wrk.format(), depth)
    request = function() return batch end
  end
end

local STEP = 1.03 -- rows of the histogram: upper bounds grow by 3 %
local RANKS = { p50 = 0.5, p90 = 0.9, p99 = 0.99, p99_9 = 0.999 }

-- wrk's own percentile() gives 0 after pipelined runs, whose samples it counts wrongly.
local function percentiles(latency, total)
  local found, below = {}, 0
  for i = 1, #latency do
    local value, count = latency(i)
    below = below + count
    for name, share in pairs(RANKS) do
      if not found[name] and below >= share * total then found[name] = value end
    end
  end
  local words = {}
  for name, value in pairs(found) do words[#words + 1] = string.format('"%s":%d,', name, value) end
  return table.concat(words)
end

local function histogram(latency)
  local counts, order, total, sum = {}, {}, 0, 0
  for i = 1, #latency do
    local value, count = latency(i)
    local bucket = math.ceil(math.log(math.max(value, 1)) / math.log(STEP))
    if not counts[bucket] then order[#order + 1] = bucket end
    counts[bucket] = (counts[bucket] or 0) + count
    total, sum = total + count, sum + value * count
  end
  local rows = {}
  for i, bucket in ipairs(order) do
    rows[i] = string.format("[%d,%d]", math.floor(STEP ^ bucket), counts[bucket])
  end
  return "[" .. table.concat(rows, ",") .. "]", total, sum
end

function done(summary, latency, requests)
  local e = summary.errors
  local rows, total, sum = histogram(latency)
  io.write(string.format(
    'bolide-wrk: {"requests":%d,"seconds":%.6f,"bytes":%d,"errors":{"connect":%d,"read":%d,'
      .. '"write":%d,"timeout":%d,"wrong_status":%d},"latency_us":{%s"mean":%.3f,"max":%d},'
      .. '"histogram":%s}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, e.connect, e.read, e.write,
    e.timeout, e.status, percentiles(latency, total), total > 0 and sum / total or 0, latency.max,
    rows))
end

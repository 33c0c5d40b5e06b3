-- What every script begins with. Numbers are kept as decimal text: a double holds
-- them exactly up to 2^53, and nothing is computed that could be larger.

local LARGEST = 9007199254740991

local function num(text) return tonumber(text or '0') or 0 end

local function text(number)
  return string.format('%.0f', math.min(number, LARGEST))
end

-- Redis's own clock, in milliseconds and in microseconds.
local function clock()
  local t = redis.call('TIME')
  return num(t[1]) * 1000 + math.floor(num(t[2]) / 1000), num(t[1]) * 1000000 + num(t[2])
end

-- A journal's keys all stand in one slot, its bucket's: the journal's hash, its
-- stream, and the bucket's sorted sets. What changes no list is not given the lists.
local HEAD, RECORDS, VANISH, NAMES, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- A wake-up is a hint: where the user may not publish, readers look by themselves.
local function wake(channel, from)
  redis.pcall('PUBLISH', channel, from)
end

-- When Redis itself lets go, by its own clock, if no collection comes by: the
-- records after the keeping and the grace, what is remembered of them after as
-- long again. Both count anew from here; `at` is when that is by the writers' clocks.
-- An append does the same when `again` is past: see there.
local function outlive(key, keep, lease, lived, at, ms, grace)
  local kept = math.min(keep, LARGEST / 8)
  local span = kept + grace
  local again = text(num(at) + span / 8)
  if lease and lease ~= '' then
    span = span + math.max(0, math.min(num(lease) - ms, LARGEST / 8))
  end
  local whole = span + math.max(kept, math.min(lived, LARGEST / 8)) + grace
  redis.call('HSET', HEAD, 'ttl', text(ms + span), 'again', again)
  redis.call('PEXPIRE', RECORDS, text(span))
  redis.call('PEXPIRE', HEAD, text(whole))
  redis.call('ZADD', VANISH, text(ms + whole), key)
end

-- Leaves what is remembered of a journal, and removes the rest.
local function bury(key, gen, token, keep, lived, ends, kind, call, ms, grace)
  redis.call('DEL', HEAD, RECORDS)
  redis.call('HSET', HEAD, 'gen', gen, 'token', token, 'gone', kind,
    'until', text(ends), 'call', call)
  redis.call('ZREM', NAMES, key)
  redis.call('ZADD', DUE, text(ends), key)
  local span = math.max(math.min(keep, LARGEST / 8), math.min(lived, LARGEST / 8)) + grace
  redis.call('PEXPIRE', HEAD, text(span))
  redis.call('ZADD', VANISH, text(ms + span), key)
end

-- Whether the bucket knows of a journal whose hash is not there, and should be: it
-- was evicted, or removed by somebody else.
local function lost(key, ms)
  local vanish = redis.call('ZSCORE', VANISH, key)
  return vanish and ms < num(vanish)
end

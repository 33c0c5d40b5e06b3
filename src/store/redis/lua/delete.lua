-- ARGV key call grace channel
local key, call, grace = ARGV[1], ARGV[2], num(ARGV[3])
local ms = clock()
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'keep', 'made', 'at', 'gone', 'call', 'ttl')
if not h[1] then
  -- The rest of a journal whose hash was evicted.
  local was = lost(key, ms)
  redis.call('DEL', RECORDS)
  redis.call('ZREM', NAMES, key)
  redis.call('ZREM', DUE, key)
  redis.call('ZREM', VANISH, key)
  return was and 1 or 0
end
if h[6] then
  if h[6] == 'deleted' and h[7] == call then return 1 end
  return 0
end
local expires = num(h[5]) + num(h[3])
local lived = expires - num(h[4])
if ms >= num(h[8]) then
  bury(key, h[1], h[2], num(h[3]), lived, expires + lived, 'expired', call, ms, grace)
  return 0
end
bury(key, h[1], h[2], num(h[3]), lived, expires + lived, 'deleted', call, ms, grace)
wake(ARGV[4], call)
return 1

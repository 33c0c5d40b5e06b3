-- One journal that may be past its time: 0 left, 1 removed, 2 past it and held.
-- ARGV key now grace channel call
local key, now, grace = ARGV[1], num(ARGV[2]), num(ARGV[3])
local ms = clock()
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'keep', 'made', 'at', 'gone', 'until', 'lease', 'ttl')
if not h[1] then
  if lost(key, ms) then
    -- Evicted: whoever asks for it is told so for as long as it would have been kept.
    redis.call('ZREM', DUE, key)
    return 0
  end
  redis.call('DEL', RECORDS)
  redis.call('ZREM', NAMES, key)
  redis.call('ZREM', DUE, key)
  redis.call('ZREM', VANISH, key)
  return 0
end
if h[6] then
  if num(h[7]) <= now then
    redis.call('DEL', HEAD)
    redis.call('ZREM', DUE, key)
    redis.call('ZREM', VANISH, key)
  else
    redis.call('ZADD', DUE, h[7], key)
  end
  return 0
end
local expires = num(h[5]) + num(h[3])
local vanished = ms >= num(h[9])
if not vanished and expires > now then
  redis.call('ZADD', DUE, text(expires), key)
  return 0
end
if not vanished and h[8] ~= '' and now < num(h[8]) then return 2 end
local lived = math.max(0, now - num(h[4]))
bury(key, h[1], h[2], num(h[3]), lived, now + math.max(lived, num(h[3])), 'expired', '', ms, grace)
wake(ARGV[4], ARGV[5])
return 1

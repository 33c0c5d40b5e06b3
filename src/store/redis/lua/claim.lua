-- ARGV key fingerprint intent now lease keep call grace channel
local key, fp, intent, now, lease, keep, call = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local grace, channel = num(ARGV[8]), ARGV[9]
local ms, us = clock()
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'fp', 'lease', 'keep', 'at', 'status',
  'claim', 'gone', 'ttl', 'pend', 'head', 'bytes', 'earlier')
local gen, token, held_fp, held_lease, held_keep, at, status = h[1], h[2], h[3], h[4], h[5], h[6], h[7]
local gone, ttl, pend = h[9], h[10], h[11]

local function answer(word) return { word, redis.call('HGETALL', HEAD) } end

-- Higher than any before it, and, should Redis have lost what was before it, not
-- one that somebody else still holds.
local function next_token() return text(math.max(num(token) + 1, us)) end

local function begin(generation)
  -- A full Redis refuses the first write, and no later one.
  redis.call('HSET', HEAD, 'claim', call)
  redis.call('DEL', HEAD, RECORDS)
  local new = next_token()
  redis.call('HSET', HEAD, 'fp', fp, 'gen', generation, 'token', new,
    'fence', generation .. ' ' .. new, 'lease', lease, 'keep', keep, 'made', now, 'at', now, 'head', '0',
    'status', 'running', 'bytes', '0', 'earlier', '0', 'claim', call)
  redis.call('ZADD', NAMES, 0, key)
  redis.call('ZADD', DUE, text(num(now) + num(keep)), key)
  outlive(key, num(keep), lease, 0, now, ms, grace)
  -- What Redis let go by itself is still in the bucket's lists.
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', VANISH, '-inf', text(ms), 'LIMIT', 0, 4)) do
    redis.call('ZREM', NAMES, old)
    redis.call('ZREM', DUE, old)
    redis.call('ZREM', VANISH, old)
  end
  wake(channel, call)
  return answer('granted')
end

if not gen then
  if lost(key, ms) then return { 'lost' } end
  if intent ~= 'create' then return { 'never' } end
  return begin('1')
end
-- The answer to this very claim was lost on the way.
if not gone and h[8] == call then return answer('granted') end
local following = text(num(gen) + 1)
if gone then
  if intent ~= 'create' then return { gone } end
  if num(gen) >= 4294967295 then return { 'spent' } end
  return begin(following)
end
local held = held_lease ~= '' and num(now) < num(held_lease)
local vanished = ms >= num(ttl)
if intent == 'create' and (vanished or (num(at) + num(held_keep) <= num(now) and not held)) then
  if num(gen) >= 4294967295 then return { 'spent' } end
  return begin(following)
end
if vanished then return { 'expired' } end
if held_fp ~= fp then return { 'conflict' } end
if not held and pend then
  -- A writer died between the append and its acknowledgement. The write is for
  -- the replicas to be waited for.
  redis.call('HSET', HEAD, 'touch', call)
  return { 'pending', pend }
end
if intent == 'create' or held then return answer('existing') end
if intent == 'takeover' and status ~= 'running' and status ~= 'interrupted' then
  return answer('existing')
end
if intent == 'regenerate' and num(gen) >= 4294967295 then return { 'spent' } end
local new = next_token()
redis.call('HSET', HEAD, 'token', new, 'fence', gen .. ' ' .. new, 'lease', lease,
  'keep', keep, 'claim', call)
if intent == 'regenerate' then
  redis.call('HSET', HEAD, 'g:' .. gen, h[12], 'gen', following,
    'fence', following .. ' ' .. new, 'head', '0',
    'status', 'running', 'at', now, 'bytes', '0', 'earlier', text(num(h[14]) + num(h[13])))
  at = now
end
redis.call('ZADD', DUE, text(num(at) + num(keep)), key)
outlive(key, num(keep), lease, 0, now, ms, grace)
wake(channel, call)
return answer('granted')

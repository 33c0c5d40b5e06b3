-- The one script that is run for every append: it stands by itself, and defines
-- nothing that it does not need.
-- KEYS hash stream vanish
-- ARGV key fence id first last status now call grace channel frames [wait]
local key, fence, last, status, now, call = ARGV[1], ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local h = redis.call('HMGET', KEYS[1], 'fence', 'lease', 'head', 'at', 'bytes', 'call', 'pend',
  'again')
if not h[1] then return { 'removed' } end
local pend = h[7]
if h[6] == call then
  -- The answer to this very append was lost on the way.
  if not pend then return 0 end
  redis.call('HSET', KEYS[1], 'touch', call)
  return 1
end
if h[1] ~= fence then return { 'stale', string.match(h[1], '^(%d+) (%d+)$') } end
if h[2] == '' then return { 'back' } end
local head, at, bytes = h[3], h[4], h[5]
if pend then
  -- The append before this one was not acknowledged.
  local p_head, p_status, p_at, p_bytes = string.match(pend, '^(%d+) (%l+) (%d+) (%d+)$')
  if p_status ~= 'running' then return { 'back' } end
  head, at, bytes = p_head, p_at, p_bytes
end
if tonumber(ARGV[4]) ~= tonumber(head) + 1 then return { 'seq', head } end
local added
if head == '0' then
  added = redis.pcall('XADD', KEYS[2], ARGV[3], 'r', ARGV[11])
else
  added = redis.pcall('XADD', KEYS[2], 'NOMKSTREAM', ARGV[3], 'r', ARGV[11])
end
if not added then
  -- Redis let go of the records at their time, or lost them before it.
  local t = redis.call('TIME')
  if t[1] * 1000 + t[2] / 1000 >= tonumber(redis.call('HGET', KEYS[1], 'ttl')) then
    return { 'removed' }
  end
  return { 'lost' }
end
if type(added) == 'table' and added.err then
  -- A record of a number that is not the journal's last stands behind it.
  if string.find(added.err, 'equal or smaller', 1, true) then return { 'lost' } end
  return added
end
if tonumber(now) > tonumber(at) then at = now end
bytes = string.format('%.0f', bytes + #ARGV[11])
if head == '0' or tonumber(now) > tonumber(h[8]) then
  -- `outlive` of the other scripts. A renewal does it too, and comes more often; but
  -- nobody has to renew.
  local e = redis.call('HMGET', KEYS[1], 'keep', 'made')
  local largest = 9007199254740991
  local t, kept = redis.call('TIME'), math.min(tonumber(e[1]), largest / 8)
  local ms, grace = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[9])
  local span = kept + grace
  local again = math.min(now + span / 8, largest)
  span = span + math.max(0, math.min(h[2] - ms, largest / 8))
  local whole = span + math.max(kept, math.min(at - e[2], largest / 8)) + grace
  redis.call('HSET', KEYS[1], 'ttl', string.format('%.0f', ms + span),
    'again', string.format('%.0f', again))
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', span))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', whole))
  redis.call('ZADD', KEYS[3], string.format('%.0f', ms + whole), key)
end
if ARGV[12] then
  redis.call('HSET', KEYS[1], 'call', call,
    'pend', last .. ' ' .. status .. ' ' .. at .. ' ' .. bytes)
  return 1
end
if pend then redis.call('HDEL', KEYS[1], 'pend') end
if status == 'running' then
  redis.call('HSET', KEYS[1], 'head', last, 'at', at, 'bytes', bytes, 'call', call,
    'status', status)
else
  redis.call('HSET', KEYS[1], 'head', last, 'at', at, 'bytes', bytes, 'call', call,
    'status', status, 'lease', '')
end
-- A hint: where the user may not publish, readers look by themselves.
redis.pcall('PUBLISH', ARGV[10], call)
return 0

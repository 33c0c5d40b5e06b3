-- ARGV key gen token first last size status now call grace channel from mode frames
local key, gen, token, first, last, size = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local status, now, call, grace = ARGV[7], ARGV[8], ARGV[9], num(ARGV[10])
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'lease', 'head', 'at', 'bytes', 'call',
  'pend', 'gone', 'keep', 'ttl', 'made')
if not h[1] or h[9] then return { 'removed' } end
local pend = h[8]
if h[7] == call then
  -- The answer to this very append was lost on the way.
  if not pend then return 0 end
  redis.call('HSET', HEAD, 'touch', call)
  return 1
end
if h[1] ~= gen or h[2] ~= token then return { 'stale', h[1], h[2] } end
if h[3] == '' then return { 'back' } end
local head, at, bytes = h[4], h[5], h[6]
if pend then
  -- The append before this one was not acknowledged.
  local p_head, p_status, p_at, p_bytes = string.match(pend, '^(%d+) (%l+) (%d+) (%d+)$')
  if p_status ~= 'running' then return { 'back' } end
  head, at, bytes = p_head, p_at, p_bytes
end
if num(first) ~= num(head) + 1 then return { 'seq', head } end
local added
if head == '0' then
  added = redis.pcall('XADD', RECORDS, gen .. '-' .. last, 'r', ARGV[14])
else
  added = redis.pcall('XADD', RECORDS, 'NOMKSTREAM', gen .. '-' .. last, 'r', ARGV[14])
end
local ms = clock()
if not added then
  if ms >= num(h[11]) then return { 'removed' } end
  return { 'lost' }
end
if type(added) == 'table' and added.err then
  -- A record of a number that is not the journal's last stands behind it.
  if string.find(added.err, 'equal or smaller', 1, true) then return { 'lost' } end
  return added
end
if num(now) > num(at) then at = now end
bytes = text(num(bytes) + num(size))
if head == '0' or wanes(h[11], num(h[10]), ms, grace) then
  outlive(key, num(h[10]), h[3], num(at) - num(h[12]), ms, grace)
end
if ARGV[13] == 'wait' then
  redis.call('HSET', HEAD, 'call', call,
    'pend', last .. ' ' .. status .. ' ' .. at .. ' ' .. bytes)
  return 1
end
if pend then redis.call('HDEL', HEAD, 'pend') end
if status == 'running' then
  redis.call('HSET', HEAD, 'head', last, 'at', at, 'bytes', bytes, 'call', call, 'status', status)
else
  redis.call('HSET', HEAD, 'head', last, 'at', at, 'bytes', bytes, 'call', call,
    'status', status, 'lease', '')
end
wake(ARGV[11], ARGV[12])
return 0

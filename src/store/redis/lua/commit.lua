-- What enough replicas have is acknowledged.
-- ARGV gen last channel call
local h = redis.call('HMGET', HEAD, 'gen', 'pend', 'head', 'gone')
if not h[1] or h[4] or h[1] ~= ARGV[1] then return -1 end
if not h[2] then return num(h[3]) end
local head, status, at, bytes = string.match(h[2], '^(%d+) (%l+) (%d+) (%d+)$')
if num(head) > num(ARGV[2]) then return num(h[3]) end
redis.call('HDEL', HEAD, 'pend')
redis.call('HSET', HEAD, 'head', head, 'status', status, 'at', at, 'bytes', bytes)
if status ~= 'running' then redis.call('HSET', HEAD, 'lease', '') end
wake(ARGV[3], ARGV[4])
return num(head)

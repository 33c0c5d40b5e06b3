-- ARGV gen token
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'lease', 'gone')
if not h[1] or h[4] then return { 'removed' } end
if h[1] ~= ARGV[1] or h[2] ~= ARGV[2] then return { 'stale', h[1], h[2] } end
if h[3] ~= '' then redis.call('HSET', HEAD, 'lease', '') end
return 0

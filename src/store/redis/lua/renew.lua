-- ARGV key gen token lease grace
local h = redis.call('HMGET', HEAD, 'gen', 'token', 'lease', 'gone', 'keep', 'at', 'made')
if not h[1] or h[4] then return { 'removed' } end
if h[1] ~= ARGV[2] or h[2] ~= ARGV[3] then return { 'stale', h[1], h[2] } end
if h[3] == '' then return { 'back' } end
redis.call('HSET', HEAD, 'lease', ARGV[4])
outlive(ARGV[1], num(h[5]), ARGV[4], num(h[6]) - num(h[7]), h[6], clock(), num(ARGV[5]))
return 0

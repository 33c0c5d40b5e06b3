-- KEYS layout
-- ARGV kind layout buckets
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'kind', ARGV[1], 'layout', ARGV[2], 'buckets', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'kind', 'layout', 'buckets')

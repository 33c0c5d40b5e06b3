-- What a journal's hash says, and the values of its stream from a record on.
-- KEYS hash stream vanish
-- ARGV key gen from values bytes
-- Answers with the hash, Redis's clock, when the hash is due to vanish, and the
-- values: ID and frames, one after the other.
local t = redis.call('TIME')
local ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local hash = redis.call('HGETALL', KEYS[1])
local vanish = ''
if #hash == 0 then vanish = redis.call('ZSCORE', KEYS[3], ARGV[1]) or '' end
local out = { hash, string.format('%.0f', ms), vanish }
local values, bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local from, to = ARGV[2] .. '-' .. ARGV[3], ARGV[2] .. '-18446744073709551615'
local size = 0
-- In steps, so that what is over the limit is not even looked at.
while values > 0 and size < bytes and #hash > 0 do
  local step = math.min(values, 16)
  local entries = redis.call('XRANGE', KEYS[2], from, to, 'COUNT', step)
  for _, entry in ipairs(entries) do
    out[#out + 1] = entry[1]
    -- Other fields than ours are somebody else's, and told apart by the reader.
    out[#out + 1] = #entry[2] == 2 and entry[2][1] == 'r' and entry[2][2] or ''
    size = size + #out[#out]
    if size >= bytes then break end
  end
  if #entries < step then break end
  values = values - step
  from = '(' .. entries[#entries][1]
end
return out

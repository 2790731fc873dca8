-- The fingerprint of the secret key that all instances must share. The first instance stores its own; an instance with
-- the same fingerprint extends the expiry; an instance with another one gets the stored fingerprint.
--
-- KEYS[1]  the key of the stored fingerprint
-- ARGV[1]  the fingerprint of the caller
-- ARGV[2]  the expiry in milliseconds
--
-- The reply is the fingerprint that is stored afterwards.

local stored = redis.call('GET', KEYS[1])
if stored and stored ~= ARGV[1] then
  return stored
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]

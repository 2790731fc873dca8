-- What all instances that share the servers must have in common: the first one
-- writes it down, those that have the same keep it, and any other learns it.
--
-- KEYS[1]  where it is written down
-- ARGV[1]  what the caller has
-- ARGV[2]  for how long it is kept, in milliseconds
--
-- The reply is what is written down then.

local known = redis.call('GET', KEYS[1])
if known and known ~= ARGV[1] then
  return known
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]

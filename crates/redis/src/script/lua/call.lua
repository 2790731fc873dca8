-- Carries out one call: its lines in order, atomically. See script/mod.rs for
-- the layout of the argument, the values and the reply.
--
-- Numbers are doubles, so everything here is a whole number below 2^53: times
-- in microseconds since 1970, spans of time, counts. A quotient of two such
-- numbers, rounded down, is exact below 2^52.
--
-- A script does not roll back, so all lines work on records in `records`, and
-- what changed is written at the end.
--
-- A function costs time when it is made, also if it is never called: each
-- family of quotas makes its own only where the call has need of it, and what
-- is rarely needed only when it is.

local argument = ARGV[1]
local sub, format, floor, all = string.sub, string.format, math.floor, unpack
local unpack, pack = struct.unpack, struct.pack
local call = redis.call

local now, families, at = unpack('<dB', argument)
-- With a clock of the caller's own, keys must not run out by the server's.
local grace = 0
if now < 0 then
  local expiry = -now
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  -- The sender has given up and decided without this call. 1 stands for no expiry.
  if now > expiry and expiry > 1 then
    return now
  end
else
  grace = 1000000000
end


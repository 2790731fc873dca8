-- Executes one call: its operations in order, atomically. See script/mod.rs for the layout of the argument, the values
-- and the reply.
--
-- Numbers are doubles, so all values are integers below 2^53: times in microseconds since 1970, spans of time, counts.
-- A quotient of two such numbers, rounded down, is exact below 2^52.
--
-- A script does not roll back, so all operations change the tables in `records`, and changed keys are written at the
-- end.
--
-- Creating a function takes time, even if it is never called. So each family of quotas defines its functions only if
-- the call uses it, and rarely used functions are created on demand.

local argument = ARGV[1]
local sub, format, floor, all = string.sub, string.format, math.floor, unpack
local unpack, pack = struct.unpack, struct.pack
local call = redis.call

local now, families, at = unpack('<dB', argument)
-- With a time from the caller, keys must not expire by the server's clock.
local grace = 0
if now < 0 then
  local expiry = -now
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  -- The sender has given up and decided without this call. 1 means no expiry.
  if now > expiry and expiry > 1 then
    return now
  end
else
  grace = 1000000000
end

-- The fast path. Most calls are one decision on buckets that must all pass, each on a separate key. This handles those
-- whose keys were written by the same quota and show no clock that went back, without creating a single function. All
-- others
-- take the general path.
local PLAIN = 33
if families == PLAIN then
  local times, count, first = unpack('<I4I2', argument, at + 1)
  first = first + 2
  -- A command costs more than the value it returns, so all keys are read at once.
  local raws = count > 1 and count < 1000 and call('MGET', all(KEYS))
  if raws then
    local found = 0
    for index = 1, count do
      if raws[index] then
        found = found + 1
      end
    end
    -- MGET returns nil for values that are not strings; GET returns an error for them.
    if found < count and call('EXISTS', all(KEYS)) > found then
      raws = false
    end
  end
  -- Preallocated for most replies, so that the tables do not grow.
  local out = { now, 0, nil, nil, nil }
  local values, spans = { nil, nil, nil }, { nil, nil, nil }
  local is_plain, passed, wanted = true, times, times
  -- All requests are tried together. If fewer fit, the loop repeats with that number.
  repeat
    wanted = passed
    local from, shown = first, 2
    for index = 1, count do
      local _, prefix, price, bound, is_wide
      _, _, _, prefix, price, bound, _, is_wide, from = unpack('<BBI4Bc0dddB', argument, from)
      local raw
      if raws then
        raw = raws[index]
      else
        raw = call('GET', KEYS[index])
      end
      local used, tat = 0, 0
      if is_wide == 0 then
        if raw then
          local length = #prefix
          if sub(raw, 1, length) ~= prefix then
            is_plain = false
            break
          end
          tat = unpack('<I7', raw, length + 1)
          used = tat - now
          if used < 0 then
            used = 0
          elseif used > bound then
            is_plain = false
            break
          end
        end
        shown = shown + 1
        out[shown] = tat
        local after = used + wanted * price
        if after <= bound then
          values[index] = prefix .. pack('<I7', now + after)
          spans[index] = after
        else
          local most = floor((bound - used) / price)
          if most < passed then
            passed = most
          end
        end
      else
        local price_part, bound_part, den
        price_part, bound_part, den, from = unpack('<I3I3I3', argument, from)
        local part = 0
        if raw then
          local length = #prefix
          if sub(raw, 1, length) ~= prefix then
            is_plain = false
            break
          end
          tat, part = unpack('<I7I3', raw, length + 1)
          used = tat - now
        end
        out[shown + 1], out[shown + 2] = tat, part
        shown = shown + 2
        if used < 0 then
          used, part = 0, 0
        elseif used > bound or used == bound and part > bound_part then
          is_plain = false
          break
        end
        local most = 0
        while most < wanted do
          local after, after_part = used + price, part + price_part
          if after_part >= den then
            after, after_part = after + 1, after_part - den
          end
          if after > bound or after == bound and after_part > bound_part then
            break
          end
          used, part, most = after, after_part, most + 1
        end
        if most == wanted then
          values[index] = prefix .. pack('<I7I3', now + used, part)
          spans[index] = part > 0 and used + 1 or used
        elseif most < passed then
          passed = most
        end
      end
    end
  until passed == wanted or passed == 0 or not is_plain
  if is_plain then
    if passed > 0 then
      for index = 1, count do
        -- A number would be formatted as a double, which takes longer than everything else here.
        call('SET', KEYS[index], values[index], 'PX', format('%d', floor((spans[index] + 999) / 1000) + grace))
      end
    end
    out[2] = passed
    return out
  end
  families = 1
end

